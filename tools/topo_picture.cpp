// SPDX-License-Identifier: Apache-2.0
// tools/topo_picture.cpp: see topo_picture.hpp. Everything has got its place (topo_places.hpp) and is
// drawn from back to front.
#include "tools/topo_picture.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/format.hpp"
#include "tools/topo_places.hpp"

namespace {

using hocket::format;
using hocket::topo::EdgeKind;
using hocket::topo::Graph;
using hocket::topo::Link;
using hocket::topo::Node;
using hocket::topo::NodeKind;
using hocket::topo::Paths;
namespace topo = hocket::topo;

constexpr std::size_t kMostRings = 12;
constexpr std::size_t kMostTrees = 4;  // as many as plans follow
constexpr const char* kColours[] = {"#d1495b", "#2e86ab", "#3c9d5f", "#e09f3e", "#7b4ea3", "#1b998b",
                                    "#c2185b", "#5c7cfa", "#8d6e63", "#689f38", "#f4511e", "#455a64"};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return out;
}

class Picture {
 public:
  Picture(const Paths& paths, const topo::SearchResult& result, const topo::NicPlan& nics, const std::string& title)
      : paths_(paths), graph_(paths.graph()), result_(result), nics_(nics), title_(title) {
    for (const topo::NicUse& use : nics.nics) {
      if (!use.aside.empty()) aside_[use.nic] = use.aside;
    }
    loads_.assign(paths.links().size(), 0);
    if (result.machine.loads.size() == loads_.size()) loads_ = result.machine.loads;
    PicturePlaces places = place_devices(graph_, aside_);
    boxes_ = std::move(places.boxes);
    leaf_y_ = places.leaf_y;
    width_ = places.width;
  }

