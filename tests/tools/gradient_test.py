# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `tesela gradient` end to end: `gradient_test.py PATH-OF-TESELA [unittest options]`. tesela_random_gradients tests
# whether the derivatives are right.

import os
import re
import subprocess
import sys
import unittest

from source_tree import ROOT, text_of

TESELA = ""
LINE = re.compile(r"d (score|sink) / d (\w+)(\[.*?\])? = (.*?)(?:    for (.*))?\n")


class Gradient(unittest.TestCase):
    def call(self, *arguments, text=None, code=0):
        done = subprocess.run([TESELA, *arguments], input=text, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, code, f"{arguments}\n{text}\n{done.stdout}\n{done.stderr}")
        return done

    def of(self, text, *arguments):
        return self.call("gradient", "-", *arguments, text=text).stdout

    def score(self, score, parameters=""):
        return self.of(f"attention a({parameters}) {{ score = {score} }}")

    def test_library(self):
        """Every derivative of every library variant is a valid text of the language."""
        names = sorted(os.listdir(os.path.join(ROOT, "templates", "variants")))
        self.assertGreater(len(names), 40)
        for name in names:
            header = re.search(r"^attention[^{]*{", text_of("templates", "variants", name), re.MULTILINE)[0]
            lets = {"score": "", "sink": ""}
            printed = self.call("gradient", name.removesuffix(".attn")).stdout
            self.assertIn("d score / d s = ", printed)
            found = "score"
            for line in printed.splitlines(keepends=True):
                if line.startswith("let "):
                    # A sink's derivatives follow those of the score.
                    lets[found] += line
                    continue
                of, _, _, text, rounds = LINE.fullmatch(line).groups()
                for each in reversed(rounds.split(", ") if rounds else []):
                    text = f"sum({each}: {text})"
                self.call("check", "-", text=f"{header}\n{lets[of]}{of} = {text}\n}}\n")
                found = "sink"

    def test_sums_within_sums(self):
        """While a sum is differentiated, copies of it come and go. Nothing known of a copy's values may
        be taken for that of a later value at the same address."""
        for factor in ("i + 1", "1.0 * i"):
            for text in (f"sum(j < 4: t[i, j]) * ({factor})", f"({factor}) * sum(j < 4: t[i, j])"):
                printed = self.score(f"s + sum(i < 3: {text})", "t: f32[3, 4]")
                self.assertIn(f"d score / d t[i, j] = {factor}    for i < 3, j < 4", printed)

    def test_document(self):
        """docs/gradients.md shows what the command prints."""
        blocks = re.findall(r"```\n(\$ tesela gradient.*?)```", text_of("docs", "gradients.md"), re.DOTALL)
        self.assertEqual(len(blocks), 2)
        environment = dict(os.environ, PATH=os.path.dirname(TESELA) + os.pathsep + os.environ["PATH"])
        for block in blocks:
            for command, printed in re.findall(r"\$ (.*)\n((?:(?!\$ ).*\n?)*)", block):
                done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True,
                                      timeout=60)
                notes = "\n" + done.stderr if done.stderr else ""
                self.assertEqual(done.stdout + notes, printed)

    def test_sum(self):
        text = text_of("docs", "gradients.md")
        variant, printed = re.search(r"```\n(attention features.*?)```\n\n```\n(.*?)```", text, re.DOTALL).groups()
        self.assertEqual(self.of(variant), printed)

    def test_simplified(self):
        for score, derivative in [("s * 1.0 + 0.0", "1"), ("s - s", "0"), ("-s", "-1"), ("3.0 * s / 2.0", "1.5"),
                                  ("s * s", "2 * s"), ("q >= k ? s : s", "1"), ("q >= k ? s : -inf", "q >= k ? 1 : 0"),
                                  ("q >= k ? -inf : s", "q >= k ? 0 : 1"), ("sum(i < 5: s)", "5"),
                                  ("sum(i < Sk - Sq: s)", "max(Sk - Sq, 0)"), ("s * inf", "inf"),
                                  ("floor(s)", "0"), ("12", "0")]:
            self.assertEqual(self.score(score), f"d score / d s = {derivative}\n")

    def test_numbers_of_the_language(self):
        """An f32 stays an f32, whatever the text of its operands is."""
        self.assertIn("= 1.0 * k * q\n", self.score("s + t[h] * q * k", "t: f32[H]"))
        self.assertIn("= 1.0 * q / k\n", self.score("s + t[h] * q / k", "t: f32[H]"))
        self.assertIn("= k - -2147483648\n", self.score("s + t[h] * (k - -2147483648)", "t: f32[H]"))
        self.assertIn("= k - 3\n", self.score("s + t[h] * (k + -3)", "t: f32[H]"))

    def test_names(self):
        """Indices and lets get names that nothing else has."""
        printed = self.score("s + sum(x < 4: i[x] * j * t1)", "i: f32[4], j: f32, t1: f32")
        self.assertIn("d score / d i[l] = t1 * j    for l < 4\n", printed)
        printed = self.score("tanh(tanh(tanh(s * t1 + 1) * t1 + 1) * t1 + 1)", "t1: f32")
        self.assertIn("let t2 = ", printed)
        self.assertNotIn("let t1 = ", printed)

    def test_extents(self):
        """Names that shapes bind do not change."""
        self.assertIn("= M - 1\n", self.score("s + x * (M - 1)", "x: f32, at: f32[2*M+1]"))

    def test_constants(self):
        text = "attention a(const cap: f32 = 30) { score = cap * tanh(s / cap) }"
        self.assertIn("tanh(s / 30)", self.of(text))
        self.assertIn("tanh(s / 50)", self.of(text, "--param", "cap=50"))
        self.assertNotIn("d cap", self.of(text))

    def test_notes(self):
        done = self.call("gradient", "-", text="attention a(t: f32[H]) {\n  score = s + t[int(s)] + floor(q / 2.0)\n}\n")
        self.assertIn("<stdin>:2:17: note: no derivative passes through int()", done.stderr)
        self.assertNotIn("through floor", done.stderr)  # q has no derivative

    def test_faults(self):
        self.assertIn("<stdin>:1:27: error: 'x' is not in scope", self.call("gradient", "-", code=2, text="attention a { score = s * x }").stderr)
        nested = "s"
        for depth in reversed(range(60)):
            index = " + ".join(f"x{level}" for level in range(depth + 1))
            nested = f"sum(x{depth} < 2: sin(t[{index}] * {nested} + s))"
        refused = self.call("gradient", "-", code=2, text=f"attention a(t: f32[H]) {{ score = {nested} }}").stderr
        self.assertRegex(refused, r"<stdin>:1:\d+: error: the derivative of this reduction takes more than 65536")
        # The largest text that is allowed; a derivative of it is larger.
        chain = " * ".join(f"(s + t[{n}])" for n in range(1500))
        refused = self.call("gradient", "-", code=2, text=f"attention a(t: f32[H]) {{ score = {chain} }}").stderr
        self.assertRegex(refused, r"<stdin>:1:\d+: error: the derivatives of this score have more than 8192 operators")


if __name__ == "__main__":
    TESELA = os.path.abspath(sys.argv.pop(1))
    unittest.main()
