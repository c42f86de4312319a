// SPDX-License-Identifier: Apache-2.0
// topo/graph_bytes.cpp: a Graph as bytes, for the other ranks of a host and for its digest.
//
// Little-endian, no padding: magic, version, payload, 8 bytes of hash over everything before. The bytes come from
// another process, so every length is checked against what is left before anything is allocated for it.
#include <bit>
#include <cstring>

#include "base/status.hpp"
#include "topo/graph.hpp"
#include "topo/hash.hpp"

namespace hocket::topo {

namespace {

constexpr std::string_view kMagic = "hkgr";
constexpr std::uint8_t kVersion = 2;

class Writer {
 public:
  void u8(std::uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void u64(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) u8(static_cast<std::uint8_t>(value >> (8 * i)));
  }
  // Small numbers, which nearly all are, take one byte: 7 bits each, lowest first.
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) u8(static_cast<std::uint8_t>(value) | 0x80);
    u8(static_cast<std::uint8_t>(value));
  }
  void real(double value) { u64(std::bit_cast<std::uint64_t>(value)); }
  void text(std::string_view value) {
    number(value.size());
    bytes_.append(value);
  }
  void set(const CpuSet& value) { text(value.to_string()); }
  void rate(const Rate& value) {
    u8(static_cast<std::uint8_t>(value.origin));
    if (value.known()) real(value.bytes_per_second);
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

// After the first bad read every read gives zero, so that a caller checks once at the end of each loop.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  std::uint8_t u8() {
    if (rest_.empty()) return fail(), 0;
    const auto value = static_cast<std::uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return value;
  }
  std::uint64_t u64() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value |= static_cast<std::uint64_t>(u8()) << (8 * i);
    return value;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint8_t byte = u8();
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
    return fail(), 0;
  }
  // Numbers that may be -1 are written plus one.
  int integer(int lowest) {
    const std::uint64_t value = number();
    if (value > 0x7ffffff0u) return fail(), lowest;
    return static_cast<int>(value) + lowest;
  }
  double real() { return std::bit_cast<double>(u64()); }
  std::string text() {
    const std::uint64_t length = number();
    if (length > rest_.size()) return fail(), std::string();
    std::string value(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return value;
  }
  CpuSet set() {
    Result<CpuSet> value = CpuSet::parse_list(text());
    if (!value.ok()) return fail(), CpuSet();
    return std::move(*value);
  }
  Rate rate() {
    Rate value;
    value.origin = static_cast<Origin>(u8());
    if (value.known()) value.bytes_per_second = real();
    return value;
  }
  // How many elements follow; each takes at least one byte, which bounds what a lie can make us allocate.
  std::size_t elements() {
    const std::uint64_t value = number();
    if (value > rest_.size()) return fail(), 0;
    return value;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  void fail() {
    ok_ = false;
    rest_ = {};
  }
  std::string_view rest_;
  bool ok_ = true;
};

void write_machine(const Graph& graph, Writer* out) {
  out->set(graph.cpus.online);
  out->set(graph.cpus.allowed);
  out->real(graph.cpus.quota_cpus);
  out->number(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    out->u8(static_cast<std::uint8_t>(node.kind));
    out->number(static_cast<std::uint64_t>(node.parent + 1));
    out->number(static_cast<std::uint64_t>(node.index));
    out->number(static_cast<std::uint64_t>(node.os_index + 1));
    out->text(node.name);
    out->set(node.cpus);
    out->number(node.bytes);
    out->rate(node.rate);
    out->number(node.attributes.size());
    for (const auto& [key, value] : node.attributes) {
      out->text(key);
      out->text(value);
    }
  }
  out->number(graph.edges.size());
  for (const Edge& edge : graph.edges) {
    out->u8(static_cast<std::uint8_t>(edge.kind));
    out->number(static_cast<std::uint64_t>(edge.from));
    out->number(static_cast<std::uint64_t>(edge.to));
    out->number(static_cast<std::uint64_t>(edge.links));
    out->rate(edge.rate);
    out->real(edge.latency_seconds);
  }
}

void read_machine(Reader* in, Graph* graph) {
  graph->cpus.online = in->set();
  graph->cpus.allowed = in->set();
  graph->cpus.quota_cpus = in->real();
  for (std::size_t left = in->elements(); left > 0 && in->ok(); --left) {
    Node node;
    node.kind = static_cast<NodeKind>(in->u8());
    node.parent = in->integer(-1);
    node.index = in->integer(0);
    node.os_index = in->integer(-1);
    node.name = in->text();
    node.cpus = in->set();
    node.bytes = in->number();
    node.rate = in->rate();
    for (std::size_t more = in->elements(); more > 0 && in->ok(); --more) {
      std::string key = in->text();
      node.attributes.emplace_back(std::move(key), in->text());
    }
    graph->nodes.push_back(std::move(node));
  }
  for (std::size_t left = in->elements(); left > 0 && in->ok(); --left) {
    Edge edge;
    edge.kind = static_cast<EdgeKind>(in->u8());
    edge.from = in->integer(0);
    edge.to = in->integer(0);
    edge.links = in->integer(0);
    edge.rate = in->rate();
    edge.latency_seconds = in->real();
    graph->edges.push_back(edge);
  }
}

}  // namespace

std::uint64_t Graph::digest() const {
  Writer out;
  write_machine(*this, &out);
  return hash_bytes(out.bytes(), kVersion);
}

std::string Graph::to_bytes() const {
  Writer out;
  out.bytes().append(kMagic);
  out.u8(kVersion);
  out.text(host_id);
  out.text(source);
  out.number(notes.size());
  for (const std::string& note : notes) out.text(note);
  write_machine(*this, &out);
  out.u64(hash_bytes(out.bytes()));
  return std::move(out.bytes());
}

Result<Graph> Graph::from_bytes(std::string_view bytes) {
  constexpr std::size_t kLeast = 4 + 1 + 8;
  if (bytes.size() < kLeast || bytes.substr(0, 4) != kMagic)
    return error(Code::kInvalidArgument, "graph: {} bytes that are not a topology", bytes.size());
  if (static_cast<std::uint8_t>(bytes[4]) != kVersion)
    return error(Code::kInvalidArgument, "graph: form {}, this release reads form {}; run one release on all ranks",
                 static_cast<unsigned char>(bytes[4]), kVersion);
  const std::string_view payload = bytes.substr(0, bytes.size() - 8);
  if (Reader(bytes.substr(payload.size())).u64() != hash_bytes(payload))
    return error(Code::kInvalidArgument, "graph: {} bytes are damaged: their hash differs", bytes.size());
  Reader in(payload.substr(5));
  Graph graph;
  graph.host_id = in.text();
  graph.source = in.text();
  for (std::size_t left = in.elements(); left > 0 && in.ok(); --left) graph.notes.push_back(in.text());
  read_machine(&in, &graph);
  if (!in.ok() || !in.at_end())
    return error(Code::kInvalidArgument, "graph: {} bytes are not a whole topology", bytes.size());
  HOCKET_TRY(graph.check());
  return graph;
}

}  // namespace hocket::topo
