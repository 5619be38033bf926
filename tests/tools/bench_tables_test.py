# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What the benchmark makes of its results: ratios, tables and charts.

import math
import os
import sys
import unittest
import xml.etree.ElementTree as ElementTree

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "bench")
sys.path.insert(0, BENCH)

import chart
import summary
import tables
from bench_example import KERNEL, entry, example, sparse_example


class Summary(unittest.TestCase):
    def test_spread(self):
        spread = summary.spread([5.0, 1.0, 2.0, 4.0, 3.0])
        self.assertEqual(
            spread, {"median_ms": 3.0, "quartile1_ms": 2.0, "quartile3_ms": 4.0, "count": 5}
        )
        self.assertEqual(summary.spread([7.0])["quartile3_ms"], 7.0)

    def test_ratios(self):
        first, second, third = example()["cases"]
        self.assertAlmostEqual(summary.ratio(first, "cudnn", "bursts"), 1.25)
        # Of several prototypes the fastest one counts.
        self.assertAlmostEqual(summary.ratio(first, "prototype", "bursts"), 0.8)
        self.assertIsNone(summary.ratio(second, "fa2", "bursts"))
        self.assertIsNone(summary.ratio(third, "cudnn", "bursts"))
        self.assertIsNone(summary.ratio(first, "cudnn", "sustained"))

    def test_geometric_means(self):
        self.assertAlmostEqual(summary.geometric_mean([1.0, 4.0]), 2.0)
        means = summary.geometric_means(example()["cases"])["D 64 full"]["bursts"]
        self.assertAlmostEqual(means["fa2"]["mean"], 2.0)
        self.assertEqual(means["cudnn"]["cases"], 2)
        self.assertAlmostEqual(means["cudnn"]["least"], 1.25)
        self.assertNotIn("flex", means)

    def test_flash_attention_3(self):
        """cuDNN has a column, a ratio, a mean, a row of the overview, and bars."""
        results = example()
        for case, median in zip(results["cases"], (1.0, 4.0, 1.0)):
            case["engines"]["fa3"] = entry(median)
        mean = summary.geometric_means(results["cases"])["D 64 full"]["bursts"]["fa3"]
        self.assertAlmostEqual(mean["mean"], math.sqrt(1.0 * 2.0))
        lines = tables.speeds(results["cases"], "bursts")
        head, *_, last = [[cell.strip() for cell in line.split("|")] for line in lines]
        self.assertEqual(last[head.index("FlashAttention-3") + 1], "1.41")
        self.assertIn("to FlashAttention-3", tables.overview(results["cases"])[0])
        self.assertIn("FlashAttention-3, D 64 full, 512: 500 TFLOP/s", chart.svg(results))

    def test_deterministic(self):
        """Tesela's other gradients are compared with its faster ones and with the peers."""
        results = example()
        for case, median in zip(results["cases"], (2.0, 2.5, 1.0)):
            case["engines"]["deterministic"] = entry(median)
        first, second, _ = results["cases"]
        self.assertAlmostEqual(summary.ratio(first, "deterministic", "bursts"), 2.0)
        self.assertAlmostEqual(summary.ratio(second, "cudnn", "bursts", "deterministic"), 1.0)
        rows = tables.overview(results["cases"], "deterministic")
        self.assertIn("to cuDNN", rows[0])
        self.assertNotIn("to Tesela, deterministic", rows[0])
        self.assertIn("Tesela, deterministic", tables.speeds(results["cases"], "bursts")[0])
        self.assertIn("Tesela, deterministic, D 64 full, 512", chart.svg(results))

    def test_to_compare(self):
        out, failed = {"status": "left out"}, {"status": "failed"}
        self.assertFalse(summary.to_compare({"tesela": out, "deterministic": out}))
        self.assertTrue(summary.to_compare({"tesela": out, "deterministic": failed}))
        self.assertFalse(summary.to_compare({"cudnn": failed}))

    def test_sparsity(self):
        full, masked = sparse_example()["cases"]
        self.assertAlmostEqual(summary.ratio(masked, "flex", "bursts"), 2.0)
        self.assertAlmostEqual(summary.ratio_with_block_mask(masked, "bursts"), 2.514)
        self.assertAlmostEqual(summary.ratio(masked, "classified", "bursts"), 1.1)
        self.assertAlmostEqual(summary.tile_tflops(masked, "bursts"), 300.0)
        self.assertIsNone(summary.ratio_with_block_mask(full, "bursts"))
        self.assertIsNone(summary.tile_tflops(masked, "sustained"))


