# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traced functions of numbers, compared with Python's own `math` for each number.

There is one key, so the logarithm of a row's sum is the row's score.
"""

from __future__ import annotations

import math
import re
import sys
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import tesela
from tesela._trace import TraceError, trace

PAGE = Path(__file__).parents[2] / "docs" / "python-functions.md"
X = np.float32([-7.5, -2.0, -1.0, -0.75, -0.0, 0.25, 0.5, 1.0, 2.5, 3.0, 9.25])
POSITIVE = np.float32([1e-6, 0.25, 0.5, 1.0, 2.5, 3.0, 9.25])
SMALL = np.float32([s * 10.0**e for e in range(-9, 0) for s in (1, 2, 2.4, 2.6, 5, -1, -2.6, -9)])
BOTH = "copysign fmod hypot pow remainder"
FROM_POSITIVE = ("sqrt", "log", "log2", "log10", "log1p")


def listed() -> list[str]:
    """The functions of math that the page lists."""
    line = re.search(r"^- Functions of `math`: (.*?)\. The others", PAGE.read_text("utf-8"), re.M)
    assert line is not None
    return re.findall(r"`(\w+)`", line[1])


def scores(function: Any, x: Any) -> Any:
    """`function(x)` of each element, computed as a score."""
    text, values = trace(lambda s, q: s * 0 + function(x[q]))
    q, k = np.zeros((1, 1, len(x), 8), np.float32), np.zeros((1, 1, 1, 8), np.float32)
    variant = tesela.variant(text, **values)
    return tesela.attention(q, k, k, variant, return_lse=True)[1][0, 0]


class Functions(unittest.TestCase):
    def check(self, function: Any, x: Any, tolerance: float = 2e-6) -> None:
        expected = np.float64([function(float(each)) for each in x])
        np.testing.assert_allclose(scores(function, x), expected, rtol=tolerance, atol=1e-6)

    def test_the_functions_of_the_page(self) -> None:
        self.assertGreater(len(listed()), 30)
        for name in listed():
            function = getattr(math, name)
            with self.subTest(name):
                if name == "prod":
                    self.check(lambda x: math.prod([x, 2, x], start=3), X)
                elif name in BOTH.split():
                    for other in (2.0, -3.0, 3):
                        self.check(lambda x, f=function, y=other: f(x, y), X[X != 0])
                        self.check(lambda x, f=function, y=other: f(abs(y), x), X[X != 0])
                else:
                    self.check(function, POSITIVE if name in FROM_POSITIVE else X, 1e-5)

    def test_several_arguments(self) -> None:
        self.check(lambda x: math.log(x, 2), POSITIVE)
        self.check(lambda x: math.log(10, x + 1), POSITIVE[1:])
        self.check(lambda x: math.hypot(x, 2, 3), X)
        self.check(lambda x: math.hypot(x), X)
        self.check(lambda x: math.copysign(3, x), X)
        self.check(lambda x: math.fmod(int(x), 3), X)

    def test_powers_of_negative_numbers(self) -> None:
        whole, half, zero = 3, 3.0, 0
        self.check(lambda x: x**whole, X)
        self.check(lambda x: x**half, X)
        self.check(lambda x: x**zero, X)
        self.check(lambda x: math.pow(-2.0, int(x)), X)
        fraction = 0.3
        self.assertTrue(np.isnan(scores(lambda x: x**fraction, X)[0]))

    def test_the_accuracy_of_log1p(self) -> None:
        every = np.concatenate([SMALL, POSITIVE, np.float32([1e4, 1e20, -0.99, -0.3])])
        expected = np.log1p(np.float64(every))
        actual = scores(math.log1p, every)
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
        edges = scores(np.log1p, np.float32([0, np.nan, -2]))
        np.testing.assert_array_equal(edges, [0, np.nan, np.nan])

    def test_what_the_language_has_not(self) -> None:
        number = 0.5
        self.check(lambda x: x + math.asin(number), X)
        for name in ("asin", "acosh", "gamma", "modf", "isqrt", "ulp"):
            with self.assertRaisesRegex(TraceError, f"the function 'math.{name}' cannot be traced"):
                trace(lambda s, name=name: getattr(math, name)(s))
        with self.assertRaisesRegex(TraceError, "'math.atan2' cannot be traced; write it with"):
            trace(lambda q, k: math.atan2(q, k))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
