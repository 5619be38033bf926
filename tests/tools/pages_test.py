# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The figures in the documents must be those of data/bench.

import datetime
import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "bench"))

import pages
import picture


class Documents(unittest.TestCase):
    def test_tables_say_what_the_results_say(self):
        self.assertEqual(pages.stale(ROOT), [], "run python3 tools/bench/pages.py")

    def test_pictures_show_what_the_results_say(self):
        self.assertEqual(picture.stale(ROOT), [], "run tools/bench/picture.py")

    def test_each_result_is_shown(self):
        """Every file must be shown in a document; nobody would notice an error in another one."""
        shown = {name for _, name, _ in pages.blocks(ROOT)}
        self.assertLessEqual(set(pages.load(ROOT / "data/bench")), shown)

    def test_results_say_where_they_come_from(self):
        for name, table in pages.load(ROOT / "data/bench").items():
            with self.subTest(name):
                self.assertEqual([key for key in pages.REQUIRED if not table.get(key)], [])
                datetime.date.fromisoformat(table["measured"])
                for row in table["rows"]:
                    known = {"case", "ratio", "mean", "least", *pages.NAMES}
                    self.assertLessEqual(set(row), known, "an engine that has no name")
                    for values in (*row.values(), *row.get("ratio", {}).values()):
                        if isinstance(values, list):
                            self.assertEqual(len(values), len(table["columns"]), row["case"])

    def test_files_are_written_as_pages_writes_them(self):
        """Writing a file again changes nothing, so an imported run only changes its own rows."""
        for path in (ROOT / "data/bench").glob("*.json"):
            if path.stem != "overview":
                text = path.read_text(encoding="utf-8")
                self.assertEqual(text, pages.written(json.loads(text)), path.name)

    def test_a_changed_figure_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder)
            shutil.copytree(ROOT / "data/bench", copy / "data/bench")
            shutil.copytree(ROOT / "docs", copy / "docs")
            shutil.copy(ROOT / "README.md", copy)
            page = copy / "docs/performance.md"
            text = page.read_text(encoding="utf-8")
            self.assertIn("| 438 |", text.replace("  ", " "))
            page.write_text(text.replace(" 438 |", " 439 |", 1), encoding="utf-8")
            self.assertEqual(pages.stale(copy), ["docs/performance.md: forward/peers"])
            self.assertEqual(pages.write(copy), ["docs/performance.md"])
            self.assertEqual(page.read_text(encoding="utf-8"), text)


def case(group, label, **medians):
    engines = {
        name: {"status": "ok", "bursts": {"median_ms": median}} for name, median in medians.items()
    }
    return {"group": group, "label": label, "flops": 1e12, "engines": engines}


RESULTS = {
    "device": "A device",
    "tesela": {"version": "0.1.0"},
    "torch": "2.11",
    "cudnn": 91900,
    "cases": [
        case("D 64", "1k", tesela=2.0, cudnn=3.0),
        case("D 64", "2k", tesela=1.0, cudnn=0.9),
    ],
}


class Import(unittest.TestCase):
    def test_a_run_becomes_a_table(self):
        old = {"title": "Forward", "note": "A note."}
        table = pages.imported(RESULTS, old, "python3 tools/bench", "2026-01-02")
        self.assertEqual(table["columns"], ["1k", "2k"])
        self.assertEqual(
            table["rows"],
            [
                {
                    "case": "D 64",
                    "tesela": [500, 1000],
                    "cudnn": [333, 1111],
                    "ratio": {"cudnn": [1.5, 0.9]},
                }
            ],
        )
        self.assertEqual((table["title"], table["note"]), ("Forward", "A note."))
        self.assertEqual([key for key in pages.REQUIRED if not table.get(key)], [])
        figures, ratios = pages.grid(table)[2:]
        self.assertIn("| 500 | 1000 |", " ".join(figures.split()))
        self.assertIn("| 1.50 | 0.90 | 1.16 |", " ".join(ratios.split()))

    def test_a_length_that_is_missing_is_refused(self):
        results = {**RESULTS, "cases": [*RESULTS["cases"], case("D 128", "1k", tesela=1.0)]}
        with self.assertRaisesRegex(SystemExit, "'D 128' was not timed at 1k, 2k"):
            pages.imported(results, None, "", "2026-01-02")


class Tables(unittest.TestCase):
    def test_ratios(self):
        """Less time is better; more operations are better."""
        rows = [{"case": "a", "tesela": 2, "flex": 3}]
        table = {"unit": "ms", "rows": rows}
        self.assertEqual(pages.quotients(table, rows[0], "flex"), [1.5])
        self.assertEqual(pages.quotients({**table, "unit": "TFLOP/s"}, rows[0], "flex"), [2 / 3])

    def test_two_measures(self):
        table = {
            "unit": "ms",
            "measures": {"off": "without", "on": "with"},
            "compare": "cost",
            "rows": [{"case": "a", "tesela": {"off": 2.0, "on": 2.5}}],
        }
        lines = [" ".join(line.split()) for line in pages.listing(table)]
        self.assertEqual(lines[0], "| | Tesela, without, ms | Tesela, with, ms | cost |")
        self.assertEqual(lines[2], "| a | 2.0 | 2.5 | 25 % |")

    def test_overview(self):
        rows = [{"case": "a", "ratio": {"fa3": [0.994, 4.0]}}]
        found = {"x/y": {"unit": "ms", "rows": rows}}
        line = pages.overview(found, [{"what": "All", "table": "x/y", "peer": "fa3"}])[2]
        self.assertEqual(
            " ".join(line.split()), "| All | FlashAttention-3 | 1.99 | 0.99 to 4.00 | 1 of 2 |"
        )

    def test_an_unknown_table_is_named(self):
        with self.assertRaisesRegex(SystemExit, "'no/such' is not a table"):
            pages.render(ROOT, "no/such")


if __name__ == "__main__":
    unittest.main()
