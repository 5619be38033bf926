# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# docs/architecture.md must show what the compiler prints at each stage. `architecture_test.py
# PATH-OF-TESELA PATH-OF-TESELA-OPT`

import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
TESELA = TESELA_OPT = ""


def plain(line):
    """A line without indentation and without the numbers of values, which change with other
    passes."""
    line = re.sub(r"%[\w-]+(:\d+)?(#\d+)?", "%", line)
    return re.sub(r"\s+", " ", line).strip()


def pattern(line):
    """A pattern for a shown line: `…` stands for any text, and the end of a line may be left
    out."""
    return re.compile(".*".join(map(re.escape, plain(line).split("…"))))


def missing(block, output):
    """The first line of `block` that does not follow in `output` after the lines before it."""
    lines = iter(map(plain, output.splitlines()))
    for line in block.splitlines():
        if plain(line) in ("", "…"):
            continue
        if not any(pattern(line).match(each) for each in lines):
            return line
    return None


def run(command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


class Architecture(unittest.TestCase):
    schedule = re.search(r'^\$ S="(.*)"$', PAGE, re.MULTILINE)[1]

    def output(self, stage):
        if stage == "template":
            return (ROOT / "templates/forward.mlir").read_text(encoding="utf-8")
        command = [TESELA, "compile", "causal", "--target", "sm_90", "--head-dim", "64"]
        command += ["--schedule", self.schedule, "--emit"]
        if stage == "core":
            pipeline = re.search(r"--pass-pipeline='(.*)'", PAGE)[1]
            tile = run([*command, "tile"])
            return run([TESELA_OPT, "-", f"--pass-pipeline={pipeline}"], tile)
        return run([*command, stage])

    def test_each_stage_is_what_is_printed(self):
        blocks = re.findall(r"^```(?:mlir (\w+)|(ptx))\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
        stages = [stage or ptx for stage, ptx, _ in blocks]
        self.assertEqual(sorted(set(stages)), ["attn", "core", "pipe", "ptx", "template", "tile"])
        for stage, (_, _, block) in zip(stages, blocks):
            with self.subTest(stage):
                self.assertIsNone(missing(block, self.output(stage)))

    def test_what_is_not_there_is_missed(self):
        output = "a = b %1\nc\nd"
        self.assertIsNone(missing("a = b %7\n…\nd", output))
        self.assertIsNone(missing("a … %7", output))
        self.assertEqual(missing("d\nc", output), "c")
        self.assertEqual(missing("a = c", output), "a = c")


if __name__ == "__main__":
    TESELA, TESELA_OPT = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
