# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Multi-head latent attention for sm_80 on an emulator, checked as in emulated_serving_test.py. Heads have 576 columns,
# of which the first 512 are the values, in pages that all query heads share. Other wide heads have separate values.

import sys
import unittest

import needs_numpy  # noqa: F401  before NumPy
import numpy as np

import emulated_serving_test as serving
from emulated_serving_test import CAUSAL, FULL, NAN, Launch, Sequence, WINDOW
from ptx_emulator import to_bf16

LENGTHS, QUERIES = [90, 0, 64, 37], 3


class Latent(unittest.TestCase):
    def pages(self, dim, dim_v, text, keeps, algorithm, own, schedule, heads, values_of_keys=True):
        serving.H, serving.HKV, serving.DIM, serving.DIM_V = 20, 1, dim, dim_v
        serving.MOST_QUERIES, serving.MOST_KEYS = QUERIES, 128
        page, most = 16, 8
        rng = np.random.default_rng(8)
        order = rng.permutation(len(LENGTHS) * most + 1)
        table = np.full((len(LENGTHS), most), serving.MOST, np.int32)
        pool = np.full((len(order), page, 1, dim), NAN)
        for b, n in enumerate(LENGTHS):
            for i in range(-(-n // page)):
                table[b, i] = order[b * most + i]
                rows = min(page, n - i * page)
                pool[table[b, i], :rows] = rng.standard_normal((rows, 1, dim))
        k = to_bf16(pool).transpose(0, 2, 1, 3)
        v = k[..., :dim_v] if values_of_keys else np.ascontiguousarray(k[..., dim - dim_v :])
        q = to_bf16(rng.standard_normal((len(LENGTHS), serving.H, QUERIES, dim)))
        o = np.full((*q.shape[:3], dim_v), 0x7FFF, np.uint16)
        tensors = {"q": q, "k": k, "o": o, "lse": np.full(q.shape[:3], NAN), "table": table,
                   "lengths": np.int32(LENGTHS)}
        if not values_of_keys:
            tensors["v"] = v
        sequences = [
            Sequence(QUERIES, n, n - QUERIES, lambda i, b=b: (b, i),
                     lambda j, b=b: (table[b, j // page], j % page))
            for b, n in enumerate(LENGTHS)
        ]
        bindings = (*own, "keys=paged", f"page={page}", "positions=end")
        if values_of_keys:
            bindings += ("values=keys",)
        check = serving.Serving.check
        check(self, Launch(len(LENGTHS), tensors), sequences, (q, k, v), text, keeps, algorithm, bindings,
              f"{schedule}, heads = {heads}", heads)

    def test_values_of_keys(self):
        self.pages(576, 512, *CAUSAL, "forward", (), "block_m = 64, warps = 8", 16)
        self.pages(576, 512, *FULL, "forward_in_parts", ("workers=20",), "block_m = 64, warps = 8", 16)

    def test_small_blocks(self):
        """The blocks for chips with 99 KB of shared memory."""
        self.pages(576, 512, *WINDOW, "forward", (), "block_m = 32, block_n = 32, warps = 4, stages = 1", 8)

    def test_values_of_their_own(self):
        self.pages(576, 512, *CAUSAL, "forward", (), "block_m = 64, block_n = 32, stages = 1, warps = 8", 4,
                   values_of_keys=False)
        self.pages(264, 200, *CAUSAL, "forward", (), "block_m = 64, block_n = 64, warps = 8, reference = follow",
                   16, values_of_keys=False)


if __name__ == "__main__":
    serving.TESELA = sys.argv.pop(1)
    unittest.main()
