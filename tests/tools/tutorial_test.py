# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs everything that docs/tutorial.md tells the reader to write and to run, in a new folder and in
# its order: `tutorial_test.py PATH-OF-TESELA [--write | unittest options]`. With --write the page
# gets the new outputs and pictures.
#
# The words after the fence of a block say what it is:
#   attn NAME, python NAME    a file that the reader writes; the line above names it
#   console [exits=N]         commands after "$ ", and all that they print; N is the exit code of the
#                             last command, 0 by default
#   console gpu               the same, run only with a GPU; shows no output
#   console build             builds Tesela: the tests have done that, so only the scripts must exist
# Any other block is an error.

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TESELA = ""
ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
DOCUMENTS = os.path.join(ROOT, "docs")
PAGE = os.path.join(DOCUMENTS, "tutorial.md")

# By the line's label, what differs between machines or runs.
MEASURED = {
    "device": r"(?<=^device     ).*(?= \(host\)$)",
    "schedule": r"(?<=^schedule   ).*",
    "compile": r"\d+\.\d",
    "check": r"\d\.\d\de[-+]\d\d",
    "time": r"[\d.]+(?:e[-+]\d\d)?",
    "speed": r"[\d.]+(?:e[-+]\d\d)?(?= TFLOP/s| over all)",
}


class Block:
    """A fenced block: the words after the fence, its lines, and the index of the first line."""

    def __init__(self, words, start, lines):
        self.words, self.start, self.lines = words, start, lines

    def commands(self):
        """[(command, the output that the page shows)]."""
        commands = []
        for line in self.lines:
            if line.startswith("$ "):
                commands.append((line[2:], []))
            elif commands:
                commands[-1][1].append(line)
            else:
                raise ValueError(f"{PAGE}:{self.start + 1}: a console block begins with '$ '")
        return commands

    def exit_code(self):
        return next((int(word[6:]) for word in self.words if word.startswith("exits=")), 0)


def blocks_of(lines):
    blocks, at = [], 0
    while at < len(lines):
        if lines[at].startswith("```"):
            end = lines.index("```", at + 1)
            blocks.append(Block(lines[at][3:].split(), at + 1, lines[at + 1 : end]))
            at = end
        elif lines[at].startswith("    "):
            raise ValueError(f"{PAGE}:{at + 1}: an indented block; fence it, so that it is run")
        at += 1
    return blocks


def pattern(shown):
    """A regular expression for the lines `shown`."""
    expression = ""
    for line in shown:
        measured = MEASURED.get(line.split(" ")[0])
        parts = [line] if measured is None else re.split(measured, line)
        expression += r"\S.*?".join(re.escape(part) for part in parts) + r"\n"
    return expression


