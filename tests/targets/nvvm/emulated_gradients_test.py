# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs the kernels of gradients for sm_80 on an emulator (ptx_emulator.py) and compares their results with gradients in
# double precision: `emulated_gradients_test.py PATH-OF-TESELA [unittest options]`. Needs no GPU. If no Python has
# NumPy, the test is skipped with exit code 77.
#
# Summaries of captured tensors are replaced by ones that exclude no value. So every tile is partial, and every
# mask is evaluated.

import re
import sys
import unittest

import needs_numpy  # noqa: F401  before NumPy
import numpy as np
from emulated_tools import BASE, DROPOUT_STATE, Memory, compile_variant, dropout_parameters, dropped
from ptx_emulator import Emulator, from_bf16, parameter_types, to_bf16

TESELA = ""


class Gradients(unittest.TestCase):
    """templates/backward.mlir and backward_fused.mlir."""

    def command(self, text, head_dim, schedule, stage, dropout, algorithm):
        return compile_variant(TESELA, text, stage, head_dim, schedule, dropout, algorithm)

    def expect(self, text, mask, score=None, slope=None, captures=None, head_dim=64, kv_heads=1,
               queries=70, keys=150, schedule="stages = 2", has_dlse=False, dropout=None,
               algorithm="backward"):
        """`has_dlse`: with the gradient of lse, which is NaN for rows without keys."""
        heads, scale = 2, 1 / np.sqrt(head_dim)
        random = np.random.default_rng(3)

        def tensor(count, length):
            return to_bf16(random.standard_normal((1, count, length, head_dim)))

        bits = {"q": tensor(heads, queries), "k": tensor(kv_heads, keys),
                "v": tensor(kv_heads, keys), "do": tensor(heads, queries)}
        q, k, v, d_output = (from_bf16(values)[0].astype(np.float64) for values in bits.values())
        row, column = np.mgrid[:queries, :keys]
        expected = {"dq": np.zeros_like(q), "dk": np.zeros_like(k), "dv": np.zeros_like(v)}
        output, lse = np.zeros_like(q), np.zeros((heads, queries))
        dlse = np.float32(random.standard_normal(lse.shape)) * has_dlse
        for h in range(heads):
            shared = h // (heads // kv_heads)
            s = scale * q[h] @ k[shared].T
            scores = np.where(mask(h, row, column), score(h, row, column, s) if score else s, -np.inf)
            sums = np.exp(scores)
            total = sums.sum(axis=1)
            p = sums / np.where(total > 0, total, 1)[:, None]
            weight = np.ones_like(p)
            if dropout is not None:
                weight = np.where(dropped(dropout, h, row, column), 0, 1 / (1 - dropout))
            with np.errstate(divide="ignore"):
                lse[h] = np.log(total)
            output[h] = from_bf16(to_bf16((weight * p) @ v[shared]))
            delta = (output[h] * d_output[h]).sum(axis=1) - dlse[h]
            ds = p * (weight * (d_output[h] @ v[shared].T) - delta[:, None]) * scale
            ds *= slope(h, s) if slope else 1
            expected["dq"][h] = ds @ k[shared]
            expected["dk"][shared] += ds.T @ q[h]
            expected["dv"][shared] += (weight * p).T @ d_output[h]

        dlse[np.isneginf(lse)] = np.nan
        captures = {"$" + name: values for name, values in (captures or {}).items()}
        # There are few work items, so each query head is a part of its own (tile.head_parts).
        parts = heads // kv_heads
        of_rows = (1, heads, -(-queries // 128) * 128)  # rows of workspaces begin at multiples of 512 bytes
        memory = Memory({
            **bits, "o": to_bf16(output)[None], "lse": lse.astype(np.float32),
            "dlse": dlse, "delta": np.full(of_rows, np.nan, np.float32),
            "row_lse": np.full(of_rows, np.nan, np.float32),
            "dq_sum": np.full((*of_rows, head_dim), np.nan, np.float32),
            **{name: np.full((1, heads, -(-keys // 128) * 128, head_dim), np.nan, np.float32)
               for name in ("dk_parts", "dv_parts")},
            **{"d" + name: np.full(bits[name].shape, 0x7FFF, np.uint16) for name in "qkv"},
            **captures, "": np.array([-(2**31), 2**31 - 1], np.int32), "dropout": DROPOUT_STATE,
        })
        tile, ptx = (self.command(text, head_dim, schedule, stage, dropout, algorithm)
                     for stage in ("tile", "ptx"))
        block_m = int(re.search(r"block_m = (\d+)", tile).group(1))
        of_queries, of_keys = heads * -(-queries // block_m), kv_heads * -(-keys // block_m)
        kernels = [("backward_rows", of_queries), ("backward_keys", of_keys * parts)]
        if parts > 1:
            kernels.append(("backward_joined_keys", of_keys))
        for kernel, blocks in (*kernels, ("backward_queries", of_queries)):
            start = tile.index("@" + kernel + "(")
            signature = tile[start : tile.index("attributes", start)]
            warps = int(re.search(r"warps = (\d+)", tile[start:]).group(1))
            parameters = [1, heads, kv_heads, queries, keys]
            for name, type_ in re.findall(r"%(\$?\w+): (!tile\.view<[^>]*>|f32)", signature):
                if name == "scale":
                    parameters.append(int(np.float32(scale).view(np.uint32)))
                    continue
                is_left_out = name == "dlse" and not has_dlse
                parameters.append(0 if is_left_out else memory.address[name])
                values = memory.tensors[name]
                if name in captures:
                    for extent, stride in zip(values.shape, values.strides):
                        parameters += [extent, stride // 4]
                elif "contiguous" not in type_:
                    parameters += [stride // values.itemsize for stride in values.strides[:-1]]
            has_pairs = kernel == "backward_keys" or (kernel, algorithm) == ("backward_queries", "backward")
            if dropout is not None and has_pairs:
                parameters += dropout_parameters(dropout, memory.address["dropout"])
            types = parameter_types(ptx, kernel)
            while len(parameters) < len(types):
                parameters += [memory.address[""], 2, 1]
                while len(parameters) < len(types) and not types[len(parameters)][1]:
                    parameters += [1, 0]
            Emulator(ptx, kernel, blocks, 32 * warps, parameters, memory.bytes, BASE).run()
        for name, values in expected.items():
            error = from_bf16(memory.read(name))[0] - values
            # P, dS and the result are each rounded by 2^-9. The largest error seen was 0.0026.
            self.assertLess(np.linalg.norm(error) / np.linalg.norm(values), 0.005, (text, name))

    def test_variants(self):
        causal = "attention causal() { mask = q >= k }"

        def everything(h, q, k):
            return np.ones(q.shape, bool)

        self.expect("attention full() {}", everything)
        self.expect(causal, lambda h, q, k: q >= k, schedule="stages = 1")
        self.expect(causal, lambda h, q, k: q >= k, kv_heads=2, head_dim=128, queries=130, keys=130,
                    schedule="stages = 1")
        self.expect(causal, lambda h, q, k: q >= k, head_dim=40)
        self.expect("attention window() { mask = q + 60 >= k && q + 60 - k < 30 }",
                    lambda h, q, k: (q + 60 >= k) & (q + 60 - k < 30))
        self.expect("attention late() { mask = q >= k + 20 }", lambda h, q, k: q >= k + 20,
                    has_dlse=True)
        self.expect("attention full() {}", everything, has_dlse=True, head_dim=40)
        document = np.repeat(np.arange(20), 13)[:150].astype(np.int32)
        self.expect("attention documents(doc: i32[Sk]) { mask = doc[q + 7] == doc[k] }",
                    lambda h, q, k: document[np.minimum(q + 7, 149)] == document[k],
                    captures={"doc": document})
        slope = np.array([0.25, 0.0625], np.float32)
        self.expect("attention alibi(slope: f32[H]) { score = s + slope[h] * (k - q) }", everything,
                    score=lambda h, q, k, s: s + slope[h] * (k - q), captures={"slope": slope})
        for probability in (0.25, 0.01):
            self.expect(causal, lambda h, q, k: q >= k, dropout=probability)
        self.expect("attention full() {}", everything, head_dim=128, queries=130, keys=130,
                    schedule="stages = 1", dropout=0.1)
        self.expect("attention softcap() { score = 1.5 * tanh(s / 1.5) }", everything,
                    score=lambda h, q, k, s: 1.5 * np.tanh(s / 1.5),
                    slope=lambda h, s: 1 - np.tanh(s / 1.5) ** 2)

    def test_sums_of_several_work_items(self):
        """Tiles whose warps have whole rows, and tiles whose warps share rows."""
        shared = "product_rows = 32, block_m = "

        def everything(h, q, k):
            return np.ones(q.shape, bool)

        for schedule, head_dim, options in (
            ("block_m = 128, block_n = 32", 64, {"kv_heads": 2}),
            ("block_m = 64, block_n = 64", 40, {}),
            ("block_m = 64, block_n = 64", 64, {"dropout": 0.25}),
            (shared + "64, block_n = 64", 64, {"has_dlse": True}),
            (shared + "64, block_n = 64, stages = 1", 120, {}),
            (shared + "128, block_n = 64, warps = 8", 128, {"kv_heads": 2}),
            (shared + "64, block_n = 64, warps = 8, stages = 1", 256, {}),
        ):
            self.expect("attention causal() { mask = q >= k }", lambda h, q, k: q >= k, head_dim=head_dim,
                        schedule=schedule, algorithm="backward_fused", **options)
        self.expect("attention softcap() { score = 1.5 * tanh(s / 1.5) }", everything,
                    score=lambda h, q, k, s: 1.5 * np.tanh(s / 1.5),
                    slope=lambda h, s: 1 - np.tanh(s / 1.5) ** 2, head_dim=128,
                    schedule=shared + "64, block_n = 64", algorithm="backward_fused")


class ParameterGradients(unittest.TestCase):
    """templates/backward_parameters.mlir: the sums over rows and pairs. The test clears and rounds them itself."""

    WORDS = 13

    def compile(self, text, stage, schedule, dropout):
        return compile_variant(TESELA, text, stage, 64, schedule, dropout, "backward_parameters")

    def expect(self, text, score, reads, captures, scalars=None, mask=None, sink=None, direct=(),
               batch=1, schedule="stages = 2", queries=70, keys=150, dropout=None):
        """`reads`: for each parameter the index and the derivative as functions of (b, h, q, k, s). `sink`: a logit per head."""
        heads, head_dim, scale = 2, 64, 1 / 8
        scalars = scalars or {}
        random = np.random.default_rng(3)

        def tensor(count, length):
            return to_bf16(random.standard_normal((batch, count, length, head_dim)))

        bits = {"q": tensor(heads, queries), "k": tensor(1, keys), "v": tensor(1, keys),
                "do": tensor(heads, queries)}
        q, k, v, d_output = (from_bf16(values).astype(np.float64) for values in bits.values())
        b, h, i, j = np.ogrid[:batch, :heads, :queries, :keys]
        s = scale * q @ np.swapaxes(k, 2, 3)
        kept = np.broadcast_to(mask(i, j), s.shape) if mask else np.ones(s.shape, bool)
        sums = np.where(kept, np.exp(score(b, h, i, j, s)), 0)
        total = sums.sum(axis=3)
        logits = np.zeros(heads) if sink is None else sink
        if sink is not None:
            total = total + np.exp(logits)[:, None]
        p = sums / np.where(total > 0, total, 1)[..., None]
        weight = np.ones_like(p)
        if dropout is not None:
            heads_of_pairs, of_q, of_k = np.broadcast_arrays(b * heads + h, i, j)
            is_dropped = [dropped(dropout, heads_of_pairs[each][0, 0], of_q[each], of_k[each])
                          for each in np.ndindex(batch, heads)]
            weight = np.where(np.reshape(is_dropped, p.shape), 0, 1 / (1 - dropout))
        output = from_bf16(to_bf16((weight * p) @ v)).astype(np.float64)
        with np.errstate(divide="ignore"):
            lse = np.log(total)
        delta = (output * d_output).sum(axis=3)
        ds = p * (weight * (d_output @ np.swapaxes(v, 2, 3)) - delta[..., None])
        shapes = {name: values.shape for name, values in captures.items()}
        shapes.update({name: (1,) for name in scalars})
        expected = {name: np.zeros(shape) for name, shape in shapes.items()}
        for name, read in reads.items():
            index, derivative = read(b, h, i, j, s)
            np.add.at(expected[name], tuple(np.broadcast_to(each, s.shape) for each in index),
                      np.broadcast_to(ds * derivative, s.shape))
        if sink is not None:  # the gradient of the sink's logits
            expected["z"] += -(np.exp(logits[:, None] - lse) * delta).sum(axis=(0, 2))

        def words(name):
            shape = shapes[name]
            return np.zeros(shape, np.float32) if name in direct else np.zeros(
                (self.WORDS, *shape), np.int64)

        given = {"$" + name: values for name, values in captures.items()}
        added = {f"${name}.{'gradient' if name in direct else 'sums'}": words(name) for name in expected}
        memory = Memory({**bits, "o": to_bf16(output), "lse": lse.astype(np.float32),
                         "delta": np.full(lse.shape, np.nan, np.float32), **given, **added,
                         "dropout": DROPOUT_STATE})
        tile, ptx = (self.compile(text, stage, schedule, dropout) for stage in ("tile", "ptx"))
        block_m, warps = (int(re.search(name + r" = (\d+)", tile).group(1)) for name in ("block_m", "warps"))
        for kernel in ("parameter_rows", "parameter_pairs"):
            start = tile.index("@" + kernel + "(")
            signature = tile[start : tile.index("attributes", start)]
            parameters = [batch, heads, 1, queries, keys]
            for name, type_ in re.findall(r"%(\$?[\w.]+): (!tile\.view<[^>]*>|f32|i32)", signature):
                if name == "scale" or name[1:] in scalars:
                    value = scale if name == "scale" else scalars[name[1:]]
                    parameters.append(int(np.float32(value).view(np.uint32)))
                    continue
                if name.startswith("$dropout."):  # these follow below
                    continue
                if name == "dlse":  # the launch leaves it out
                    parameters.append(0)
                    continue
                parameters.append(memory.address[name])
                values = memory.tensors[name]
                shape, size = values.shape, values.itemsize
                strides = [stride // size for stride in values.strides]
                if name.endswith(".sums"):  # two i32 for each word
                    shape, strides = (*shape, 2), [*(2 * stride for stride in strides), 1]
                if name.startswith("$"):
                    for extent, stride in zip(shape, strides):
                        parameters += [extent, stride]
                elif "contiguous" not in type_:
                    parameters += strides[:3]
            if dropout is not None and kernel == "parameter_pairs":
                parameters += dropout_parameters(dropout, memory.address["dropout"])
            blocks = batch * heads * -(-queries // block_m)
            Emulator(ptx, kernel, blocks, 32 * warps, parameters, memory.bytes, BASE).run()
        for name, values in expected.items():
            if name in direct:
                found = memory.read(f"${name}.gradient").astype(np.float64)
            else:
                sums = memory.read(f"${name}.sums")
                self.assertFalse(sums[-1].any(), "something was not finite")
                numbers = [sum(int(word) << 24 * n for n, word in enumerate(each)) * 2.0**-149
                           for each in sums[:-1].reshape(self.WORDS - 1, -1).T]
                found = np.reshape(numbers, values.shape)
            error = np.linalg.norm(found - values) / np.linalg.norm(values)
            self.assertLess(error, 2e-3, (text, name))  # tanh is an approximation

    def test_variants(self):
        random = np.random.default_rng(5)

        def numbers(*shape):
            return random.standard_normal(shape).astype(np.float32)

        slope, table, gate = numbers(2) / 16, numbers(2, 219), numbers(1, 150)
        self.expect(
            "attention several(slope: f32[H], table: f32[H, N], gate: f32[B, Sk]) {\n  mask = q + 60 >= k\n"
            "  score = s + slope[h] * (k - q) + table[h, k - q + Sq - 1] - gate[b, k]\n}",
            lambda b, h, q, k, s: s + slope[h] * (k - q) + table[h, k - q + 69] - gate[b, k],
            {"slope": lambda b, h, q, k, s: ((h,), k - q),
             "table": lambda b, h, q, k, s: ((h, k - q + 69), 1),
             "gate": lambda b, h, q, k, s: ((b, k), -1)},
            {"slope": slope, "table": table, "gate": gate}, mask=lambda q, k: q + 60 >= k)
        bias = numbers(2, 70, 150)
        for batch in (1, 3):
            self.expect("attention biased(bias: f32[H, Sq, Sk]) { score = s * bias[h, q, k] }",
                        lambda b, h, q, k, s: s * bias[h, q, k],
                        {"bias": lambda b, h, q, k, s: ((h, q, k), s)}, {"bias": bias},
                        direct={"bias"}, batch=batch, schedule="stages = 1")
        buckets = numbers(2, 4)
        self.expect("attention buckets(t: f32[H, N]) { score = s + t[h, abs(k - q) / 40] }",
                    lambda b, h, q, k, s: s + buckets[h, np.minimum(abs(k - q) // 40, 3)],
                    {"t": lambda b, h, q, k, s: ((h, np.minimum(abs(k - q) // 40, 3)), 1)},
                    {"t": buckets})
        squares = numbers(9, 9)
        self.expect("attention places(t: f32[N, N]) { score = s + t[q / 8, k / 19] }",
                    lambda b, h, q, k, s: s + squares[q // 8, k // 19],
                    {"t": lambda b, h, q, k, s: ((q // 8, k // 19), 1)}, {"t": squares})
        cap, z = 1.5, numbers(2)
        self.expect("attention capped(cap: f32, z: f32[H]) { mask = q >= k\n score = cap * tanh(s / cap)\n sink = z[h] }",
                    lambda b, h, q, k, s: cap * np.tanh(s / cap),
                    {"cap": lambda b, h, q, k, s: (
                        (0,), np.tanh(s / cap) - (1 - np.tanh(s / cap) ** 2) * s / cap)},
                    {"z": z}, {"cap": cap}, mask=lambda q, k: q >= k, sink=z.astype(np.float64))
        self.expect("attention dropped(slope: f32[H], z: f32[H]) { score = s + slope[h] * (k - q)\n sink = z[h] }",
                    lambda b, h, q, k, s: s + slope[h] * (k - q),
                    {"slope": lambda b, h, q, k, s: ((h,), k - q)}, {"slope": slope, "z": z},
                    sink=z.astype(np.float64), batch=2, dropout=0.25)


if __name__ == "__main__":
    TESELA = sys.argv.pop(1)
    unittest.main()
