# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random Python functions of integers, compared with Python's own result for each pair."""

from __future__ import annotations

import os
import random
import sys
import unittest

import numpy as np
import tesela
from tesela._trace import TraceError, trace

QUERIES, KEYS, FUNCTIONS = 12, 16, int(os.environ.get("TESELA_RANDOM_FUNCTIONS", "50"))


class Table:
    """A captured table for Python's evaluation; the traced function gets a NumPy array."""

    def __init__(self, generator: random.Random) -> None:
        self.values = [generator.randrange(-5, 20) for _ in range(16)]
        self.array = np.array(self.values, np.int32)


class Writer:
    """Writes the source of a random function."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, depth: int) -> str:
        pick = self.random.randrange
        if depth == 0:
            return ("q", "k", "m", "n", str(pick(0, 9)), "-" + str(pick(1, 9)))[pick(6)]
        a, b, c = (self.number(depth - 1) for _ in range(3))
        return (
            lambda: f"({a} + {b})",
            lambda: f"({a} - {b})",
            lambda: f"({a} * {pick(-4, 5)})",
            lambda: f"({a} // {pick(1, 9)})",
            lambda: f"({a} % {self.random.choice([-7, -2, 3, 8])})",
            lambda: f"({a} // m)",
            lambda: f"abs({a})",
            lambda: f"min({a}, {b})",
            lambda: f"max({a}, {b}, {c})",
            lambda: f"table[{a} % 16]",
            lambda: f"({a} & {pick(0, 64)})",
            lambda: f"({a} & ({b} % 16))",
            lambda: f"(({a} % 16) | ({b} % 32))",
            lambda: f"(({a} % 8) ^ ({b} % 16))",
            lambda: f"(~{a})",
            lambda: f"(({a} % 16) << {pick(0, 5)})",
            lambda: f"({a} >> {pick(0, 5)})",
            lambda: f"({a} if {self.truth(depth - 1)} else {b})",
            lambda: f"int({self.truth(depth - 1)})",
            lambda: f"sum({a} * i for i in range(n))",
        )[pick(20)]()

    def truth(self, depth: int) -> str:
        pick = self.random.randrange
        if depth <= 1:
            operator = ("<", "<=", ">", ">=", "==", "!=")[pick(6)]
            return f"({self.number(depth)} {operator} {self.number(depth)})"
        a, b, c = (self.truth(depth - 1) for _ in range(3))
        x, y = self.number(depth - 1), self.number(depth - 1)
        return (
            f"({a} and {b})",
            f"({a} or {b})",
            f"(not {a})",
            f"({a} & {b})",
            f"({a} | {b})",
            f"({a} ^ {b})",
            f"({a} if {b} else {c})",
            f"({x} < {y} <= {self.number(1)})",
            f"({x} in (1, 2, {y}))",
            f"({a} == {b})",
        )[pick(10)]


class RandomFunctions(unittest.TestCase):
    def check(self, seed: int) -> bool:
        writer = Writer(seed)
        source = f"lambda q, k: {writer.truth(3)}"
        table = Table(writer.random)
        m, n = writer.random.randrange(1, 6), writer.random.randrange(0, 3)
        plain = eval(source, {"table": table.values, "m": m, "n": n})
        expected = np.array([[bool(plain(q, k)) for k in range(KEYS)] for q in range(QUERIES)])
        try:
            text, values = trace(eval(source, {"table": table.array, "m": m, "n": n}))
        except TraceError as error:
            self.assertIn("more than 64 ways", str(error), source)
            return False
        self.assertEqual(text.count("mask"), 1, text)
        q = np.zeros((1, 1, QUERIES, 8), np.float32)
        k = np.zeros((1, 1, KEYS, 8), np.float32)
        unit = np.eye(KEYS, dtype=np.float32)[None, None]
        out = np.full((1, 1, QUERIES, KEYS), np.nan, np.float32)
        tesela.attention(q, k, unit, tesela.variant(text, **values), out=out)
        np.testing.assert_array_equal(out[0, 0] > 0, expected, f"{source}\n{text}\n{values}")
        return True

    def test_random_functions(self) -> None:
        traced = 0
        for seed in range(FUNCTIONS):
            with self.subTest(seed=seed):
                traced += self.check(seed)
        self.assertGreater(traced, FUNCTIONS * 0.7)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
