# SPDX-License-Identifier: Apache-2.0
"""Who is compared, each in the settings that may be its best. A library's cell is that of its fastest setting.

Open MPI and MPICH are Debian's (openmpi-bin libopenmpi-dev mpich libmpich-dev), Gloo is libgloo-dev. UCC is used where
its headers and libraries are found, under $UCC_PREFIX (and $UCX_PREFIX) if these are set.
"""
import dataclasses, os, shlex, shutil, subprocess

import netns

CORES = len(os.sched_getaffinity(0))
FLAGS = ["-O3", "-march=native", "-std=c++20"]
REDUCTIONS_AND_BROADCAST = ("all_reduce", "broadcast")


@dataclasses.dataclass
class Setting:
    library: str
    name: str  # unique; as in the results
    command: list
    env: dict
    collectives: tuple = ()  # empty: all
    most_ranks: int = 0  # 0: any


def build(root, out, say, only=()):
    """The programs of all peers that are installed, by name. `out` is a folder; `only`: of these names."""
    os.makedirs(out, exist_ok=True)
    source = f"{root}/bench/peers"
    ucc = os.environ.get("UCC_PREFIX", "")
    ucx = os.environ.get("UCX_PREFIX", ucc)
    ucc_flags = [f"-I{p}/include" for p in (ucc, ucx) if p]
    ucc_libraries = [f for p in (ucc, ucx) if p for f in (f"-L{p}/lib", f"-Wl,-rpath,{p}/lib")] + ["-lucc"]
    jobs = {
        "limits": (["g++", *FLAGS, f"-I{root}"], f"{root}/bench/micro/limits.cpp", []),
        "mpi_perf.openmpi": (["mpicxx.openmpi", *FLAGS], f"{source}/mpi_perf.cpp", []),
        "mpi_perf.mpich": (["mpicxx.mpich", *FLAGS], f"{source}/mpi_perf.cpp", []),
        "gloo_perf": (["g++", *FLAGS], f"{source}/gloo_perf.cpp", ["-lgloo", "-lpthread"]),
        "ucc_perf": (["g++", *FLAGS, *ucc_flags], f"{source}/ucc_perf.cpp", ucc_libraries),
    }
    built = {}
    for name, (compiler, file, libraries) in jobs.items():
        if only and name not in only:
            continue
        program = f"{out}/{name}"
        if not os.path.exists(file) or not shutil.which(compiler[0]):
            say(f"{name}: {compiler[0]} is not installed")
            continue
        newest = max(os.path.getmtime(f) for f in (file, f"{source}/harness.hpp"))
        if not os.path.exists(program) or os.path.getmtime(program) < newest:
            done = subprocess.run([*compiler, file, "-o", program, *libraries], capture_output=True, text=True)
            if done.returncode:
                if name == "ucc_perf":
                    say("UCC is not found (UCC_PREFIX): its cells are estimated")
                    continue
                why = next((l for l in done.stderr.splitlines() if "error" in l or "cannot find" in l), "?")
                say(f"{name} is left out: {why.strip()}")
                continue
        built[name] = program
    return built


def spaces_of(spaces):
    return [word for name in spaces.names for word in ("--namespace", name)] if spaces else []


def openmpi(program, ranks, *mca, env=(), hosts=""):
    command = ["mpirun.openmpi", "-np", str(ranks), "--bind-to", "none", "--oversubscribe"]
    if hosts:
        command += ["--host", hosts]
    for key, value in (("btl_base_warn_component_unused", "0"), *mca):
        command += ["--mca", key, value]
    if ranks > CORES:
        command += ["--mca", "mpi_yield_when_idle", "1"]
    for variable in env:
        command += ["-x", variable]
    return command + [program]


def mpich(program, ranks, hosts="", agent="", **env):
    command = ["mpirun.mpich", "-iface", netns.LINK if hosts else "lo", "-np", str(ranks)]
    if hosts:
        command += ["-launcher", "rsh", "-launcher-exec", agent, "-hosts", hosts]
    if ranks > CORES:
        env["MPIR_CVAR_POLLS_BEFORE_YIELD"] = "1"
    for key, value in env.items():
        command += ["-genv", key, value]
    return command + [program]


AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
COPY = {"UCX_TLS": "posix,self", "UCX_NET_DEVICES": "lo"}
ATTACH = {"UCX_TLS": "posix,cma,self", "UCX_NET_DEVICES": "lo"}
TCP = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}


