# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs kernels with ragged queries and keys, pages, offsets and split keys for sm_80 on an emulator (ptx_emulator.py)
# and compares them with attention in double precision: `emulated_serving_test.py PATH-OF-TESELA [unittest options]`.
# Needs no GPU. If no Python has NumPy, the test is skipped with exit code 77.
#
# Memory that belongs to no sequence, and memory around the tensors, is NaN. An access outside of it is an error.

import os
import re
import subprocess
import sys
import tempfile
import unittest

import needs_numpy  # noqa: F401  before NumPy
import numpy as np
from ptx_emulator import Emulator, from_bf16, to_bf16

TESELA = ""
BASE = 1 << 20
H, HKV, DIM, DIM_V = 4, 2, 64, 64
MOST_QUERIES, MOST_KEYS = 80, 1200
LEAST, MOST = -(2**31), 2**31 - 1
NAN = np.float32(np.nan)
VIEW = re.compile(r"(in|out|optional|workspace) %(\w+): !tile\.view<\[([^\]]*)\], (\w+)(, contiguous)?>")


def emit(text, stage, algorithm, bindings, schedule):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "variant.attn")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        command = [TESELA, "compile", path, "--target", "sm_80", "--emit", stage]
        command += ["--head-dim", str(DIM), "--head-dim-v", str(DIM_V), "--algorithm", algorithm]
        command += ["--schedule", schedule] if schedule else []
        for binding in bindings:
            command += ["--bind", binding]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def e4m3_values():
    """The value of each byte; NaN if all bits below the sign are 1."""
    byte = np.arange(256)
    exponent, mantissa = byte >> 3 & 15, byte & 7
    size = np.where(exponent > 0, (8 + mantissa) * 2.0 ** (exponent - 10), mantissa * 2.0**-9)
    size[[0x7F, 0xFF]] = np.nan
    return np.where(byte & 0x80, -size, size)


def order_of(values):
    """The axes of an array in their order in memory."""
    return np.argsort([-stride for stride in values.strides], kind="stable")


class Sequence:
    """The numbers of queries and keys, and functions that give where each lies: (batch, row) of the tensors."""

    def __init__(self, queries, keys, offset, query, key):
        self.queries, self.keys, self.offset, self.query, self.key = queries, keys, offset, query, key


