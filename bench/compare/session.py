# SPDX-License-Identifier: Apache-2.0
"""Programs under test: started once, then told what to measure over a Unix socket (bench/peers/harness.hpp).

A Program's ranks sleep while others are measured. Whatever goes wrong with one is a Lost with its last words; the others
go on.
"""
import os, shutil, signal, socket, subprocess, tempfile


class Lost(Exception):
    """A program ended, or did not answer in time; or it refused. Its cells stay empty."""


class Program:
    def __init__(self, name, command, env, folder, start_s=30):
        self.name = name
        self.folder = folder
        self.process = None
        self.connection = None
        self.buffer = b""
        tag = "".join(c if c.isalnum() else "-" for c in name)
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else folder
        self.segment = os.path.join(memory, f"hocket-compare-{os.getpid()}-{tag}")
        self.said = os.path.join(folder, tag + ".err")
        path = os.path.join(folder, tag + ".sock")
        with socket.socket(socket.AF_UNIX) as listener, open(self.said, "w") as said:
            listener.bind(path)
            listener.listen(1)
            listener.settimeout(0.2)
            self.process = subprocess.Popen(
                command + ["--socket", path, "--segment", self.segment],
                env=dict(os.environ, **env), stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True)
            for _ in range(int(start_s / 0.2)):
                try:
                    self.connection, _ = listener.accept()
                    break
                except socket.timeout:
                    if self.process.poll() is not None:
                        break
        if self.connection is None:
            raise Lost(self.close("it did not start"))
        self.read_line(start_s)

    def read_line(self, seconds):
        self.connection.settimeout(seconds)
        while b"\n" not in self.buffer:
            try:
                more = self.connection.recv(4096)
            except socket.timeout:
                raise Lost(self.close(f"no answer within {seconds:.0f} s")) from None
            except OSError as problem:
                raise Lost(self.close(str(problem))) from None
            if not more:
                raise Lost(self.close("it ended"))
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode(errors="replace")

    def ask(self, line, seconds=40):
        """The answer's values, by name."""
        if self.connection is None:
            raise Lost("it is not running")
        try:
            self.connection.sendall(line.encode() + b"\n")
        except OSError as problem:
            raise Lost(self.close(str(problem))) from None
        answer = self.read_line(seconds)
        if not answer.startswith("ok"):
            raise Lost(f"'{line}': {answer}")
        return {k: float(v) for k, _, v in (word.partition("=") for word in answer.split()[1:]) if v}

    def close(self, why=""):
        """Ends all its processes: they are a session of their own. Returns `why` with what it last said."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self.process is not None:
            try:
                self.process.wait(0.5 if why else 3)
            except subprocess.TimeoutExpired:
                for sign in (signal.SIGTERM, signal.SIGKILL):
                    try:
                        os.killpg(self.process.pid, sign)
                        self.process.wait(2)
                        break
                    except subprocess.TimeoutExpired:
                        continue
                    except ProcessLookupError:
                        break
        if os.path.exists(self.segment):
            os.unlink(self.segment)
        shutil.rmtree(self.segment + ".store", ignore_errors=True)
        try:
            with open(self.said, errors="replace") as said:
                lines = [line.strip() for line in said if line.strip()]
        except OSError:
            lines = []
        return f"{why}: {lines[-1]}" if why and lines else why


class Session:
    """All programs of one world (transport, memory, ranks), started when first needed."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="hocket-compare-")
        self.programs = {}
        self.lost = {}

    def program(self, setting):
        if setting.name in self.lost:
            raise Lost(self.lost[setting.name])
        if setting.name not in self.programs:
            try:
                self.programs[setting.name] = Program(setting.name, setting.command, setting.env, self.folder)
            except Lost as lost:
                self.lost[setting.name] = str(lost)
                raise
        return self.programs[setting.name]

    def drop(self, name, why):
        self.lost[name] = why
        program = self.programs.pop(name, None)
        if program is not None:
            program.close("lost")

    def close(self):
        for program in self.programs.values():
            program.close()
        self.programs.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
