# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces with a link between them: TCP that passes through more of the kernel than the loopback device.

Needs root and iproute2. Each namespace is a host to MPI: the link's addresses are host names, and `agent` stands in for
ssh. Everything is gone when the block is left.
"""
import contextlib, os, stat, subprocess

LINK = "hklink"
ADDRESSES = ("10.219.77.1", "10.219.77.2")


class Namespaces:
    def __init__(self, folder):
        self.names = (f"hocket-a-{os.getpid()}", f"hocket-b-{os.getpid()}")
        self.agent = f"{folder}/agent"
        with open(self.agent, "w") as file:
            # The host is the first word that is one of the addresses; what follows is the command.
            file.write(f"""#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    {ADDRESSES[0]}) space={self.names[0]} ; shift ; break ;;
    {ADDRESSES[1]}) space={self.names[1]} ; shift ; break ;;
  esac
  shift
done
# Under the name of another host: MPIs take equal ones for one host.
exec ip netns exec "$space" unshare --uts sh -c "hostname $space; $*"
""")
        os.chmod(self.agent, stat.S_IRWXU)

    def inside(self, command):
        return ["ip", "netns", "exec", self.names[0], *command]


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@contextlib.contextmanager
def made(folder):
    spaces = Namespaces(folder)
    a, b = spaces.names
    try:
        ip("netns", "add", a)
        ip("netns", "add", b)
        ip("-n", a, "link", "add", LINK, "type", "veth", "peer", "name", LINK, "netns", b)
        for name, address in zip(spaces.names, ADDRESSES):
            ip("-n", name, "address", "add", f"{address}/30", "dev", LINK)
            ip("-n", name, "link", "set", LINK, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield spaces
    finally:
        for name in spaces.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
