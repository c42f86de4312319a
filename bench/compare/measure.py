# SPDX-License-Identifier: Apache-2.0
"""Pairs: hocket and a peer, one right after the other, with a probe of the cache line's way before and after.

The cores of a virtual machine may sit near to each other or far from each other, which changes within seconds and
shifts everything by 2 to 3. A pair whose probes differ in state is recorded as `mixed` and counts nowhere; the others
count within their state.
"""
import csv, os, time

from session import Lost

COLUMNS = ["collective", "type", "ranks", "transport", "memory", "bytes", "library", "setting", "pair", "state",
           "line_before_ns", "line_after_ns", "hocket_us", "peer_us", "wrong"]
# A line takes 22 to 36 ns between cores that share a cache, 100 and more between those that do not.
FAR_NS = 80
# A measurement that takes longer is given up: its ranks wait for each other.
PATIENCE_S = 40
# A setting this much slower than the best of the cell so far is not looked at again.
GIVE_UP = 1.6


class Results:
    """Rows of one pair each, in a file that a later run goes on with."""

    def __init__(self, path):
        self.path = path
        self.rows = []
        if os.path.exists(path):
            with open(path, newline="") as file:
                self.rows = [row for row in csv.DictReader(file) if row.get("wrong") not in (None, "")]
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(self.rows)

    def add(self, row):
        row = {k: str(v) for k, v in row.items()}
        self.rows.append(row)
        with open(self.path, "a", newline="") as file:
            csv.DictWriter(file, COLUMNS).writerow(row)

    def of(self, world, collective, size, setting=None):
        want = {"collective": collective, "type": world.type, "ranks": str(world.ranks), "transport": world.transport,
                "memory": world.memory, "bytes": str(size)}
        return [r for r in self.rows
                if all(r[k] == v for k, v in want.items()) and (setting is None or r["setting"] == setting)]


class OutOfTime(Exception):
    pass


class Cells:
    def __init__(self, world, session, results, pairs, budget_ms, deadline, say):
        self.world, self.session, self.results = world, session, results
        self.pairs, self.budget_us, self.deadline, self.say = pairs, budget_ms * 1e3, deadline, say

    def probe(self):
        # After what has just run its ranks have gone to sleep: the first repetitions wake the probe's up.
        return self.session.program(self.world.probe).ask("probe")["line_ns"]

    def cell(self, collective, size):
        hocket = self.session.program(self.world.hocket)
        best = None
        todo = [s for s in [self.world.limit, *self.world.settings]
                if s is not None and (not s.collectives or collective in s.collectives) and
                not self.done(collective, size, s)]
        if not todo:
            return
        opened = hocket.ask(self.case(collective, size), PATIENCE_S)
        real, wrong = int(opened["bytes"]), opened["wrong"]
        for setting in todo:
            if time.time() > self.deadline:
                self.end(hocket)
                raise OutOfTime
            if setting.name in self.session.lost:
                continue
            try:
                ratio = self.setting(hocket, setting, collective, size, wrong, best)
                if ratio is not None and setting is not self.world.limit:
                    best = ratio if best is None else min(best, ratio)
            except Lost as lost:
                if hocket.connection is None:
                    self.say(f"hocket: {collective} {size}: {lost}")
                    raise
                self.say(f"{setting.name}: {collective} {size}: {lost}")
                self.session.drop(setting.name, str(lost))
        wrong = self.end(hocket)
        if opened["wrong"] or wrong:
            self.say(f"hocket: {collective} of {real} bytes: WRONG")

    @staticmethod
    def end(program):
        return program.ask("end", PATIENCE_S)["wrong"]

    def done(self, collective, size, setting):
        rows = self.results.of(self.world, collective, size, setting.name)
        return any(r["state"] == "given up" for r in rows) or self.enough(rows)

    def enough(self, rows):
        # Mixed ones are made up for, within reason.
        return sum(r["state"] != "mixed" for r in rows) >= self.pairs or len(rows) >= 2 * self.pairs

    def case(self, collective, size):
        return f"case {collective} {self.world.type} {size} {self.world.offset}"

    def setting(self, hocket, setting, collective, size, wrong, best):
        """All its pairs; the median ratio."""
        peer = self.session.program(setting)
        wrong += peer.ask(self.case(collective, size), PATIENCE_S)["wrong"]
        line = f"time {self.budget_us:.0f}"
        ratios = []
        before = self.probe()
        while time.time() < self.deadline:
            rows = self.results.of(self.world, collective, size, setting.name)
            if self.enough(rows):
                break
            pair = len(rows)
            order = (hocket, peer) if pair % 2 == 0 else (peer, hocket)
            times = {p: p.ask(line, PATIENCE_S)["median_us"] for p in order}
            after = self.probe()
            states = {"far" if ns >= FAR_NS else "near" for ns in (before, after)}
            row = {"collective": collective, "type": self.world.type, "ranks": self.world.ranks,
                   "transport": self.world.transport, "memory": self.world.memory, "bytes": size,
                   "library": setting.library, "setting": setting.name, "pair": pair,
                   "state": states.pop() if len(states) == 1 else "mixed", "line_before_ns": f"{before:.1f}",
                   "line_after_ns": f"{after:.1f}", "hocket_us": f"{times[hocket]:.5g}",
                   "peer_us": f"{times[peer]:.5g}", "wrong": int(wrong)}
            self.results.add(row)
            before = after
            ratios.append(times[peer] / times[hocket])
            # Two pairs, since the first may have hit a change.
            if best is not None and len(ratios) == 2 and min(ratios) > GIVE_UP * best:
                self.results.add(dict(row, pair=pair + 1, state="given up"))
                break
        if peer.ask("end", PATIENCE_S)["wrong"]:
            self.say(f"{setting.name}: {collective} {size}: WRONG")
        ratios.sort()
        return ratios[len(ratios) // 2] if ratios else None