class Reader:
    """Does what the page says, in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = dict(os.environ, TESELA_CACHE_DIR=os.path.join(folder, "cache"))
        self.environment["PATH"] = os.pathsep.join(
            [os.path.dirname(TESELA), self.environment["PATH"]]
        )

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, lines):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def run(self, command):
        """The exit code, and the printed lines: first those of stderr."""
        done = subprocess.run(
            command, shell=True, cwd=self.folder, env=self.environment, text=True, timeout=300,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout.splitlines()

    def has_gpu(self):
        found = subprocess.run([TESELA, "devices", "--json"], stdout=subprocess.PIPE, check=True)
        return any(device["kind"] == "cuda" for device in json.loads(found.stdout))


def read_page():
    with open(PAGE, encoding="utf-8") as page:
        return page.read().splitlines()


def pictures_of(lines):
    """The pictures that the page shows, as paths below docs."""
    return re.findall(r"!\[[^\]]*\]\(([^)]+)\)", "\n".join(lines))


class Tutorial(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.reader = Reader(folder.name)
        self.lines = read_page()

    def test_what_it_says(self):
        for block in blocks_of(self.lines):
            with self.subTest(f"docs/tutorial.md:{block.start}"):
                self.follow(block)
        with self.subTest("pictures"):
            self.compare_pictures()

    def follow(self, block):
        if block.words[:1] in (["attn"], ["python"]) and len(block.words) == 2:
            above = next(line for line in reversed(self.lines[: block.start - 1]) if line)
            self.assertIn(f"`{block.words[1]}`", above, "the line above a file names it")
            self.reader.write(block.words[1], block.lines)
        elif block.words == ["console", "build"]:
            for command, _ in block.commands():
                script = command.split()[0]
                if script.startswith("scripts/"):
                    self.assertTrue(os.access(os.path.join(ROOT, script), os.X_OK), script)
            self.skipTest("builds Tesela, as was done before the tests")
        elif block.words == ["console", "gpu"]:
            if not self.reader.has_gpu():
                self.skipTest("no GPU: " + ", ".join(command for command, _ in block.commands()))
            self.run_commands(block, compared=False)
        elif re.fullmatch(r"console( exits=\d)?", " ".join(block.words)):
            self.run_commands(block, compared=True)
        else:
            self.fail(f"nothing is known of '```{' '.join(block.words)}'; see {__file__}")

    def run_commands(self, block, compared):
        commands = block.commands()
        self.assertTrue(commands)
        for number, (command, shown) in enumerate(commands, 1):
            code, printed = self.reader.run(command)
            self.assertEqual(code, block.exit_code() if number == len(commands) else 0,
                             "\n".join([command, *printed]))
            text = "".join(line + "\n" for line in printed)
            if compared and not re.fullmatch(pattern(shown), text):
                self.assertEqual("\n".join(shown) + "\n", text, command)
                self.fail(command)

    def compare_pictures(self):
        shown = pictures_of(self.lines)
        self.assertTrue(shown)
        for name in shown:
            with open(os.path.join(DOCUMENTS, name), "rb") as kept, open(
                self.reader.path(os.path.basename(name)), "rb"
            ) as drawn:
                self.assertTrue(kept.read() == drawn.read(), f"{name} is not what is drawn now")


class Patterns(unittest.TestCase):
    """Tests the comparison itself."""

    def matches(self, shown, printed):
        return re.fullmatch(pattern(shown.splitlines()), printed) is not None

    def test_measured_numbers_may_differ(self):
        shown = "time       3.669 ms median of 10 (from 3.581 to 3.732)"
        self.assertTrue(self.matches(shown, "time       12 ms median of 10 (from 1e-05 to 4)\n"))
        self.assertFalse(self.matches(shown, "time       12 s median of 10 (from 1 to 4)\n"))
        shown = "speed      0.02 TFLOP/s over the kept pairs (8.5 % of all), 0.3 over all"
        self.assertTrue(self.matches(shown, shown.replace("0.02", "1e-03") + "\n"))
        self.assertFalse(self.matches(shown, shown.replace("8.5", "8.6") + "\n"))
        self.assertTrue(self.matches("device     A CPU (host)", "device     Another (host)\n"))

    def test_all_else_is_the_same(self):
        shown = "skipped    755 MFLOP of 1.07 GFLOP (70.3 %)"
        self.assertTrue(self.matches(shown, shown + "\n"))
        self.assertFalse(self.matches(shown, shown.replace("755", "756") + "\n"))
        self.assertFalse(self.matches(shown, shown + "\nmore\n"))
        self.assertFalse(self.matches(shown, ""))

    def test_no_block_is_left_out(self):
        with self.assertRaises(ValueError):
            blocks_of(["    tesela run causal"])
        test = Tutorial()
        test.setUp()
        self.addCleanup(test.doCleanups)
        for words in (["sh"], [], ["attn"], ["console", "later"]):
            with self.assertRaises(self.failureException):
                test.follow(Block(words, 1, ["$ false"]))
        with self.assertRaises(self.failureException):
            test.follow(Block(["console"], 1, ["$ false"]))


def write_page():
    """Replaces the page's outputs and pictures by those of this run."""
    lines = read_page()
    replaced = {}  # by the index of a block's first line
    with tempfile.TemporaryDirectory() as folder:
        reader = Reader(folder)
        for block in blocks_of(lines):
            if block.words[0] in ("attn", "python"):
                reader.write(block.words[1], block.lines)
            elif block.words[1:] in ([], [f"exits={block.exit_code()}"]):
                text = []
                for command, _ in block.commands():
                    text += ["$ " + command, *reader.run(command)[1]]
                replaced[block.start] = (len(block.lines), text)
        for start in sorted(replaced, reverse=True):
            length, text = replaced[start]
            lines[start : start + length] = text
        for name in pictures_of(lines):
            os.makedirs(os.path.dirname(os.path.join(DOCUMENTS, name)), exist_ok=True)
            shutil.copyfile(reader.path(os.path.basename(name)), os.path.join(DOCUMENTS, name))
    with open(PAGE, "w", encoding="utf-8") as page:
        page.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    TESELA = os.path.abspath(sys.argv.pop(1))
    if sys.argv[1:] == ["--write"]:
        write_page()
    else:
        unittest.main()
