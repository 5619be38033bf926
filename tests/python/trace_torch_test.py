# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of PyTorch's tensors, traced and compared with PyTorch's own result for each pair."""

from __future__ import annotations

import sys
import unittest
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="functions of PyTorch need PyTorch")

import tesela  # noqa: E402
from tesela._trace import TraceError, trace  # noqa: E402

QUERIES, KEYS = 9, 40
BINS = torch.tensor([3, 7, 7, 30], dtype=torch.int32)
TABLE = torch.arange(24, dtype=torch.int32).reshape(2, 3, 4)


class TorchFunctions(unittest.TestCase):
    def mask(self, function: Any) -> None:
        """Compares with the function of tensors without axes."""
        text, values = trace(function)
        expected = [
            [bool(function(torch.tensor(q), torch.tensor(k))) for k in range(KEYS)]
            for q in range(QUERIES)
        ]
        values = {n: v.numpy() if isinstance(v, torch.Tensor) else v for n, v in values.items()}
        q, k = np.zeros((1, 1, QUERIES, 8), np.float32), np.zeros((1, 1, KEYS, 8), np.float32)
        unit = np.eye(KEYS, dtype=np.float32)[None, None]
        out = tesela.attention(q, k, unit, tesela.variant(text, **values))
        np.testing.assert_array_equal(out[0, 0] > 0, expected, text)

    def test_intervals(self) -> None:
        for right in (False, True):
            self.mask(lambda q, k, right=right: torch.bucketize(k, BINS, right=right) == q % 5)
            self.mask(lambda q, k, right=right: torch.searchsorted(BINS, k, right=right) == q % 5)
        self.mask(lambda q, k: torch.searchsorted(BINS, k, side="right") == q % 5)

    def test_keywords(self) -> None:
        self.mask(lambda q, k: torch.isin(k, BINS, invert=True))
        self.mask(lambda q, k: torch.isin(k, BINS, assume_unique=True))
        self.mask(lambda q, k: torch.rsub(q, k, alpha=3) > 4)
        self.mask(lambda q, k: TABLE.select(1, 2)[1, k % 4] > q)
        self.mask(lambda q, k: TABLE[0].sum(dim=1, keepdim=True)[q % 3, 0] > k)
        self.mask(lambda q, k: torch.maximum(q, TABLE[1, 1, k % 4]) > 17)
        self.mask(lambda q, k: torch.max(q, TABLE[0, 1, k % 4]) > 6)

    def test_axes(self) -> None:
        self.mask(lambda q, k: TABLE.mT[1, k % 4, q % 3] > 15)
        self.mask(lambda q, k: TABLE.transpose(0, 2)[k % 4, q % 3, 1] > 15)
        self.mask(lambda q, k: TABLE[:1].expand(4, -1, 4)[q % 4, 2, k % 4] > 9)
        self.mask(lambda q, k: TABLE[0, :1].expand_as(TABLE[1])[q % 3, k % 4] > 1)

    def test_products_and_sums_of_conditions(self) -> None:
        self.mask(lambda q, k: (q >= k) * (q - k < 5))
        self.mask(lambda q, k: (q > k) + (k < 3))
        self.mask(lambda q, k: (q > k) + (k < 3) == 1)

    def test_new_tensors_are_refused(self) -> None:
        for function in (
            lambda q, k: torch.tensor([q >= k]),
            lambda q, k: torch.tensor(q >= k),
            lambda q, k: torch.as_tensor(q >= k),
        ):
            with self.assertRaisesRegex(TraceError, "no tensor can be made of it; write the value"):
                trace(function)
        with self.assertRaisesRegex(TraceError, "a tensor was indexed with a whole tensor"):
            trace(lambda q, k: TABLE[0, 0][torch.tensor([1, 2, 3])][k] > q)

    def test_extremes_along_an_axis_are_refused(self) -> None:
        for function in (
            lambda h, k: torch.max(TABLE[0, h], -1)[0] > k,
            lambda h, k: torch.min(TABLE[0, h], dim=-1)[0] > k,
            lambda h, k: TABLE[0].max(1)[0][h] > k,
            lambda h, k: TABLE[0, h].amin(0) > k,
        ):
            with self.assertRaisesRegex(TraceError, "along an axis cannot be traced"):
                trace(function)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