class Tables(unittest.TestCase):
    def cells(self, lines):
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    def test_speeds(self):
        lines = tables.speeds(example()["cases"], "bursts")
        self.assertEqual(len(set(map(len, lines))), 1, "columns stand under each other")
        cells = self.cells(lines)
        peers = ["cuDNN", "ratio", "FlashAttention-2", "ratio", "prototype", "ratio"]
        self.assertEqual(cells[0], ["", "Tesela", *peers])
        speeds = ["500 (2.0%)", "400 (2.0%)", "1.25", "250 (2.0%)", "2.00", "625 (2.0%)", "0.80"]
        self.assertEqual(cells[2], ["512", *speeds])
        self.assertEqual(
            cells[3], ["1k", "250 (2.0%)", "200 (2.0%)", "1.25", "left out", "", "", ""]
        )
        self.assertEqual(cells[4][:4], ["2k & <more>", "wrong", "500 (2.0%)", ""])
        self.assertEqual(cells[5], ["geometric mean", "", "", "1.25", "", "2.00", "", "0.80"])

    def test_block_mask(self):
        cases = example()["cases"]
        cases[1]["engines"]["flex"] = {**entry(3.0), "block_mask_ms": 0.257}
        columns = [row[-2:] for row in self.cells(tables.speeds(cases, "bursts"))]
        self.assertEqual(columns[0], ["block mask, ms", "ratio with it"])
        self.assertEqual(columns[2:], [["", ""], ["0.26", "1.63"], ["", ""], ["", ""]])

    def test_tiles(self):
        rows = self.cells(tables.tiles(sparse_example()["cases"], "bursts"))
        head = ["", "tiles a head", "of their pairs kept", "useful", "over tiles", "to full"]
        self.assertEqual(rows[0], head)
        self.assertEqual(rows[2], ["512", "512", "100.0%", "500.0", "500.0", "1.00"])
        self.assertEqual(rows[3], ["1k", "9", "66.7%", "200.0", "300.0", "0.60"])
        # Without anything to compare: another mode, no case without a mask, no case with one.
        self.assertEqual(tables.tiles(sparse_example()["cases"], "sustained"), [])
        self.assertEqual(tables.tiles(sparse_example()["cases"][1:], "bursts"), [])
        self.assertEqual(tables.tiles(sparse_example()["cases"][:1], "bursts"), [])

    def test_forms(self):
        """Each of a mask's two texts has a kernel, and the sections report the tiles."""
        results = sparse_example()
        names = [row[0] for row in self.cells(tables.kernels(results["cases"]))[2:]]
        described = "D 64, bf16, sm_90"
        masked = [f"window 256, {described}", f"window 256, classified, {described}"]
        self.assertEqual(names, [f"full, {described}", *masked])
        self.assertIn("### D 64 full, bursts: tiles", tables.markdown(results))

    def test_reasons(self):
        cases = example()["cases"]
        cases[0]["engines"]["fa2"] = cases[1]["engines"]["fa2"]
        self.assertEqual(
            tables.reasons(cases),
            [
                "- FlashAttention-2 left out at 512, 1k: No kernel.",
                "- Tesela wrong at 2k & <more>: off",
            ],
        )

    def test_errors(self):
        cases = example()["cases"]
        errors = {"dq": 2.5e-3, "dk": 3e-3, "dv": 1e-3}
        cases[0]["engines"]["tesela"]["errors"] = errors
        rows = self.cells(tables.errors(cases[:1]))
        self.assertEqual(rows[0][:3], ["", "Tesela", "cuDNN"])
        self.assertEqual(rows[2][:3], ["512", "2.5e-03 / 3.0e-03 / 1.0e-03", ""])
        self.assertEqual(tables.errors(example()["cases"]), [])

    def test_kernels(self):
        rows = self.cells(tables.kernels(example()["cases"]))[2:]
        # A kernel is listed once, at its first use.
        kernel = ["full, D 64, bf16, sm_90", KERNEL["schedule"]]
        self.assertEqual(rows, [[*kernel, "160", "0", "99000", "512", "334"]])

    def test_overview(self):
        rows = self.cells(tables.overview(example()["cases"]))
        self.assertEqual(rows[0], ["", "to cuDNN", "to FlashAttention-2", "to prototype"])
        self.assertEqual(
            rows[2:], [["D 64 full, bursts", "1.25 (1.25)", "2.00 (2.00)", "0.80 (0.80)"]]
        )

    def test_whole(self):
        """Every section with content is printed, and no other."""
        lines = tables.markdown(example()).splitlines()
        titles = [line[4:] for line in lines if line.startswith("### ")]
        self.assertEqual(
            titles,
            [
                "D 64 full, bursts",
                "D 64 full, not timed",
                "Ratios: geometric mean (least)",
                "Tesela's kernels",
            ],
        )

    def test_nothing_timed(self):
        results = example()
        left_out = {"tesela": {"status": "left out", "reason": "a head dimension of 64 is wide"}}
        for case in results["cases"]:
            case["engines"] = left_out
        text = tables.markdown(results)
        self.assertIn(
            "- Tesela left out at 512, 1k, 2k & <more>: a head dimension of 64 is wide", text
        )
        self.assertEqual(text.count("###"), 1)


