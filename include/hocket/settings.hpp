// SPDX-License-Identifier: Apache-2.0
// settings.hpp: everything about hocket that can be set, with its variable, unit and default.
//
// Settings are read once per communicator. Set the fields in code, or take them from the environment and change some.
// Nothing here has to be set: what hocket can find out about a machine, it finds out itself.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "hocket/log.hpp"
#include "hocket/status.hpp"

namespace [[gnu::visibility("default")]] hocket {

struct Tuner;  // hocket/tuner.hpp

/// The settings of one communicator.
///
/// Lists of names (algo, proto, transport) are written as in NCCL: "ring,tree" allows these two, "^ring" all but ring,
/// "tree;broadcast:chain,ring" chain and ring for broadcast and tree for the rest, empty all. Collectives are named
/// all_reduce or allreduce; upper and lower case are the same.
///
/// Of these, algo, proto, transport, tile_bytes, slot_bytes, slots, lanes, reproducible, drain and
/// flight_recorder_entries must be equal on all ranks of a communicator; creating one with different values fails on
/// every rank, with both values in the error.
struct Settings {
  /// HOCKET_ALGO: list of algorithms that may be chosen. Names for all collectives say nothing of one that has none of
  /// them: "ring" leaves the barrier alone. Default: empty, all of them.
  std::string algo;

  /// HOCKET_PROTO: list of protocols that may be chosen. Default: empty, all of them.
  std::string proto;

  /// HOCKET_TRANSPORT: list of transports that may be used between two ranks, e.g. "local,shm". Default: empty, all.
  std::string transport;

  /// HOCKET_WARN_AFTER, seconds, fractions allowed: a call that waits longer for a peer says for whom, again at
  /// doubling intervals. 0 is never. Default: 30.
  std::chrono::nanoseconds warn_after = std::chrono::seconds(30);

  /// HOCKET_TIMEOUT, seconds, fractions allowed: a call that makes no progress for that long fails with kTimeout on all
  /// ranks. 0 is never. Default: 0.
  std::chrono::nanoseconds timeout = std::chrono::seconds(0);

  /// HOCKET_START_TIMEOUT, seconds, fractions allowed: the time for all ranks to meet when a communicator is made.
  /// 0 is forever. Default: 120.
  std::chrono::nanoseconds start_timeout = std::chrono::seconds(120);

  /// HOCKET_TILE_BYTES, bytes (suffixes K, M, G): length of the pieces in which a chunk travels; a multiple of 16, at
  /// most slot_bytes. 0 leaves it to the choice of algorithm. Default: 0.
  std::size_t tile_bytes = 0;

  /// HOCKET_SLOT_BYTES, bytes (suffixes K, M, G): memory of one slot of a channel; a power of two from 4K to 4M. 0:
  /// 64K, or where ranks reach each other over a network 256K up to four ranks, else 128K. Default: 0.
  std::size_t slot_bytes = 0;

  /// HOCKET_SLOTS: slots of a channel, that is how many transfers may be in flight on it; a power of two from 2 to 64.
  /// 0 takes more the fewer ranks there are (16 for two, 8 up to four, else 4; over a network 8 for two, else 4): a
  /// ring of slots that is larger than one core's cache moves faster between cores. Default: 0.
  int slots = 0;

  /// HOCKET_LANES: lanes of a plan, that is how many threads or thread blocks may work on one call; 1 to 8. 0 leaves
  /// it to the choice. Default: 0.
  int lanes = 0;

  /// HOCKET_REPRODUCIBLE, 0 or 1: every element of a reduction is reduced in rank order, in float or wider, and rounded
  /// once, so that its bits depend on nothing but the inputs: not on the buffer's size, its place, the transport or the
  /// timing. Algorithms that reduce in another order are ruled out; up to 128 ranks. Default: 0.
  bool reproducible = false;

  /// HOCKET_DRAIN, 0 or 1: a call returns only when all ranks have taken what it sent. So a rank that makes another
  /// call is met in that very call, where otherwise a broadcast's root, say, may be some calls ahead and learns of it
  /// within 100 ms, from its next call. Costs such calls a round trip. Between hosts it is always so. Default: 0.
  bool drain = false;

  /// HOCKET_TUNING, file: a table by `hocket tune`, measured on this kind of machine, that says which algorithm,
  /// protocol and tile a call uses where algo, proto and tile_bytes leave it open. Names may differ between ranks, the
  /// tables' rows must not: that is checked as above. Read when a communicator is made; communicators that are made of
  /// it have its table. Default: empty, the table that is built in.
  std::string tuning;

