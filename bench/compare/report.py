# SPDX-License-Identifier: Apache-2.0
"""Tables, a CSV file and a picture of what measure.py recorded.

A cell is the median over pairs of the peer's time over hocket's (above 1: hocket is faster), with its quartiles. A
library's cell is that of its fastest setting. Where UCC is not installed, its cell is an installed setting's ratio times
the recorded ratio of UCC to that setting (bench/peers/ucc-ratios.csv), marked ~: of the fastest setting that copies, or of
the fastest that uses cross-memory attach, whichever makes UCC faster. UCC does both; how they compare is the machine's.
"""
import bisect, collections, csv, math, os, statistics

LIBRARIES = ("Open MPI", "MPICH", "UCC", "Gloo")
BUS = {"all_reduce": lambda n: 2 * (n - 1) / n, "broadcast": lambda n: 1}


def human(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift:
            return f"{size / (1 << shift):.4g} {unit}"
    return f"{size} B"


class Recorded:
    """UCC's recorded time over that of other settings, between recorded sizes by interpolation."""

    def __init__(self, path):
        self.points = collections.defaultdict(list)
        self.form = {}  # of UCC, that moves data as the setting does
        with open(path, newline="") as file:
            for row in csv.DictReader(line for line in file if not line.startswith("#")):
                key = row["collective"], int(row["ranks"]), row["setting"]
                self.form[row["setting"]] = row["ucc_form"]
                self.points[key].append((math.log(int(row["bytes"])), math.log(float(row["ucc_over_setting"]))))
        for points in self.points.values():
            points.sort()

    def ratio(self, collective, ranks, setting, size):
        points = self.points.get((collective, ranks, setting))
        if not points:
            return None
        x = math.log(size)
        i = bisect.bisect(points, (x, math.inf))
        if i == 0 or i == len(points):
            return math.exp(points[0 if i == 0 else -1][1])
        (x0, y0), (x1, y1) = points[i - 1], points[i]
        return math.exp(y0 + (y1 - y0) * (x - x0) / (x1 - x0))


class Cell:
    def __init__(self, ratios, setting, estimated=False):
        self.ratios, self.setting, self.estimated = sorted(ratios), setting, estimated
        self.median = statistics.median(ratios)
        quarters = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else [self.median] * 3
        self.low, self.high = quarters[0], quarters[2]
        self.lost = sum(r < 1 for r in ratios)

    def text(self):
        return f"{'~' if self.estimated else ''}{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


class Line:
    """One size in one state."""

    def __init__(self, collective, ranks, size, rows, recorded):
        self.size = size
        self.hocket_us = statistics.median(float(r["hocket_us"]) for r in rows)
        self.line_ns = statistics.median(float(r["line_before_ns"]) for r in rows)
        self.pairs = len(rows)
        by_setting = collections.defaultdict(list)
        library = {}
        for r in rows:
            by_setting[r["setting"]].append(float(r["peer_us"]) / float(r["hocket_us"]))
            library[r["setting"]] = r["library"]
        self.settings = {s: Cell(ratios, s) for s, ratios in by_setting.items()}
        self.limit = self.settings.pop("limit", None)
        self.cells = {}
        for name, cell in self.settings.items():
            best = self.cells.get(library[name])
            if best is None or cell.median < best.median:
                self.cells[library[name]] = cell
        if "UCC" not in self.cells and rows[0]["transport"] == "shm":
            estimates = {}
            for cell in sorted(self.settings.values(), key=lambda c: c.median):
                form, ratio = recorded.form.get(cell.setting), recorded.ratio(collective, ranks, cell.setting, size)
                if ratio is not None and form not in estimates:
                    estimates[form] = Cell([r * ratio for r in cell.ratios], cell.setting, True)
            if estimates:
                self.cells["UCC"] = min(estimates.values(), key=lambda c: c.median)
        self.fastest = min(self.cells.values(), key=lambda c: c.median) if self.cells else None
        self.fastest_library = next((l for l, c in self.cells.items() if c is self.fastest), "")

    def busbw(self, collective, ranks, us=None):
        factor = BUS.get(collective, lambda n: (n - 1) / n)(ranks)
        return self.size / (us or self.hocket_us) / 1e3 * factor


class Table:
    def __init__(self, key, lines):
        self.collective, self.type, self.ranks, self.transport, self.memory, self.state = key
        self.lines = lines

    def title(self):
        state = {"near": "cores near each other", "far": "cores far from each other"}[self.state]
        return (f"{self.collective}, {self.ranks} ranks, {self.type}, {self.transport}, {self.memory} memory, {state}")


def tables(rows, recorded):
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for r in rows:
        if r["state"] in ("near", "far"):
            key = r["collective"], r["type"], int(r["ranks"]), r["transport"], r["memory"], r["state"]
            groups[key][int(r["bytes"])].append(r)
    made = []
    for key, sizes in groups.items():
        lines = [Line(key[0], key[2], size, rows, recorded) for size, rows in sorted(sizes.items())]
        made.append(Table(key, [line for line in lines if line.fastest is not None or line.limit is not None]))
    return made


def geometric_mean(values):
    values = [v for v in values if v > 0]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 0


def text(all_tables, rows):
    out = []
    say = out.append
    mixed = sum(r["state"] == "mixed" for r in rows)
    pairs = sum(r["state"] != "given up" for r in rows)
    say(f"{pairs} pairs, {mixed} of them set aside because the cores' distance changed meanwhile. A cell is peer's time / "
        "hocket's: median over pairs (quartiles);\nabove 1 hocket is faster; ~ estimated from a recorded ratio; "
        "'lost' counts pairs in which the fastest peer was faster. `of limit` is hocket's speed over that of\nthe bare "
        "data movement with direct access to all buffers, where it is at least 4 KiB; `line` a cache line's way from "
        "core to core.")
    for t in all_tables:
        say(f"\n## {t.title()}\n")
        libraries = [l for l in LIBRARIES if any(l in line.cells for line in t.lines)]
        say("| size | hocket | line, ns | of limit | fastest peer | lost | " + " | ".join(libraries) + " |")
        say("|---" * (6 + len(libraries)) + "|")
        for line in t.lines:
            own = f"{line.hocket_us:.3f} us" if line.size < 65536 else f"{line.busbw(t.collective, t.ranks):.2f} GB/s"
            limit = f"{line.limit.median:.0%}" if line.limit is not None and line.size >= 4096 else "-"
            fastest = (f"{'**' if line.fastest.median < 1 else ''}{line.fastest.text()}"
                       f"{'**' if line.fastest.median < 1 else ''} {line.fastest_library}") if line.fastest else "-"
            lost = f"{line.fastest.lost}/{len(line.fastest.ratios)}" if line.fastest else "-"
            say(f"| {human(line.size)} | {own} | {line.line_ns:.0f} | {limit} | {fastest} | {lost} | " +
                " | ".join(line.cells[l].text() if l in line.cells else "-" for l in libraries) + " |")
        mean = geometric_mean([line.fastest.median for line in t.lines if line.fastest])
        if mean:
            say(f"\ngeometric mean of the fastest peer's column: {mean:.2f}")
    cells = [line.fastest for t in all_tables for line in t.lines if line.fastest]
    if cells:
        below = [(t, line) for t in all_tables for line in t.lines if line.fastest and line.fastest.median < 1]
        say(f"\n{len(cells)} cells, geometric mean {geometric_mean([c.median for c in cells]):.2f}, "
            f"{len(below)} below 1:")
        for t, line in below:
            say(f"  {line.fastest.text()} {t.collective} {human(line.size)}, {t.ranks} ranks, {t.transport}, "
                f"{t.memory}, {t.state}: {line.fastest_library} ({line.fastest.setting})")
    return "\n".join(out) + "\n"


def write_csv(all_tables, path):
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["collective", "type", "ranks", "transport", "memory", "state", "bytes", "hocket_us",
                      "hocket_busbw_GBps", "line_ns", "of_limit", "library", "setting", "estimated", "ratio",
                      "ratio_quartile_1", "ratio_quartile_3", "pairs", "pairs_lost"])
        for t in all_tables:
            for line in t.lines:
                for library, cell in line.cells.items():
                    out.writerow([t.collective, t.type, t.ranks, t.transport, t.memory, t.state, line.size,
                                  f"{line.hocket_us:.5g}", f"{line.busbw(t.collective, t.ranks):.4g}",
                                  f"{line.line_ns:.1f}", f"{line.limit.median:.4g}" if line.limit else "", library,
                                  cell.setting, int(cell.estimated), f"{cell.median:.4g}", f"{cell.low:.4g}",
                                  f"{cell.high:.4g}", len(cell.ratios), cell.lost])


