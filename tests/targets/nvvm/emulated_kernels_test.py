# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs kernels for sm_80 on an emulator (ptx_emulator.py) and compares them with attention in
# double precision: `emulated_kernels_test.py PATH-OF-TESELA [unittest options]`. Needs no GPU. If no Python has
# NumPy, the test is skipped with exit code 77.
#
# Summaries of captured tensors are replaced by ones that exclude no value. So every tile is partial, and every
# mask is evaluated.

import os
import re
import sys
import unittest

import needs_numpy  # noqa: F401  before NumPy
import numpy as np
from emulated_tools import BASE, DROPOUT_STATE, VARIANTS, compile_variant, dropout_parameters, dropped
from ptx_emulator import Emulator, from_bf16, parameter_types, to_bf16

TESELA = ""


class Problem:
    """A variant, its tensors, and its mask as a Python function. Captured tensors are i32."""

    def __init__(self, text, mask, captures=None, scalars=None, queries=70, keys=150, kv_heads=1,
                 head_dim=64, schedule="block_m = 64, warps = 4, stages = 1", dropout=None):
        self.text, self.mask, self.schedule, self.dropout = text, mask, schedule, dropout
        self.captures, self.scalars = captures or {}, scalars or {}
        self.batch, self.heads, self.kv_heads = 1, 2, kv_heads
        self.queries, self.keys, self.head_dim = queries, keys, head_dim

    def compile(self, stage):
        return compile_variant(TESELA, self.text, stage, self.head_dim, self.schedule, self.dropout)

    def error(self, change=lambda ptx: ptx):
        """The largest error of O and LSE; NaN if a result is NaN."""
        tile, ptx = self.compile("tile"), change(self.compile("ptx"))
        block_m, warps = (
            int(re.search(name + r" = (\d+)", tile).group(1)) for name in ("block_m", "warps")
        )
        random = np.random.default_rng(1)
        extents = {"B": self.batch, "H": self.heads, "Hkv": self.kv_heads}

        def tensor(heads, length):
            return to_bf16(random.standard_normal((self.batch, heads, length, self.head_dim)))

        q, k = tensor(self.heads, self.queries), tensor(self.kv_heads, self.keys)
        v = tensor(self.kv_heads, self.keys)
        o = np.full(q.shape, 0x7FFF, np.uint16)
        lse = np.full(q.shape[:3], np.nan, np.float32)
        nothing_known = np.array([-(2**31), 2**31 - 1], np.int32)

        memory, address = bytearray(), {}
        tensors = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "": nothing_known,
                   "dropout": DROPOUT_STATE, **self.captures}
        for name, values in tensors.items():
            memory.extend(b"\xff" * (-len(memory) % 256))
            address[name] = BASE + len(memory)
            memory.extend(values.tobytes() + b"\xff" * 256)
        memory = np.frombuffer(bytes(memory), np.uint8).copy()

        # The parameters, in the order of KernelSignature.h.
        scale = np.float32(1 / np.sqrt(self.head_dim))
        parameters = [*extents.values(), self.queries, self.keys]
        for name in ("q", "k", "v", "o"):
            strides = [stride // 2 for stride in tensors[name].strides[:3]]
            parameters += [address[name], *strides]
        parameters += [address["lse"], int(scale.view(np.uint32))]
        signature = tile[tile.index("tile.kernel @forward") : tile.index("attributes")]
        for name in re.findall(r"%\$(\w+):", signature):
            if name in self.captures:
                values = self.captures[name]
                parameters.append(address[name])
                for extent, stride in zip(values.shape, values.strides):
                    parameters += [extent, stride // 4]
            else:
                parameters.append(int(np.int32(self.scalars[name]).view(np.uint32)))
        if self.dropout is not None:
            parameters += dropout_parameters(self.dropout, address["dropout"])
        types = parameter_types(ptx, "forward")
        while len(parameters) < len(types):
            parameters.append(address[""])
            planes = 2  # one for the lowest and one for the highest number
            while len(parameters) < len(types) and not types[len(parameters)][1]:
                parameters += [planes, 1 if planes == 2 else 0]
                planes = 1

        blocks = self.batch * self.heads * -(-self.queries // block_m)
        Emulator(ptx, "forward", blocks, 32 * warps, parameters, memory, BASE).run()

        def result(name):
            values, first = tensors[name], address[name] - BASE
            return memory[first : first + values.nbytes].view(values.dtype).reshape(values.shape)

        return self.compare(q, k, v, from_bf16(result("o")), result("lse"), scale)

    def compare(self, q, k, v, o, lse, scale):
        q, k, v = (from_bf16(values).astype(np.float64) for values in (q, k, v))
        row, column = np.mgrid[: self.queries, : self.keys]
        worst = 0.0
        for head in range(self.heads):
            shared = head // (self.heads // self.kv_heads)
            kept = np.vectorize(lambda i, j: bool(self.mask(head, i, j)))(row, column)
            scores = np.where(kept, scale * q[0, head] @ k[0, shared].T, -np.inf)
            sums = np.where(kept, np.exp(scores), 0)
            total = sums.sum(axis=1)
            if self.dropout is not None:
                sums = np.where(dropped(self.dropout, head, row, column), 0, sums / (1 - self.dropout))
            has_keys = total > 0
            expected = (sums @ v[0, shared]) / np.where(has_keys, total, 1)[:, None]
            with np.errstate(divide="ignore"):
                expected_lse = np.log(total)
            if not np.isneginf(lse[0, head][~has_keys]).all():
                return np.nan
            lse_error = np.abs(lse[0, head] - expected_lse)[has_keys].max(initial=0)
            worst = np.max([worst, np.abs(o[0, head] - expected).max(), lse_error])
        return worst


# With these inputs O's largest error is 0.01, from rounding P and O to bf16. A single pair too many or too few
# moves some row by more than 0.05.
TOLERANCE = 0.03


def random_integers(high, *shape, seed=7):
    return np.random.default_rng(seed).integers(0, high, shape).astype(np.int32)


class Kernels(unittest.TestCase):
    def expect(self, *arguments, **options):
        problem = Problem(*arguments, **options)
        with self.subTest(problem.text, schedule=problem.schedule):
            self.assertLess(problem.error(), TOLERANCE)

    def test_positions(self):
        self.expect("attention full() {}", lambda h, q, k: True)
        causal = "attention causal() { mask = q >= k }"
        self.expect(causal, lambda h, q, k: q >= k, kv_heads=2)
        self.expect(causal, lambda h, q, k: q >= k, head_dim=128, queries=130, keys=97,
                    schedule="block_m = 128, warps = 8, block_n = 64, stages = 2")
        self.expect("attention window() { mask = q >= k && q - k < 9 || k == 3 }",
                    lambda h, q, k: q >= k and q - k < 9 or k == 3)

    def test_dropout(self):
        """Every block drops the same pairs: blocks of one word and of two, of whole words and of parts."""
        for schedule in ("block_m = 64, warps = 4, stages = 1",
                         "block_m = 128, warps = 4, block_n = 32, stages = 1",
                         "block_m = 128, warps = 8, block_n = 64, stages = 2",
                         "block_m = 64, warps = 4, block_n = 160, stages = 1",
                         "block_m = 64, warps = 4, block_n = 48, stages = 1"):
            self.expect("attention full() {}", lambda h, q, k: True, schedule=schedule, dropout=0.25)
        for probability in (0, 0.002, 0.6):
            self.expect("attention causal() { mask = q >= k }", lambda h, q, k: q >= k, kv_heads=2,
                        dropout=probability)

    def test_remainders(self):
        self.expect("attention a() { mask = q >= k && (q - k) % 4 == 0 }",
                    lambda h, q, k: q >= k and (q - k) % 4 == 0)
        self.expect("attention b() { mask = (q - k) % 7 < 3 || (k + 5) % 24 > q % 24 }",
                    lambda h, q, k: (q - k) % 7 < 3 or (k + 5) % 24 > q % 24)
        self.expect("attention c() { mask = k / 5 % 4 == q % 4 || (k - q) / 3 == 2 }",
                    lambda h, q, k: k // 5 % 4 == q % 4 or (k - q) // 3 == 2)
        self.expect("attention d(c: i32) { mask = q / c == k / c || k % c == h }",
                    lambda h, q, k: q // 11 == k // 11 or k % 11 == h, scalars={"c": 11})

    def test_rounds(self):
        """any() and all() over the row, the column or both, nested, and beside other conditions of elements."""
        queries, keys = 70, 150
        start, length = random_integers(keys, 5), random_integers(60, 5, seed=8)
        table, numbers = random_integers(22, 2, queries, 3), random_integers(6, keys, 2)
        own, steps = random_integers(6, queries, seed=9), random_integers(40, 4)
        document = np.sort(random_integers(5, keys))
        for schedule in ("block_m = 64, warps = 4, stages = 1",
                         "block_m = 128, warps = 4, block_n = 64, stages = 2",
                         "block_m = 64, warps = 4, block_n = 128, stages = 1, reference = follow"):
            def expect(*arguments):
                self.expect(*arguments, schedule=schedule)

            expect("attention a(start: i32[N], len: i32[N]) {\n  mask = q >= k || any(i < N: "
                   "q >= start[i] && k < start[i] + len[i])\n}",
                   lambda h, q, k: q >= k or ((q >= start) & (k < start + length)).any(),
                   {"start": start, "len": length})
            expect("attention b(t: i32[H, Sq, M]) { mask = k < 5 || any(i < M: t[h, q, i] == k / 7) }",
                   lambda h, q, k: k < 5 or (table[h, q] == k // 7).any(), {"t": table})
            expect("attention c(t: i32[Sk, M], u: i32[Sq]) {\n  mask = q >= k && "
                   "all(i < M: t[k, i] != u[q]) || q - k < 3 && q >= k\n}",
                   lambda h, q, k: q >= k and ((numbers[k] != own[q]).all() or q - k < 3),
                   {"t": numbers, "u": own})
            expect("attention d(t: i32[M]) {\n  mask = k < 3 || "
                   "any(i < M: any(j < M: t[i] + t[j] == q - k))\n}",
                   lambda h, q, k: k < 3 or (steps[:, None] + steps == q - k).any(), {"t": steps})
            expect("attention e(id: i32[Sk], at: i32[M]) {\n  mask = id[q] == id[k] || "
                   "any(m < M: k / 16 == at[m] && (q - k) % 3 == 0)\n}",
                   lambda h, q, k: document[q] == document[k]
                   or (k // 16 == steps // 8).any() and (q - k) % 3 == 0,
                   {"id": document, "at": steps // 8})
            # The kernel reads the bound from memory.
            expect("attention f(t: i32[M], most: i32[1]) {\n  mask = k < 3 || "
                   "any(i < most[0]: t[i] == k)\n}",
                   lambda h, q, k: k < 3 or k in steps[:3], {"t": steps, "most": np.int32([3])})

    def test_big_bird(self):
        with open(os.path.join(VARIANTS, "big_bird.attn"), encoding="utf-8") as file:
            text = file.read()
        for block in (16, 64):
            count = -(-200 // block)
            chance = random_integers(count, 2, count, 3)

            def keeps(h, q, k):
                row, column, last = q // block, k // block, 199 // block
                near = abs(row - column) <= 1 or row in (0, last) or column in (0, last)
                return near or (chance[h, row] == column).any()

            self.expect(text, keeps, {"chance": chance}, {"block": block, "random": 3},
                        queries=200, keys=200)

    def test_faults_are_found(self):
        """Replaces instructions by others, which shows that these tests can fail."""
        problem = Problem("attention causal() { mask = q >= k }", lambda h, q, k: q >= k)
        self.assertLess(problem.error(), TOLERANCE)
        for old, new in (
            ("bmsk.clamp.b32", "sub.s32"),
            (".trans.shared.b16", ".shared.b16"),
            ("ex2.approx.ftz.f32", "tanh.approx.f32"),
            ("shfl.sync.bfly.b32", "shfl.sync.idx.b32"),
            ("rcp.rn.f32", "neg.f32"),
        ):
            def change(ptx, old=old, new=new):
                start = ptx.index(".entry forward")
                self.assertIn(old, ptx[start:])
                return ptx[:start] + ptx[start:].replace(old, new)

            with self.subTest(old):
                self.assertFalse(problem.error(change) < TOLERANCE)

        def lose_lanes(ptx):
            one_lane = "mov.u32 %own, %tid.x; setp.eq.b32 %p1, %own, 5; @%p1 ldmatrix.sync"
            return ptx.replace("ldmatrix.sync", one_lane, 1)

        with self.assertRaisesRegex(RuntimeError, "lanes of a warp are missing"):
            problem.error(lose_lanes)


if __name__ == "__main__":
    TESELA = sys.argv.pop(1)
    unittest.main()