def settings(programs, transport, ranks, spaces=None):
    """The peers' settings for that transport, the likely fastest first: slower ones are then given up early. `spaces`:
    the network namespaces that ranks are in by turns."""
    found = []

    def add(library, name, program, command, env=None, **more):
        if program in programs:
            found.append(Setting(library, name, command(programs[program]), dict(env or {}), **more))

    ucx = (("pml", "ucx"), ("osc", "ucx"), ("pml_ucx_tls", "any"), ("pml_ucx_devices", "any"))
    vader = (("pml", "ob1"), ("btl", "vader,self"))
    copied = (*vader, ("btl_vader_single_copy_mechanism", "none"))
    apart = spaces_of(spaces)
    own = lambda *more: lambda program: [program, "--ranks", str(ranks), *apart, *more]
    pairs = lambda env: [f"{k}={v}" for k, v in env.items()]
    if transport == "shm":
        # Within a host each has three ways: copies through shared memory, cross-memory attach, Open MPI's coll/sm.
        # MPICH and coll/sm poll without yielding: hopeless with more ranks than cores.
        add("UCC", "ucc", "ucc_perf", own(), ATTACH)
        add("UCC", "ucc-copy", "ucc_perf", own(), COPY)
        add("Open MPI", "openmpi-ucx", "mpi_perf.openmpi", lambda p: openmpi(p, ranks, *ucx, env=pairs(COPY)), AS_ROOT)
        add("Open MPI", "openmpi-coll-sm", "mpi_perf.openmpi",
            lambda p: openmpi(p, ranks, *copied, ("coll_sm_priority", "90")), AS_ROOT,
            collectives=REDUCTIONS_AND_BROADCAST, most_ranks=CORES)
        add("Open MPI", "openmpi-copy", "mpi_perf.openmpi", lambda p: openmpi(p, ranks, *copied), AS_ROOT)
        add("Open MPI", "openmpi", "mpi_perf.openmpi", lambda p: openmpi(p, ranks, *vader), AS_ROOT)
        add("Open MPI", "openmpi-ucx-attach", "mpi_perf.openmpi",
            lambda p: openmpi(p, ranks, *ucx, env=pairs(ATTACH)), AS_ROOT)
        add("MPICH", "mpich", "mpi_perf.mpich", lambda p: mpich(p, ranks, **ATTACH), most_ranks=CORES)
        add("MPICH", "mpich-copy", "mpi_perf.mpich", lambda p: mpich(p, ranks, **COPY), most_ranks=CORES)
    if transport == "netns":
        link = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": netns.LINK}
        share = [(ranks + 1) // 2, ranks // 2]
        hosts = ",".join(f"{address}:{n}" for address, n in zip(netns.ADDRESSES, share))
        add("UCC", "ucc-tcp", "ucc_perf", own(), link)
        # By node, so that neighbours are apart, as hocket's and UCC's are.
        add("Open MPI", "openmpi-tcp", "mpi_perf.openmpi",
            lambda p: spaces.inside(openmpi(p, ranks, ("pml", "ob1"), ("btl", "tcp,self"),
                                            ("btl_tcp_if_include", netns.LINK), ("oob_tcp_if_include", netns.LINK),
                                            ("plm_rsh_agent", spaces.agent), ("plm_rsh_no_tree_spawn", "1"),
                                            ("rmaps_base_mapping_policy", "node"), ("orte_keep_fqdn_hostnames", "1"),
                                            hosts=hosts)), AS_ROOT)
        add("MPICH", "mpich-tcp", "mpi_perf.mpich",
            lambda p: spaces.inside(mpich(p, ranks, hosts=hosts, agent=spaces.agent, **link)), most_ranks=CORES)
    if transport == "tcp":
        add("UCC", "ucc-tcp", "ucc_perf", own(), TCP)
        add("Open MPI", "openmpi-tcp", "mpi_perf.openmpi",
            lambda p: openmpi(p, ranks, ("pml", "ob1"), ("btl", "tcp,self"), ("btl_tcp_if_include", "lo")), AS_ROOT)
        add("MPICH", "mpich-tcp", "mpi_perf.mpich", lambda p: mpich(p, ranks, **TCP), most_ranks=CORES)
    where = {f"GLOO_PERF_HOST_{i}": a for i, a in enumerate(netns.ADDRESSES)} if spaces else {}
    add("Gloo", "gloo", "gloo_perf", own("--setting", "ring"), where)
    for how in ("bcube", "halving_doubling", "ring_chunked"):
        add("Gloo", f"gloo-{how.replace('_', '-')}", "gloo_perf", own("--setting", how), where,
            collectives=("all_reduce",))
    return [s for s in found if s.most_ranks == 0 or ranks <= s.most_ranks]


def hocket(program, transport, memory, ranks, spaces=None):
    env = {"HOCKET_TRANSPORT": "tcp"} if transport in ("tcp", "netns") else {}
    command = [program, "--ranks", str(ranks), *spaces_of(spaces)]
    if memory == "symmetric":
        command.append("--symmetric")
    if memory == "threads":
        command.append("--threads")
    extra = os.environ.get("COMPARE_HOCKET_ARGUMENTS", "")
    return Setting("hocket", "hocket", command + shlex.split(extra), env)


def limit(programs, ranks):
    return Setting("limit", "limit", [programs["limits"], "--ranks", str(ranks)], {})


def probe(programs):
    return Setting("probe", "probe", [programs["limits"], "--ranks", "2"], {})