# Okabe and Ito's colours, as in bench/perf/plot.cpp.
COLOURS = {"Open MPI": "#0072b2", "MPICH": "#009e73", "UCC": "#d55e00", "Gloo": "#cc79a7"}


def svg(all_tables):
    """A panel for each table: ratio to each library over size, both logarithmic; 1 is a thick line."""
    columns, width, height, left, top = 2, 460, 250, 60, 60
    rows = (len(all_tables) + columns - 1) // columns
    total_w, total_h = columns * (width + left + 20), rows * (height + 90) + top
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total_w} {total_h}" width="{total_w}" '
           f'height="{total_h}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
           f'<rect width="{total_w}" height="{total_h}" fill="#ffffff"/>',
           '<text x="20" y="26" font-size="17" font-weight="bold">time of a peer / time of hocket</text>']
    x = 330
    for name, colour in COLOURS.items():
        out.append(f'<path d="M{x} 21h26" stroke="{colour}" stroke-width="2.5"/><text x="{x + 32}" y="25">{name}</text>')
        x += 120
    low, high = math.log2(0.5), math.log2(64)
    for i, t in enumerate(all_tables):
        x0, y0 = (i % columns) * (width + left + 20) + left, (i // columns) * (height + 90) + top + 24
        sizes = [math.log2(line.size) for line in t.lines] or [0]
        first, last = min(sizes), max(max(sizes), min(sizes) + 1)
        at_x = lambda size: x0 + (math.log2(size) - first) / (last - first) * width
        at_y = lambda ratio: y0 + (1 - (min(max(math.log2(ratio), low), high) - low) / (high - low)) * height
        out.append(f'<text x="{x0}" y="{y0 - 8}" font-weight="bold">{t.title()}</text>')
        for ratio in (0.5, 1, 2, 4, 8, 16, 32, 64):
            y, one = at_y(ratio), ratio == 1
            out.append(f'<path d="M{x0} {y:.1f}h{width}" stroke="{"#000000" if one else "#dddddd"}" '
                       f'stroke-width="{1.5 if one else 1}"/><text x="{x0 - 8}" y="{y + 4:.1f}" '
                       f'text-anchor="end">{ratio:g}</text>')
        step = max(1, len(t.lines) // 7)
        for line in t.lines[::step]:
            out.append(f'<text x="{at_x(line.size):.1f}" y="{y0 + height + 18}" text-anchor="middle">'
                       f'{human(line.size)}</text>')
        for name, colour in COLOURS.items():
            points = [(line, line.cells[name]) for line in t.lines if name in line.cells]
            if not points:
                continue
            dash = ' stroke-dasharray="6 4"' if any(c.estimated for _, c in points) else ""
            path = "".join(f"{'L' if k else 'M'}{at_x(line.size):.1f} {at_y(c.median):.1f}"
                           for k, (line, c) in enumerate(points))
            out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
            for line, c in points:
                out.append(f'<path d="M{at_x(line.size):.1f} {at_y(c.low):.1f}V{at_y(c.high):.1f}" stroke="{colour}"/>'
                           f'<circle cx="{at_x(line.size):.1f}" cy="{at_y(c.median):.1f}" r="3" fill="{colour}">'
                           f'<title>{name} at {human(line.size)}: {c.text()}, {c.setting}</title></circle>')
    return "\n".join(out) + "\n</svg>\n"