  std::string draw() {
    draw_pci();
    draw_islands();
    draw_rings();
    draw_trees();
    draw_boxes();
    draw_words();
    return format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" font-family="
               "\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
               width_, bottom_ + kPictureGap, width_) +
           back_ + front_ + "</svg>\n";
  }

 private:
  const Node& at(int node) const { return graph_.nodes[static_cast<std::size_t>(node)]; }

  // ---- Lines

  static std::string load_colour(double part) {
    if (part <= 0) return "#b0b7bf";
    // From orange to red.
    return format("#{:02x}{:02x}40", 0xd8, static_cast<int>(0xa0 - 0x70 * std::min(part, 1.0)));
  }

  void line(std::string* out, double x1, double y1, double x2, double y2, const std::string& colour, double thick,
            const std::string& tip) {
    *out += format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{:.1f}\"><title>{}"
        "</title></line>\n",
        x1, y1, x2, y2, colour, thick, escaped(tip));
  }

  void text(std::string* out, double x, double y, const std::string& words, const std::string& more = "") {
    *out += format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, more, escaped(words));
    // Lines of text begin at the left edge; nothing measures them before a browser does.
    const double letter = more.find("bold") == more.npos ? 5.9 : 8.8;
    if (x == kPictureGap) width_ = std::max(width_, x + letter * static_cast<double>(words.size()) + kPictureGap);
  }

  // The nearest node above that has a box.
  int drawn_above(int node) const {
    int above = at(node).parent;
    while (above >= 0 && !boxes_.contains(above)) above = at(above).parent;
    return above;
  }

  void draw_pci() {
    for (std::size_t i = 0; i < paths_.links().size(); i += 2) {
      const Link& link = paths_.links()[i];
      if (link.kind == EdgeKind::kPcie || link.kind == EdgeKind::kC2c) {
        const int lower = link.to;
        const int upper = link.kind == EdgeKind::kC2c ? link.from : drawn_above(lower);
        if (upper < 0 || !boxes_.contains(lower) || !boxes_.contains(upper)) continue;
        const PictureBox& below = boxes_[lower];
        const PictureBox& above = boxes_[upper];
        const double load = std::max(loads_[i], loads_[i + 1]);
        const std::string tip = format("{:.3g} GB/s each way, rings use {:.3g} and {:.3g}", link.bytes_per_second / 1e9,
                                       loads_[i] / 1e9, loads_[i + 1] / 1e9);
        const double shift = link.kind == EdgeKind::kC2c ? 14 : 0;
        const double x2 = std::clamp(below.middle(), above.x + 4, above.x + above.width - 4) + shift;
        line(&back_, below.middle() + shift, below.y, x2, above.bottom(),
             link.kind == EdgeKind::kC2c ? "#6a4c93" : load_colour(load / link.bytes_per_second),
             1 + std::log2(1 + link.bytes_per_second / 1e10), tip);
        text(&back_, (below.middle() + x2) / 2 + 3 + shift, (below.y + above.bottom()) / 2 + 3,
             format("{:.3g}", link.bytes_per_second / 1e9), "font-size=\"9\" fill=\"#667\"");
      } else if (link.kind == EdgeKind::kSocket && boxes_.contains(link.from) && boxes_.contains(link.to)) {
        // Only neighbours in the picture: with many domains the rest would hide everything.
        const PictureBox& left = boxes_[link.from];
        const PictureBox& right = boxes_[link.to];
        if (std::abs(right.x - (left.x + left.width)) > 3 * kPictureGap) continue;
        const double load = std::max(loads_[i], loads_[i + 1]);
        line(&back_, left.x + left.width, left.y + 13, right.x, right.y + 13, load_colour(load / link.bytes_per_second),
             4, format("{:.3g} GB/s each way", link.bytes_per_second / 1e9));
      }
    }
  }

  // A bar of NVSwitches under its GPUs, arcs between the GPUs of a mesh, or both.
  void draw_islands() {
    const double row = leaf_y_ + kPictureLeafHeight;
    bottom_ = row + 20;
    for (const topo::Island& island : result_.islands) {
      if (island.kind == topo::IslandKind::kSwitched || island.kind == topo::IslandKind::kMixed) {
        double left = 1e9;
        double right = 0;
        for (const int gpu : island.gpus) {
          left = std::min(left, boxes_[gpu].x);
          right = std::max(right, boxes_[gpu].x + boxes_[gpu].width);
        }
        const double y = row + 40;
        back_ += format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"20\" rx=\"4\" fill=\"#dcefe2\" "
            "stroke=\"#3c9d5f\"/>\n",
            left, y, right - left, 20.0);
        const bool alike = island.kind == topo::IslandKind::kSwitched;
        text(&back_, (left + right) / 2, y + 14,
             alike ? format("NVSwitch, {} links a GPU", island.links) : std::string("NVSwitch"),
             "text-anchor=\"middle\"");
        for (const Link& link : paths_.links()) {
          if (link.to != topo::Paths::kCrossbar) continue;
          if (std::find(island.gpus.begin(), island.gpus.end(), link.from) == island.gpus.end()) continue;
          line(&back_, boxes_[link.from].middle(), row, boxes_[link.from].middle(), y, "#3c9d5f", 4,
               format("{} links", alike ? island.links : link.links));
        }
        bottom_ = std::max(bottom_, y + 30);
      }
      if (island.kind != topo::IslandKind::kSwitched) {
        for (std::size_t i = 0; i < paths_.links().size(); i += 2) {
          const Link& link = paths_.links()[i];
          if (link.kind != EdgeKind::kNvlink || !boxes_.contains(link.from) || !boxes_.contains(link.to)) continue;
          if (std::find(island.gpus.begin(), island.gpus.end(), link.from) == island.gpus.end()) continue;
          arc(&back_, link.from, link.to, 0, "#c9d3c0", 2.0 + 2.0 * link.links, 1,
              format("{} links, {:.3g} GB/s each way", link.links, link.bytes_per_second / 1e9));
        }
      }
    }
  }

  void arc(std::string* out, int from, int to, double shift, const std::string& colour, double thick, double opacity,
           const std::string& tip, const std::string& more = "", double deeper = 1) {
    const double row = leaf_y_ + kPictureLeafHeight;
    const double x1 = boxes_[from].middle() + shift;
    const double x2 = boxes_[to].middle() + shift;
    // Far arcs go deeper, but not without end.
    const double deep = deeper * (16 + 5 * std::sqrt(std::abs(x2 - x1)));
    const double low = row + deep;
    bottom_ = std::max(bottom_, row + deep * 0.75 + 8);
    *out += format(
        "<path d=\"M {:.1f} {:.1f} C {:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\" fill=\"none\" stroke=\"{}\" "
        "stroke-width=\"{:.1f}\" opacity=\"{:.2f}\"{}><title>{}</title></path>\n",
        x1, row, x1, low, x2, low, x2, row, colour, thick, opacity, more, escaped(tip));
  }

  // Equal rings once, with how many they are.
  std::vector<std::pair<topo::Ring, int>> distinct_rings() const {
    std::vector<std::pair<topo::Ring, int>> found;
    const auto take = [&found](const topo::RingSet& set) {
      for (const topo::Ring& ring : set.rings) {
        const auto known =
            std::find_if(found.begin(), found.end(), [&ring](const auto& one) { return one.first.gpus == ring.gpus; });
        if (known == found.end()) {
          found.emplace_back(ring, 1);
        } else {
          ++known->second;
        }
      }
    };
    take(result_.machine);
    return found;
  }

  // Which trees are drawn: different ones, of many the first.
  std::vector<topo::Tree> distinct_trees() const {
    std::vector<topo::Tree> found;
    for (const topo::Tree& tree : result_.trees.trees) {
      const bool known = std::any_of(found.begin(), found.end(), [&tree](const topo::Tree& one) {
        return one.gpus == tree.gpus && one.parent == tree.parent;
      });
      if (!known && found.size() < kMostTrees) found.push_back(tree);
    }
    return found;
  }

  // In a group of their own, so that a page can hide them; dashed, and below the rings.
  void draw_trees() {
    const std::vector<topo::Tree> trees = distinct_trees();
    front_ += "<g class=\"trees\">\n";
    for (std::size_t t = 0; t < trees.size(); ++t) {
      const topo::Tree& tree = trees[t];
      const double shift = (static_cast<double>(t) - static_cast<double>(trees.size() - 1) / 2) * 5 + 2;
      for (std::size_t i = 0; i < tree.gpus.size(); ++i) {
        if (tree.parent[i] < 0) continue;
        const int above = tree.gpus[static_cast<std::size_t>(tree.parent[i])];
        arc(&front_, above, tree.gpus[i], shift, kColours[t], 1.6, 0.9,
            format("tree {}: {} above {}", t, topo::gpu_label(graph_, above), topo::gpu_label(graph_, tree.gpus[i])),
            " stroke-dasharray=\"5 3\"", 1.35);
      }
    }
    front_ += "</g>\n";
  }

  void draw_rings() {
    const auto rings = distinct_rings();
    front_ += "<g class=\"rings\">\n";
    for (std::size_t r = 0; r < rings.size() && r < kMostRings; ++r) {
      const std::vector<int>& gpus = rings[r].first.gpus;
      const double shift =
          (static_cast<double>(r) - static_cast<double>(std::min(rings.size(), kMostRings) - 1) / 2) * 4;
      for (std::size_t i = 0; gpus.size() > 1 && i < gpus.size(); ++i) {
        arc(&front_, gpus[i], gpus[(i + 1) % gpus.size()], shift, kColours[r], 1.6, 0.85,
            format("ring {}: {} to {}", r, topo::gpu_label(graph_, gpus[i]),
                   topo::gpu_label(graph_, gpus[(i + 1) % gpus.size()])));
      }
    }
    front_ += "</g>\n";
  }

  // ---- Boxes and words

  void draw_boxes() {
    for (const auto& [node, box] : boxes_) {
      std::string fill = "#eef1f4";
      std::string first;
      std::string second;
      switch (at(node).kind) {
        case NodeKind::kGpu:
          fill = "#e3f2d9";
          first = "GPU " + topo::gpu_label(graph_, node);
          second = at(node).name;
          break;
        case NodeKind::kNic:
          fill = "#fdebd3";
          first = topo::nic_name(graph_, node);
          second = at(node).rate.known() ? format("{:.4g} Gbit/s", at(node).rate.bytes_per_second * 8 / 1e9) : "NIC";
          break;
        case NodeKind::kPciDevice:
          first = "device";
          second = at(node).name;
          break;
        case NodeKind::kNuma:
          fill = "#dbe7f5";
          first = at(node).os_index >= 0 ? format("NUMA {}", at(node).os_index) : std::string("CPU");
          if (!at(node).cpus.empty()) first += "  CPUs " + at(node).cpus.to_string();
          break;
        case NodeKind::kHost: first = format("host {}", at(node).index); break;
        default: {
          // Without the domain that nearly all devices share.
          std::string_view bus = at(node).name;
          if (bus.starts_with("0000:")) bus.remove_prefix(5);
          first = bus.empty() ? std::string("switch") : format("switch {}", bus);
        }
      }
      front_ += format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"4\" fill=\"{}\" "
          "stroke=\"#8895a3\"/>\n",
          box.x, box.y, box.width, box.height, fill);
      const auto room = static_cast<std::size_t>(box.width / 5.6);
      const auto cut = [room](const std::string& words) {
        return words.size() > room ? words.substr(0, room > 1 ? room - 1 : 0) + "." : words;
      };
      const double y = box.y + (second.empty() ? box.height / 2 + 4 : 15);
      text(&front_, box.middle(), y, cut(first), "text-anchor=\"middle\"");
      if (!second.empty())
        text(&front_, box.middle(), y + 13, cut(second), "text-anchor=\"middle\" font-size=\"9\" fill=\"#556\"");
    }
  }

  void draw_words() {
    if (!title_.empty()) text(&front_, kPictureGap, 20, title_, "font-size=\"15\" font-weight=\"bold\"");
    text(&front_, kPictureGap, 36, structure_text(paths_, result_) + "; figures are GB/s each way that transfers get",
         "fill=\"#556\"");
    double y = bottom_ + 14;
    const auto rings = distinct_rings();
    for (std::size_t r = 0; r < rings.size() && r < kMostRings; ++r, y += 14) {
      std::vector<std::string> labels;
      for (const int gpu : rings[r].first.gpus) labels.push_back(topo::gpu_label(graph_, gpu));
      const std::string times = rings[r].second > 1 ? format("{} x ", rings[r].second) : "";
      text(&front_, kPictureGap, y,
           format("{}ring {}  at {:.4g} GB/s", times, hocket::join(labels, " "), rings[r].first.bytes_per_second / 1e9),
           format("fill=\"{}\"", kColours[r]));
    }
    if (rings.size() > kMostRings) {
      text(&front_, kPictureGap, y, format("and {} more", rings.size() - kMostRings));
      y += 14;
    }
    if (!result_.machine.rings.empty()) {
      text(&front_, kPictureGap, y,
           format("together {:.4g} GB/s, bound {:.4g} GB/s", result_.machine.bytes_per_second / 1e9,
                  result_.machine.bound_bytes_per_second / 1e9));
      y += 14;
    }
    if (const topo::TreeSet& set = result_.trees; !set.trees.empty()) {
      int deepest = 0;
      for (const topo::Tree& tree : set.trees) deepest = std::max(deepest, depth_of(tree));
      const std::vector<topo::Tree> drawn = distinct_trees();
      for (std::size_t t = 0; t < drawn.size(); ++t, y += 14)
        text(&front_, kPictureGap, y,
             format("tree {}  at {:.4g} GB/s", tree_text(graph_, drawn[t]), drawn[t].bytes_per_second / 1e9),
             format("fill=\"{}\"", kColours[t]));
      text(&front_, kPictureGap, y,
           format("{} tree{} (dashed) of depth {}: together {:.4g} GB/s up and down at once, bound {:.4g} GB/s",
                  set.trees.size(), set.trees.size() == 1 ? "" : "s", deepest, set.bytes_per_second / 1e9,
                  set.bound_bytes_per_second / 1e9));
      y += 14;
    }
    for (const std::string& finding : result_.findings) {
      text(&front_, kPictureGap, y, finding, "fill=\"#b00020\"");
      y += 14;
    }
    std::vector<std::string> names;
    for (const topo::NicUse& use : nics_.nics) {
      if (!use.aside.empty() && names.size() < 6) names.push_back(format("{} ({})", use.name, use.aside));
    }
    if (!names.empty()) {
      text(&front_, kPictureGap, y,
           format("set aside: {}{}", hocket::join(names, ", "), aside_.size() > names.size() ? " …" : ""));
      y += 14;
    }
    bottom_ = y;
  }

  const Paths& paths_;
  const Graph& graph_;
  const topo::SearchResult& result_;
  const topo::NicPlan& nics_;
  const std::string& title_;
  std::map<int, std::string> aside_;
  std::vector<double> loads_;
  std::map<int, PictureBox> boxes_;
  double leaf_y_ = 0;
  double width_ = 0;
  double bottom_ = 0;
  std::string back_;
  std::string front_;
};

}  // namespace

std::string topo_svg(const Paths& paths, const topo::SearchResult& result, const topo::NicPlan& nics,
                     const std::string& title) {
  return Picture(paths, result, nics, title).draw();
}
