# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# tools/bench/flex_functions.py and transformers_prefill.py on the CPU: `flex_functions_test.py
# [unittest options]`. Needs PyTorch, and the package `tesela` on the path.

import argparse
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "bench")
sys.path.insert(0, BENCH)

import flex_functions


def run(script, *arguments, **variables):
    return subprocess.run(
        [sys.executable, os.path.join(BENCH, script), *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )


class Results(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = lambda name: os.path.join(folder.name, name)

    def write(self, name, results):
        with open(self.path(name), "w") as file:
            json.dump(results, file)
        return self.path(name)

    def test_merge(self):
        """The columns of several runs are joined in one table; the later run's figures count."""
        calls = {
            "causal": {"tesela": {"call": 1.0, "error": 0.5}, "flex": {"call": 2.0}},
            "dilated": {"tesela": {"call": 3.0}},
        }
        first = {
            "causal": {"tesela": {"first": 40.4, "call": 1.5}},
            "chunks": {"flex": {"first": 7}},
        }
        files = [self.write("calls", calls), self.write("first", first)]
        done = run("flex_functions.py", "--merge", *files, "--json", self.path("all"))
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [
            [cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()
        ]
        self.assertEqual(
            rows[2:],
            [
                ["causal", "1.500", "2.000", "40", "–", "0.50000", "–"],
                ["dilated", "3.000", "–", "–", "–", "–", "–"],
                ["chunks", "–", "–", "–", "7", "–", "–"],
            ],
        )
        self.assertEqual(calls["dilated"], flex_functions.merged([self.path("all")])["dilated"])

    def test_bad(self):
        broken = self.path("broken")
        with open(broken, "w") as file:
            file.write("no JSON")
        for arguments, sentence in (
            (["--merge", self.path("missing")], "No such file"),
            (["--merge", broken], "name files that --json wrote"),
            (["--merge", broken, "--json", broken], "is one of the files that are merged"),
            (["--names", "causal;casual"], "'casual' is unknown: choose from no mask; causal;"),
            (["--processes", "0"], "0 is less than 1"),
            (["--length", "8"], "8 is less than 56"),
        ):
            said = io.StringIO()
            with (
                unittest.mock.patch.object(sys, "argv", ["flex_functions.py", *arguments]),
                contextlib.redirect_stderr(said),
            ):
                try:
                    status = flex_functions.main()
                except SystemExit as end:
                    status = end.code
            self.assertEqual(status, 2)
            self.assertIn(sentence, said.getvalue())

    def options(self, **given):
        defaults = {
            "columns": ["first"], "seconds": None, "processes": 1, "json": None, "length": 64,
            "device": "cpu",
        }  # fmt: skip
        return argparse.Namespace(**{**defaults, **given})

    def test_limit(self):
        """What could not finish in time is left out, and what was measured is kept."""

        def process(command, **given):
            time.sleep(0.2)
            return subprocess.CompletedProcess(command, 0, stdout="warnings\n12.5\n", stderr="")

        path = self.path("first")
        names = ["causal", "chunks", "dilated"]
        with unittest.mock.patch.object(subprocess, "run", process):
            # A pair of processes takes 0.4 s, so the two engines take 0.8 s.
            results, left, failed = flex_functions.run(names, self.options(seconds=1.5, json=path))
        self.assertEqual(results["causal"]["flex"], {"first": 12.5, "second": 12.5})
        self.assertIn("dilated", left)
        self.assertNotIn("causal", left)
        self.assertFalse(failed)
        self.assertEqual(flex_functions.merged([path]), results)

    def test_cut(self):
        def process(command, timeout, **given):
            raise subprocess.TimeoutExpired(command, timeout)

        with unittest.mock.patch.object(subprocess, "run", process):
            results, left, _ = flex_functions.run(["causal"], self.options(seconds=9))
        self.assertEqual((results, left), ({}, ["causal"]))

    def test_failed(self):
        def process(command, **given):
            return subprocess.CompletedProcess(command, 1, stdout="", stderr="first\nno compiler\n")

        said = io.StringIO()
        with (
            unittest.mock.patch.object(subprocess, "run", process),
            contextlib.redirect_stderr(said),
        ):
            _, left, failed = flex_functions.run(["causal"], self.options())
        self.assertTrue(failed)
        self.assertEqual(left, [])
        self.assertIn("the first call of 'causal' by tesela failed: no compiler", said.getvalue())


class OnTheCpu(unittest.TestCase):
    """Both engines, with FlexAttention not compiled."""

    def test_functions(self):
        done = run(
            "flex_functions.py", "--device", "cpu", "--length", "64", "--repeat", "1",
            "--names", "softcap, causal", "--columns", "calls", TORCHDYNAMO_DISABLE="1",
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        row = done.stdout.splitlines()[-1].split("|")
        errors = [float(cell) for cell in row[-3:-1]]
        self.assertLess(max(errors), 0.02)
        self.assertGreater(min(errors), 0)

    def test_prefill(self):
        done = run(
            "transformers_prefill.py", "--tiny", "--length", "64", "--layers", "1", "--passes", "1",
            "--seconds", "900", "--cases", "packed", "--implementations", "sdpa", "tesela", TORCHDYNAMO_DISABLE="1",
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        differences = re.findall(r"(\S+) \|$", done.stdout, flags=re.MULTILINE)[-2:]
        self.assertEqual(float(differences[0]), 0)
        self.assertLess(float(differences[1]), 0.02)

    def test_nothing_there(self):
        """Without a GPU, or without the package: a message, and status 3."""
        done = run("flex_functions.py", CUDA_VISIBLE_DEVICES="")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("PyTorch finds no CUDA device", done.stderr)
        done = run("transformers_prefill.py", "--tiny", PYTHONPATH="")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("No module named 'tesela'", done.stderr)

    def test_bad_length(self):
        done = run("transformers_prefill.py", "--length", "100")
        self.assertEqual(done.returncode, 2)
        self.assertIn("100 is not a multiple of 8", done.stderr)


if __name__ == "__main__":
    unittest.main()
