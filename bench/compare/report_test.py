#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the tables of bench/compare say about given pairs. Needs nothing that is compared."""
import os, sys, tempfile, unittest, xml.dom.minidom

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import measure, report

RECORD = """# a comment
collective,ranks,bytes,setting,ucc_form,ucc_over_setting
all_reduce,2,1024,openmpi-copy,ucc-copy,0.5
all_reduce,2,4096,openmpi-copy,ucc-copy,2
all_reduce,2,1024,openmpi,ucc,0.9
"""


def row(setting, hocket_us, peer_us, size=1024, state="near", library="Open MPI", **more):
    values = dict(collective="all_reduce", type="float32", ranks="2", transport="shm", memory="plain", bytes=str(size),
                  library=library, setting=setting, pair="0", state=state, line_before_ns="30", line_after_ns="31",
                  hocket_us=str(hocket_us), peer_us=str(peer_us), wrong="0")
    return dict(values, **more)


class Report(unittest.TestCase):
    def setUp(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv", delete=False) as file:
            file.write(RECORD)
        self.recorded = report.Recorded(file.name)
        os.unlink(file.name)

    def lines(self, rows):
        return {(t.state, line.size): line for t in report.tables(rows, self.recorded) for line in t.lines}

    def test_recorded_ratios_are_interpolated_and_end_at_their_ends(self):
        ratio = lambda size: self.recorded.ratio("all_reduce", 2, "openmpi-copy", size)
        self.assertAlmostEqual(ratio(1024), 0.5)
        self.assertAlmostEqual(ratio(2048), 1)  # between, on a logarithmic scale
        self.assertAlmostEqual(ratio(8), 0.5)
        self.assertAlmostEqual(ratio(1 << 20), 2)
        self.assertIsNone(self.recorded.ratio("all_reduce", 4, "openmpi-copy", 1024))

    def test_a_library_counts_by_its_fastest_setting(self):
        line = self.lines([row("openmpi", 1, 3), row("openmpi-copy", 1, 2)])["near", 1024]
        self.assertEqual(line.cells["Open MPI"].setting, "openmpi-copy")
        self.assertEqual(line.cells["Open MPI"].median, 2)

    def test_ucc_is_estimated_like_with_like(self):
        # By copies 2 x 0.5, by cross-memory attach 1.5 x 0.9: the faster counts.
        line = self.lines([row("openmpi", 1, 1.5), row("openmpi-copy", 1, 2)])["near", 1024]
        self.assertTrue(line.cells["UCC"].estimated)
        self.assertAlmostEqual(line.cells["UCC"].median, 1.0)
        self.assertTrue(line.cells["UCC"].text().startswith("~"))
        measured = self.lines([row("openmpi", 1, 1.5), row("ucc", 1, 1.2, library="UCC")])["near", 1024]
        self.assertFalse(measured.cells["UCC"].estimated)

    def test_states_are_apart_and_mixed_pairs_count_nowhere(self):
        lines = self.lines([row("openmpi", 1, 3), row("openmpi", 2, 3, state="far"), row("openmpi", 9, 1, state="mixed"),
                            row("openmpi", 9, 1, state="given up")])
        self.assertEqual(sorted(lines), [("far", 1024), ("near", 1024)])
        self.assertEqual(lines["near", 1024].pairs, 1)
        self.assertEqual(lines["far", 1024].cells["Open MPI"].median, 1.5)

    def test_what_is_lost_is_said(self):
        tables = report.tables([row("openmpi-tcp", 1, 0.8, transport="tcp"), row("openmpi-tcp", 1, 1.2, transport="tcp"),
                                row("openmpi-tcp", 1, 0.9, transport="tcp")], self.recorded)
        text = report.text(tables, [])
        self.assertIn("1 cells, geometric mean 0.90, 1 below 1:", text)
        self.assertIn("| 2/3 |", text)

    def test_the_picture_is_xml(self):
        tables = report.tables([row("openmpi", 1, 3), row("openmpi", 1, 3, size=4096)], self.recorded)
        xml.dom.minidom.parseString(report.svg(tables))
        xml.dom.minidom.parseString(report.svg([]))

    def test_results_go_on_where_they_were_and_leave_out_half_a_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "pairs.csv")
            results = measure.Results(path)
            results.add(row("openmpi", 1, 3))
            with open(path, "a") as file:
                file.write("all_reduce,float32,2,shm")
            again = measure.Results(path)
            self.assertEqual(len(again.rows), 1)
            again.add(row("openmpi", 1, 4))
            self.assertEqual(len(measure.Results(path).rows), 2)


unittest.main()