  /// HOCKET_SPIN, microseconds or "auto": how long a waiting thread spins before it sleeps; up to 1000000. Default:
  /// auto: 50, over a network 200, and hardly at all where the host has fewer cores than ranks.
  std::optional<std::chrono::microseconds> spin;

  /// HOCKET_HOST_ID: ranks with the same text share a host; up to 255 bytes. Default: empty, the kernel's boot id.
  std::string host_id;

  /// HOCKET_TOPO_FILE (or NCCL_TOPO_FILE), file: GPUs, NICs and the links between them as this file has them, in any
  /// form that `hocket topo --from` reads, in place of what is found; CPUs and memory stay those of the machine. For
  /// virtual machines that hide them. Default: empty, what is found.
  std::string topo_file;

  /// HOCKET_GPU: the GPU that this rank works for, by the driver's number ("3") or its PCI address ("0000:3b:00.0"), or
  /// "local": the one whose number is the rank's place among the ranks of its host. Rings and trees then follow the
  /// links of the GPUs, and traffic to other hosts the NICs near them. Where only some ranks of a host have one, or two
  /// have the same, its ranks go in rank order. Default: empty, none.
  std::string gpu;

  /// HOCKET_GRAPH_DUMP_FILE (or NCCL_GRAPH_DUMP_FILE), file: the rings and trees that suit the GPUs of a host are
  /// written here, in NCCL's XML, by one rank of it. Default: empty, nowhere.
  std::string graph_dump_file;

  /// HOCKET_INTERFACE: the network interfaces that other hosts may reach this one by, as in NCCL: "eth,ib" those whose
  /// names begin so, "=eth0" exactly this one, "^docker" all but those. Default: empty, all that are up; ordinary ones
  /// before link-local addresses, bridges of containers last.
  std::string interfaces;

  /// HOCKET_PORTS, "first-last" or one number: the TCP ports to listen on, for hosts with a firewall. Default: empty,
  /// the kernel chooses.
  std::string ports;

  /// HOCKET_TCP_STREAMS: TCP connections to each peer process that is reached by tcp, 1 to 8. 0: one to a process of
  /// this host, two to others. Default: 0.
  int tcp_streams = 0;

  /// HOCKET_LINK_TIMEOUT, seconds, fractions allowed: a peer whose host acknowledges nothing on a network connection
  /// for that long is lost; its process may stand still for longer. 0 is never. Default: 5.
  std::chrono::nanoseconds link_timeout = std::chrono::seconds(5);

  /// HOCKET_LOG: error, warn, info, debug or trace: the level for the whole process, see log.hpp. Default: empty, the
  /// level stays what it is (warn at first).
  std::optional<LogLevel> log;

  /// HOCKET_FLIGHT_RECORDER, entries: how many of its last calls a communicator remembers; 16 to 1048576. Default:
  /// 1024.
  std::size_t flight_recorder_entries = 1024;

  /// HOCKET_FENCE, 0 or 1: whether shrink may kill the processes of excluded ranks that could still write to memory of
  /// the survivors. Default: 0, shrink then refuses where it matters.
  bool fence_excluded = false;

  /// HOCKET_TRACE, file: where each process writes its calls, and its waits of more than 10 us in them, as a trace for
  /// Perfetto (ui.perfetto.dev) or chrome://tracing. "{rank}" and "{pid}" in the name are replaced; without them
  /// "t.json" is t.0.json for rank 0. Default: empty, no trace.
  std::string trace;

  /// HOCKET_METRICS, file: where each process writes, every 5 seconds, counts, bytes and bandwidths of its calls as
  /// text for Prometheus (node_exporter's textfile collector). Named as HOCKET_TRACE's. Default: empty, none.
  std::string metrics;

  /// The program's own say in which algorithm a call uses (hocket/tuner.hpp), in code only. All ranks need one with the
  /// same name and version, or none; communicators that are made of this one have it, too. Default: null, none.
  std::shared_ptr<const Tuner> tuner;

  /// The settings that the environment asks for, the defaults where it says nothing. A variable that is set to nothing
  /// counts as not set.
  ///
  /// A malformed value is kInvalidArgument with the variable, its value and what is accepted. An unknown variable that
  /// begins with HOCKET_ is warned about once, by one process of a host, with the nearest known name. Sets the log
  /// level when HOCKET_LOG is set. Any thread, as long as none changes the environment.
  static Result<Settings> from_environment();
};

}  // namespace gnu::visibility("default")]]hocket