class Chart(unittest.TestCase):
    def test_well_formed(self):
        root = ElementTree.fromstring(chart.svg(example()))
        name = "{http://www.w3.org/2000/svg}"
        bars = [bar for bar in root.iter(name + "rect") if bar.find(name + "title") is not None]
        # One prototype has a bar; a wrong result has none.
        self.assertEqual(len(bars), 4 + 2 + 1)
        words = {element.text for element in root.iter(name + "text")}
        self.assertTrue({"D 64 full, bursts", "500", "250", "Tesela", "cuDNN"} <= words, words)
        self.assertNotIn("FlexAttention", words)
        self.assertNotIn("D 64 full, sustained", words)
        # Twice the speed is twice the height: Tesela has 500, FA2 250 TFLOP/s.
        heights = {bar.find(name + "title").text: float(bar.get("height")) for bar in bars}
        ours = heights["Tesela, D 64 full, 512: 500 TFLOP/s"]
        theirs = heights["FlashAttention-2, D 64 full, 512: 250 TFLOP/s"]
        self.assertAlmostEqual(ours, 2 * theirs, delta=0.2)

    def test_two_modes(self):
        """The two modes of a group are side by side."""
        results = example()
        for case in results["cases"]:
            for times in case["engines"].values():
                if "bursts" in times:
                    times["sustained"] = times["bursts"]
        root = ElementTree.fromstring(chart.svg(results))
        titles = {
            element.text: element.get("y")
            for element in root.iter("{http://www.w3.org/2000/svg}text")
            if element.text.startswith("D 64 full")
        }
        self.assertEqual(list(titles), ["D 64 full, bursts", "D 64 full, sustained"])
        self.assertEqual(len(set(titles.values())), 1)

    def test_empty(self):
        ElementTree.fromstring(chart.svg({**example(), "cases": []}))

    def test_ticks(self):
        for largest, step in ((100, 20), (101, 50), (640, 200), (0.7, 0.2), (1000, 200)):
            self.assertAlmostEqual(chart.tick_step(largest), step)


if __name__ == "__main__":
    unittest.main()
