# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions that read captured tensors through slices, broadcasts and functions of axes, compared
with NumPy's own result for each pair.
"""

from __future__ import annotations

import sys
import unittest
from typing import Any

import numpy as np
import tesela
from tesela._trace import TraceError, trace

HEADS, QUERIES, KEYS = 4, 9, 53
GENERATOR = np.random.default_rng(7)
A = GENERATOR.integers(-9, 9, (HEADS, KEYS), dtype=np.int32)
B = GENERATOR.integers(-9, 9, (HEADS, KEYS), dtype=np.int32)
C = GENERATOR.integers(-9, 9, (2, HEADS, 3), dtype=np.int32)
S = GENERATOR.integers(1, 9, KEYS, dtype=np.int32)
ROW = GENERATOR.integers(1, 9, (1, KEYS), dtype=np.int32)
BINS = np.int32([3, 7, 11, 30])
FLOATS = np.float32([1.75, -2.5, np.nan, 0.5])


def scores(function: Any) -> Any:
    """The scores of a function of h, q and k, one for each head, query and key.

    The values are the unit matrix and the scores are small, so the weights' logarithms are the
    scores but for a number of each row; the key 0 fixes that.
    """
    text, values = trace(
        lambda s, h, q, k: np.where(k == KEYS, 0.0, 0.125 * function(h, q, k)),
    )
    keys = KEYS + 1
    q = np.zeros((1, HEADS, QUERIES, 8), np.float32)
    k = np.zeros((1, HEADS, keys, 8), np.float32)
    unit = np.broadcast_to(np.eye(keys, 56, dtype=np.float32), (1, HEADS, keys, 56))
    out = tesela.attention(q, k, np.ascontiguousarray(unit), tesela.variant(text, **values))[0]
    return 8 * np.log(out[..., :KEYS] / out[..., KEYS : KEYS + 1])


class Tensors(unittest.TestCase):
    def check(self, function: Any, expected: Any) -> None:
        """Compares with `expected(h, q, k)`, or with a number for each of them."""
        places = np.ndindex(HEADS, QUERIES, KEYS)
        each = np.float64([expected(*(int(i) for i in place)) for place in places])
        each = each.reshape(HEADS, QUERIES, KEYS)
        np.testing.assert_allclose(scores(function), each, atol=2e-4)

    def refused(self, function: Any, sentence: str) -> None:
        with self.assertRaisesRegex(TraceError, sentence):
            trace(function)

    def test_slices_end_where_they_end(self) -> None:
        self.check(lambda h, q, k: S[:10][k], lambda h, q, k: S[min(k, 9)])
        self.check(lambda h, q, k: S[5:][k - 3], lambda h, q, k: S[min(max(k - 3, 0) + 5, 52)])
        self.check(lambda h, q, k: S[5:2][k], lambda h, q, k: 0)
        self.check(lambda h, q, k: S[60:][k], lambda h, q, k: 0)
        self.check(lambda h, q, k: S[:-4][k], lambda h, q, k: S[min(k, 48)])
        self.check(lambda h, q, k: S[-4:][k - q], lambda h, q, k: S[-4:][min(max(k - q, 0), 3)])
        self.check(lambda h, q, k: S[4:20][k - 9], lambda h, q, k: S[4 + min(max(k - 9, 0), 15)])
        self.check(lambda h, q, k: S[::2][k], lambda h, q, k: S[2 * min(k, 26)])
        self.check(lambda h, q, k: S[1:9:3][k], lambda h, q, k: S[1 + 3 * min(k, 2)])
        self.check(lambda h, q, k: S[::-1][k], lambda h, q, k: S[52 - k])
        self.check(lambda h, q, k: S[:10][2:][k], lambda h, q, k: S[min(k + 2, 9)])
        self.check(lambda h, q, k: A[1:3][h, k], lambda h, q, k: A[min(h + 1, 2), k])
        self.check(lambda h, q, k: S[3:9].sum(), lambda h, q, k: S[3:9].sum())
        self.check(lambda h, q, k: S[9:3].sum(), lambda h, q, k: 0)
        self.check(lambda h, q, k: (S > 4)[70:].any() + k, lambda h, q, k: k)

    def test_slices_with_captured_ends(self) -> None:
        for low, high in ((0, 4), (3, -2), (-5, 60), (7, 7), (9, 2), (-70, 3), (60, 70)):
            with self.subTest(low=low, high=high):
                part = S[low:high]
                last = len(part) - 1
                self.check(
                    lambda h, q, k, part=part, last=last: S[low:high][k - 2],  # noqa: B023
                    lambda h, q, k, part=part, last=last: (
                        part[min(max(k - 2, 0), last)] if len(part) else 0
                    ),
                )

    def test_captured_indices(self) -> None:
        for row in (1, -1, -3):
            self.check(lambda h, q, k, row=row: A[row][k], lambda h, q, k, row=row: A[row, k])

    def test_slices_of_the_whole_keep_their_text(self) -> None:
        self.assertIn("A[h, k]", trace(lambda s, h, k: s + A[:, :][h, k])[0])
        self.assertIn("S[k]", trace(lambda s, k: s + S[:][k])[0])
        self.assertIn("S[k + 5]", trace(lambda s, k: s + S[5:][k])[0])
        self.assertIn("S[min(k, 9)]", trace(lambda s, k: s + S[:10][k])[0])

    def test_one_element_is_broadcast(self) -> None:
        self.check(lambda h, q, k: (A[:1] + B)[h, k], lambda h, q, k: A[0, k] + B[h, k])
        self.check(lambda h, q, k: (A[:, 2:3] * B)[h, k], lambda h, q, k: A[h, 2] * B[h, k])
        self.check(lambda h, q, k: (B - A[2:3])[h, k], lambda h, q, k: B[h, k] - A[2, k])
        self.check(lambda h, q, k: (A[1:2] + A[2:3])[0, k], lambda h, q, k: A[1, k] + A[2, k])
        self.check(lambda h, q, k: (ROW + B)[h, k], lambda h, q, k: ROW[0, k] + B[h, k])
        self.check(lambda h, q, k: (A[:, :1] + S)[h, k], lambda h, q, k: A[h, 0] + S[k])
        self.check(
            lambda h, q, k: (A[:, None, 3:4] + S[:QUERIES])[h, 0, q],
            lambda h, q, k: A[h, 3] + S[q],
        )
        self.check(lambda h, q, k: np.broadcast_to(A[:1], (4, 53))[h, k], lambda h, q, k: A[0, k])
        self.check(lambda h, q, k: np.broadcast_to(S, (4, 53))[h, k], lambda h, q, k: S[k])
        self.refused(lambda h, k: (A[:2] + B)[h, k], "an axis of 4 elements .* with one of 2")
        self.refused(lambda h, k: np.broadcast_to(A, (3, 53))[h, k] > 0, "same number of elements")

    def test_order_of_axes(self) -> None:
        self.check(
            lambda h, q, k: np.swapaxes(C, 1, 2)[1, k % 3, h], lambda h, q, k: C[1, h, k % 3]
        )
        self.check(
            lambda h, q, k: np.transpose(C, axes=(2, 0, 1))[k % 3, 1, h],
            lambda h, q, k: C[1, h, k % 3],
        )
        self.check(
            lambda h, q, k: C.transpose(2, 0, 1)[k % 3, 1, h], lambda h, q, k: C[1, h, k % 3]
        )
        self.check(lambda h, q, k: C.T[k % 3, h, 1], lambda h, q, k: C[1, h, k % 3])
        self.check(lambda h, q, k: C.mT[1, k % 3, h], lambda h, q, k: C[1, h, k % 3])
        self.refused(lambda k: S.mT[k] > 0, "'.mT' needs two axes")

    def test_keywords(self) -> None:
        few = [3, 7, 30]
        self.check(
            lambda h, q, k: np.isin(k, BINS, invert=True) + 1, lambda h, q, k: 1 + (k not in BINS)
        )
        self.check(
            lambda h, q, k: np.isin(k, few, invert=True) + 1, lambda h, q, k: 1 + (k not in few)
        )
        self.check(
            lambda h, q, k: np.sum(C[1, h], where=C[1, h] > k - 20, initial=k),
            lambda h, q, k: np.sum(C[1, h], where=C[1, h] > k - 20, initial=k),
        )
        self.check(
            lambda h, q, k: np.any(C[1, h] > k, where=C[1, h] > 0) + k,
            lambda h, q, k: np.any(C[1, h] > k, where=C[1, h] > 0) + k,
        )
        self.check(
            lambda h, q, k: np.all(C[1, h] < k, where=C[1, h] > 0) + k,
            lambda h, q, k: np.all(C[1, h] < k, where=C[1, h] > 0) + k,
        )
        self.check(lambda h, q, k: FLOATS[:2].sum(dtype=np.int32), lambda h, q, k: -1)
        self.check(lambda h, q, k: np.sum(FLOATS[:2], 0, np.int32), lambda h, q, k: -1)
        self.check(lambda h, q, k: np.nansum(FLOATS), lambda h, q, k: -0.25)
        self.check(
            lambda h, q, k: np.sum(C, (0, 2), keepdims=True)[0, h, 0],
            lambda h, q, k: C[:, h].sum(),
        )
        self.check(lambda h, q, k: C[1].mean(axis=1)[h], lambda h, q, k: C[1, h].mean())
        self.check(
            lambda h, q, k: np.dot(C[0], C[1].T)[h, q % 4],
            lambda h, q, k: C[0, h] @ C[1, q % 4],
        )
        self.check(
            lambda h, q, k: np.nan_to_num(FLOATS[k % 4], True),
            lambda h, q, k: np.nan_to_num(FLOATS[k % 4]),
        )
        self.check(
            lambda h, q, k: np.nan_to_num(FLOATS[k % 4], True, 5.0),
            lambda h, q, k: np.nan_to_num(FLOATS[k % 4], True, 5.0),
        )
        for function in (
            lambda h, k: C.sum(3)[h] > k,
            lambda h, k: C[1].sum((0, -2))[h] > k,
            lambda h, k: (C[1][:, :1] @ C[1])[h, 0] > k,
        ):
            with self.assertRaisesRegex(TraceError, "no axis|twice|combined"):
                tesela.variant(function)
        for function in (
            lambda h, k: np.mean(C[1, h], where=C[1, h] > 0) > k,
            lambda q, k: np.add(q, k, where=q > k) > 3,
            lambda q, k: np.add(q, k, dtype=np.float32) > 3,
            lambda q, k: np.searchsorted(BINS, q, sorter=BINS) > k,
        ):
            self.refused(function, "was called in a way that cannot be traced")
        self.refused(lambda q, k: np.add(q, k, out=BINS) > 3, "leave 'out' out")

    def test_intervals(self) -> None:
        bins = np.int32([3, 7, 7, 30])
        for right in (False, True):
            self.check(
                lambda h, q, k, right=right: np.digitize(k, bins, right=right),
                lambda h, q, k, right=right: np.digitize(k, bins, right=right),
            )
        for side in ("left", "right"):
            self.check(
                lambda h, q, k, side=side: np.searchsorted(bins, k, side=side),
                lambda h, q, k, side=side: np.searchsorted(bins, k, side=side),
            )
            self.check(
                lambda h, q, k, side=side: bins.searchsorted(k, side),
                lambda h, q, k, side=side: bins.searchsorted(k, side),
            )

    def test_extremes_along_an_axis_are_refused(self) -> None:
        for function in (
            lambda h, k: A[h].max(0) > k,
            lambda h, k: A[h].min(0) > k,
            lambda h, k: C[0, h].max(-1)[0] > k,
            lambda h, k: A.max(1)[0][h] > k,
            lambda h, k: A.max(axis=1)[h] > k,
            lambda h, k: A[h].amax(-1) > k,
            lambda h, k: np.max(A[h], -1) > k,
            lambda h, k: np.min(A[h], axis=0) > k,
            lambda h, k: np.amax(A[h], -1) > k,
            lambda h, k, axis=0: A[h].max(axis) > k,
        ):
            self.refused(function, "along an axis cannot be traced; compute it outside")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