class Launch:
    """The tensors of a launch in one memory, and the kernels of a plan over them."""

    def __init__(self, batch, tensors):
        self.batch, self.tensors = batch, dict(tensors)

    def run(self, text, algorithm, bindings, schedule, workspaces=None):
        tile = emit(text, "tile", algorithm, bindings, schedule)
        ptx = emit(text, "ptx", algorithm, bindings, schedule)
        self.tensors |= workspaces or {}
        memory, address = bytearray(b"\xff" * 4096), {}
        for name, values in self.tensors.items():
            memory.extend(b"\xff" * (-len(memory) % 256))
            address[name] = BASE + len(memory)
            memory.extend(values.transpose(order_of(values)).tobytes() + b"\xff" * 256)
        memory = np.frombuffer(bytes(memory), np.uint8).copy()
        for kernel in re.findall(r"tile\.kernel @(\w+)\(", tile):
            header = tile[tile.index(f"tile.kernel @{kernel}(") :]
            body = header[: header.index("tile.kernel @", 1) if "tile.kernel @" in header[1:] else None]
            header = header[: header.index("attributes")]
            read = set(re.findall(r"tile\.read %(\w+)\[", body))
            choices = re.search(r"#tile\.schedule<([^>]*)>", tile[tile.index(f"tile.kernel @{kernel}(") :]).group(1)
            block_m, warps, heads = (
                int(found.group(1)) if (found := re.search(rf"\b{name} = (\d+)", choices)) else 1
                for name in ("block_m", "warps", "heads")
            )
            if kernel == "merge_parts":  # one work item for each row
                block_m = heads = 1
            self.run_kernel(ptx, kernel, header, read, address, memory, block_m // heads, warps, heads, bindings)
        for name, values in self.tensors.items():
            first, order = address[name] - BASE, order_of(values)
            read = memory[first : first + values.nbytes].view(values.dtype)
            read = read.reshape([values.shape[axis] for axis in order])
            self.tensors[name] = read.transpose(np.argsort(order))

    def run_kernel(self, ptx, kernel, header, read, address, memory, positions, warps, heads, bindings):
        parameters = [self.batch, H, HKV, MOST_QUERIES, MOST_KEYS]
        for argument in re.findall(r"(?:\w+ )?%[\w$]+: (?:f32|!tile\.view<[^>]*>)", header):
            found = VIEW.match(argument)
            if not found:
                parameters.append(int(np.float32(1 / np.sqrt(DIM)).view(np.uint32)))
                continue
            _, name, extents, element, contiguous = found.groups()
            values = self.tensors[name]
            parameters.append(address[name])
            strides = [stride // values.itemsize for stride in values.strides]
            if contiguous:
                continue
            if element == "i32" or name in read:
                for extent, stride in zip(values.shape, strides):
                    parameters += [extent, stride]
                continue
            parameters += strides[:-1]
            parameters += [extent for extent, text in zip(values.shape, extents.split(", ")) if text == "?"]
        packs = HKV * -(-(H // HKV) // heads)
        of_one = packs * -(-MOST_QUERIES // positions)
        batches = self.batch
        if kernel == "forward_parts":
            workers = int(next(b for b in bindings if b.startswith("workers="))[8:])
            batches += -(-workers // of_one)
        Emulator(ptx, kernel, batches * of_one, 32 * warps, parameters, memory, BASE).run()


def expected(sequence, q, k, v, keeps):
    """O and LSE of a sequence, [H, queries, DIM_V] and [H, queries]."""
    places = [sequence.key(j) for j in range(sequence.keys)]
    o, lse = np.zeros((H, sequence.queries, DIM_V)), np.full((H, sequence.queries), -np.inf)
    for h in range(H):
        keys = np.array([k[b, h // (H // HKV), row] for b, row in places]).reshape(-1, DIM)
        values = np.array([v[b, h // (H // HKV), row] for b, row in places]).reshape(-1, DIM_V)
        for i in range(sequence.queries):
            b, row = sequence.query(i)
            kept = np.array([keeps(sequence.offset + i, j) for j in range(sequence.keys)], bool)
            if not kept.any():
                continue
            s = keys[kept] @ q[b, h, row] / np.sqrt(DIM)
            p = np.exp(s - s.max())
            lse[h, i] = np.log(p.sum()) + s.max()
            o[h, i] = p @ values[kept] / p.sum()
    return o, lse


CAUSAL = ("attention causal() { mask = q >= k }", lambda q, k: q >= k)
WINDOW = ("attention window() { mask = q >= k && q - k < 40 }", lambda q, k: q >= k and q - k < 40)
FULL = ("attention full() {}", lambda q, k: True)
BLOCKS = "block_m = 64, warps = 4"
ONE_WARP = "block_m = 16, warps = 1, block_n = 32, stages = 3"
TOLERANCE = 0.03  # as in emulated_kernels_test.py
ALGORITHMS = (("forward", ()), ("forward_in_parts", ("workers=1",)), ("forward_in_parts", ("workers=90",)))


def workspaces(batch, bindings, block_m, heads):
    positions = block_m // heads
    blocks, packs = -(-MOST_QUERIES // positions), HKV * -(-(H // HKV) // heads)
    workers = int(bindings[0][8:])
    shape = (batch + -(-workers // (blocks * packs)), H, MOST_QUERIES)
    return {
        "o_parts": np.full((*shape, DIM_V), NAN),
        "lse_parts": np.full(shape, NAN),
        "dealt": np.full((batch, 2, 128), -(2**31), np.int32),
    }


class Serving(unittest.TestCase):
    def check(self, launch, sequences, inputs, text, keeps, algorithm, bindings, schedule, heads=1, skip=()):
        """Launches into results that are NaN before. `skip`: tokens whose results are not checked."""
        q, k, v = (
            (from_bf16(each) if each.dtype == np.uint16 else each).astype(np.float64) for each in inputs
        )
        with self.subTest(text, algorithm=algorithm, bindings=bindings, schedule=schedule):
            parts = None
            if algorithm == "forward_in_parts":
                block_m = int(re.search(r"block_m = (\d+)", schedule).group(1))
                parts = workspaces(launch.batch, bindings, block_m, heads)
            launch.run(text, algorithm, bindings, schedule, parts)
            o, lse = from_bf16(launch.tensors["o"]), launch.tensors["lse"]
            written = np.zeros(lse.shape, bool)
            for sequence in sequences:
                out, sums = expected(sequence, q, k, v, keeps)
                for i in range(sequence.queries):
                    b, row = sequence.query(i)
                    written[b, :, row] = True
                    np.testing.assert_allclose(o[b, :, row], out[:, i], rtol=0, atol=TOLERANCE)
                    np.testing.assert_allclose(lse[b, :, row], sums[:, i], rtol=0, atol=0.01)
            for b, row in skip:
                written[b, :, row] = True
            self.assertTrue(np.isnan(lse[~written]).all() and np.isnan(o[~written]).all())

    def ragged(self, lengths, text, keeps, algorithm, own, schedule=BLOCKS, heads=1):
        """`lengths`: (queries, keys, offset) of each sequence."""
        starts_q = np.cumsum([2] + [n for n, _, _ in lengths]).astype(np.int32)
        starts_k = np.cumsum([1] + [n for _, n, _ in lengths]).astype(np.int32)
        rng = np.random.default_rng(3)

        def tokens(count, heads, starts):
            values = np.full((1, count, heads, DIM), NAN)
            values[:, starts[0] : starts[-1]] = rng.standard_normal((starts[-1] - starts[0], heads, DIM))
            return to_bf16(values).transpose(0, 2, 1, 3)

        q = tokens(starts_q[-1] + 3, H, starts_q)
        k, v = (tokens(starts_k[-1] + 2, HKV, starts_k) for _ in range(2))
        tensors = {
            "q": q, "k": k, "v": v, "o": np.full(q.shape, 0x7FFF, np.uint16),
            "lse": np.full(q.shape[:3], NAN), "starts_q": starts_q, "starts_k": starts_k,
            "offsets": np.int32([offset for _, _, offset in lengths]),
        }
        sequences = [
            Sequence(n, m, offset, lambda i, b=b: (0, starts_q[b] + i), lambda j, b=b: (0, starts_k[b] + j))
            for b, (n, m, offset) in enumerate(lengths)
        ]
        bindings = (*own, "queries=ragged", "keys=ragged", "positions=given")
        self.check(Launch(len(lengths), tensors), sequences, (q, k, v), text, keeps, algorithm,
                   bindings, schedule, heads)

    def test_ragged(self):
        lengths = [(70, 70, 0), (0, 9, 0), (1, 150, 149), (5, 0, 0), (20, 33, 13)]
        for algorithm, own in ALGORITHMS:
            for text, keeps in (CAUSAL, FULL):
                self.ragged(lengths, text, keeps, algorithm, own)
        self.ragged(lengths, *WINDOW, "forward_in_parts", ("workers=90",), BLOCKS + ", heads = 2",
                    heads=2)

    def test_positions_before_all_keys(self):
        """Rows at negative positions are written, too. A block that begins there ends with its sequence."""
        lengths = [(20, 33, -7), (37, 20, -100), (3, 129, 100)]
        for algorithm, own in (("forward", ()), ("forward_in_parts", ("workers=90",))):
            for heads in (1, 2):
                for text, keeps in (CAUSAL, FULL):
                    self.ragged(lengths, text, keeps, algorithm, own, f"{ONE_WARP}, heads = {heads}", heads)

    def test_several_parts(self):
        lengths = [(1, 40, 39), (1, 1100, 1099), (0, 700, 0), (3, 300, 297), (70, 650, 580), (2, 0, 0)]
        for workers in (90, 7):
            self.ragged(lengths, *CAUSAL, "forward_in_parts", (f"workers={workers}",))
        for text, keeps in (FULL, WINDOW):
            self.ragged(lengths, text, keeps, "forward_in_parts", ("workers=90",), BLOCKS + ", heads = 2", heads=2)

    def test_equal_sequences(self):
        """Each sequence has several parts. The last slots belong to no sequence and must not change any."""
        for lengths in ([(2, 700, 698)] * 3, [(1, 1100, 1099)]):
            for workers in (7, 90):
                self.ragged(lengths, *CAUSAL, "forward_in_parts", (f"workers={workers}",))
        self.ragged([(2, 700, 698)] * 3, *CAUSAL, "forward_in_parts", ("workers=90",), BLOCKS + ", heads = 2",
                    heads=2)

    def pages(self, page, text, keeps, algorithm, own):
        lengths = [150, 0, 64, 37]
        most = -(-MOST_KEYS // page)
        rng = np.random.default_rng(4)
        order = rng.permutation(len(lengths) * most + 1)
        table = np.full((len(lengths), most), MOST, np.int32)
        pool = np.full((2, len(order), page, HKV, DIM), NAN)
        for b, n in enumerate(lengths):
            for i in range(-(-n // page)):
                table[b, i] = order[b * most + i]
                rows = min(page, n - i * page)
                pool[:, table[b, i], :rows] = rng.standard_normal((2, rows, HKV, DIM))
        k, v = (to_bf16(each).transpose(0, 2, 1, 3) for each in pool)
        q = to_bf16(rng.standard_normal((len(lengths), H, MOST_QUERIES, DIM)))
        tensors = {
            "q": q, "k": k, "v": v, "o": np.full(q.shape, 0x7FFF, np.uint16),
            "lse": np.full(q.shape[:3], NAN), "table": table, "lengths": np.int32(lengths),
        }
        sequences = [
            Sequence(MOST_QUERIES, n, n - MOST_QUERIES, lambda i, b=b: (b, i),
                     lambda j, b=b: (table[b, j // page], j % page))
            for b, n in enumerate(lengths)
        ]
        bindings = (*own, "keys=paged", f"page={page}", "positions=end")
        self.check(Launch(len(lengths), tensors), sequences, (q, k, v), text, keeps, algorithm,
                   bindings, BLOCKS)

    def narrow(self, page, is_by_page, text, keeps, algorithm, own, heads=1, schedule=BLOCKS):
        """Keys and values of 8 bits. Memory of no sequence is NaN, also in the scales."""
        lengths = [150, 0, 64, 37]
        most = -(-MOST_KEYS // page)
        rng = np.random.default_rng(6)
        order = rng.permutation(len(lengths) * most + 1)
        table = np.full((len(lengths), most), MOST, np.int32)
        pool = np.full((2, len(order), page, HKV, DIM), 0xFF, np.uint8)
        scales = np.full((2, len(order), HKV) if is_by_page else (2, HKV), NAN)
        if not is_by_page:
            scales[:] = rng.uniform(0.2, 0.7, scales.shape)
        for b, n in enumerate(lengths):
            for i in range(-(-n // page)):
                table[b, i] = order[b * most + i]
                rows = min(page, n - i * page)
                # Finite numbers below 2 of both signs, including subnormal ones.
                drawn = rng.integers(0, 64, (2, rows, HKV, DIM)) + 128 * rng.integers(0, 2, (2, rows, HKV, DIM))
                pool[:, table[b, i], :rows] = drawn
                if is_by_page:
                    scales[:, table[b, i]] = rng.uniform(0.2, 0.7, (2, HKV))
        bytes_ = [each.transpose(0, 2, 1, 3) for each in pool]
        k, v = (
            e4m3_values()[each] * (scale[:, :, None, None] if is_by_page else scale[None, :, None, None])
            for each, scale in zip(bytes_, scales)
        )
        q = to_bf16(0.3 * rng.standard_normal((len(lengths), H, MOST_QUERIES, DIM)))
        tensors = {
            "q": q, "k": bytes_[0], "v": bytes_[1], "o": np.full(q.shape, 0x7FFF, np.uint16),
            "lse": np.full(q.shape[:3], NAN), "table": table, "lengths": np.int32(lengths),
            "k_scale": scales[0], "v_scale": scales[1],
        }
        sequences = [
            Sequence(MOST_QUERIES, n, n - MOST_QUERIES, lambda i, b=b: (b, i),
                     lambda j, b=b: (table[b, j // page], j % page))
            for b, n in enumerate(lengths)
        ]
        bindings = (*own, "keys=paged", f"page={page}", "positions=end", "cache=e4m3",
                    f"scales={'page' if is_by_page else 'head'}")
        self.check(Launch(len(lengths), tensors), sequences, (q, k, v), text, keeps, algorithm,
                   bindings, schedule + (f", heads = {heads}" if heads > 1 else ""), heads)

    def test_narrow_keys(self):
        self.narrow(16, True, *CAUSAL, "forward", ())
        self.narrow(64, False, *FULL, "forward", ())
        self.narrow(16, True, *WINDOW, "forward_in_parts", ("workers=90",))
        self.narrow(20, False, *CAUSAL, "forward_in_parts", ("workers=90",), heads=2)

    def test_narrow_keys_of_one_warp(self):
        """One warp widens keys and values in registers."""
        for page, is_by_page, text, keeps, block_n in (
            (64, False, *CAUSAL, 64), (16, True, *WINDOW, 32), (20, False, *FULL, 16)
        ):
            self.narrow(page, is_by_page, text, keeps, "forward_in_parts", ("workers=90",), heads=2,
                        schedule=f"block_m = 16, warps = 1, block_n = {block_n}, stages = 3")

    def test_pages(self):
        for page in (1, 16, 20, 64):
            self.pages(page, *CAUSAL, "forward", ())
        self.pages(16, *FULL, "forward_in_parts", ("workers=90",))
        self.pages(16, *WINDOW, "forward_in_parts", ("workers=7",))

    def test_wrong_numbers(self):
        """With wrong tables the valid sequence is still right, and no access leaves the tensors."""
        page, pages = 16, 9
        rng = np.random.default_rng(5)
        q = to_bf16(rng.standard_normal((1, 100, H, DIM))).transpose(0, 2, 1, 3)
        k, v = (to_bf16(rng.standard_normal((pages, page, HKV, DIM))).transpose(0, 2, 1, 3) for _ in range(2))
        table = np.int32([[pages, -1, MOST, LEAST], [3, 8, 0, pages], [4, 5, 6, pages], [-9, -8, LEAST, MOST],
                          [1, 2, 3, MOST]])
        tensors = {
            "q": q, "k": k, "v": v, "o": np.full(q.shape, 0x7FFF, np.uint16),
            "lse": np.full(q.shape[:3], NAN), "table": table,
            "lengths": np.int32([MOST, 40, -3, LEAST, 1000]),
            "starts_q": np.int32([LEAST, 10, 50, MOST, 20, -7]),
            "offsets": np.int32([MOST, 3, LEAST, -50, 1 << 30]),
        }
        right = Sequence(40, 40, 3, lambda i: (0, 10 + i), lambda j: (table[1, j // page], j % page))
        others = [(0, row) for row in range(100) if not 10 <= row < 50]
        for algorithm, own in ALGORITHMS:
            bindings = (*own, "queries=ragged", "keys=paged", "page=16", "positions=given")
            for schedule, heads in ((BLOCKS, 1), (ONE_WARP + ", heads = 2", 2)):
                self.check(Launch(5, tensors), [right], (q, k, v), *CAUSAL, algorithm, bindings, schedule,
                           heads, skip=others)


if __name__ == "__main__":
    TESELA = sys.argv.pop(1)
    unittest.main()
