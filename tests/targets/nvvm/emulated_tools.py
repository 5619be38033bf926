# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What the tests with the emulator have in common: compiling, dropout's rule, tensors in one memory.

import os
import subprocess
import tempfile

import needs_numpy  # noqa: F401  before NumPy
import numpy as np

BASE = 1 << 20
VARIANTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../templates/variants")


def compile_variant(tesela, text, stage, head_dim, schedule, dropout=None, algorithm="forward"):
    """What `tesela compile` prints at that stage for sm_80. `dropout`: its probability, or None."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "variant.attn")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        command = [tesela, "compile", path, "--algorithm", algorithm, "--target", "sm_80", "--emit", stage]
        command += ["--head-dim", str(head_dim), "--schedule", schedule]
        command += ["--dropout"] if dropout is not None else []
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def philox(words, key, rounds):
    """Philox4x32 of arrays of u64 that hold 32-bit words."""
    x, y, z, w = words
    low = np.uint64(0xFFFFFFFF)
    for number in range(rounds):
        keys = [np.uint64((half + number * step) & 0xFFFFFFFF)
                for half, step in zip(key, (0x9E3779B9, 0xBB67AE85))]
        a, b = x * np.uint64(0xD2511F53), z * np.uint64(0xCD9E8D57)
        x, y, z, w = b >> np.uint64(32) ^ y ^ keys[0], b & low, a >> np.uint64(32) ^ w ^ keys[1], a & low
    return x, y, z, w


DROPOUT_WORDS = [0x23456789, 1, 42, 0]  # the words of the seed and of the offset
DROPOUT_STATE = np.array([5, -6, 7, -8], np.int32)
DROPOUT_FIRST = [32, 48]  # the first query and the first key in the whole sequence


def dropout_parameters(probability, state):
    """The kernel's last parameters. `state`: the address of DROPOUT_STATE."""
    return [int(np.float32(probability).view(np.uint32)), *DROPOUT_WORDS, *DROPOUT_FIRST, state, len(DROPOUT_STATE), 1]


def dropped(probability, head, q, k):
    """Whether pairs are dropped, by the rule of docs/numerics.md, for arrays of queries and keys."""
    zero = np.uint64(0)
    q, k = q + DROPOUT_FIRST[0], k + DROPOUT_FIRST[1]
    words = [word ^ int(state) & 0xFFFFFFFF for word, state in zip(DROPOUT_WORDS, DROPOUT_STATE)]
    start = philox((np.uint64(words[2]), np.uint64(words[3]), zero, zero), words[:2], 10)
    block_q, block_k = (np.uint64(0) + (i // 16 * 4 + i % 8 // 2).astype(np.uint64) for i in (q, k))
    words = philox((start[0] ^ block_k, start[1] ^ block_q, start[2] ^ np.uint64(head), start[3]), (0, 0), 7)
    j = (8 * (q % 2) + 4 * (q // 8 % 2) + 2 * (k // 8 % 2) + k % 2).astype(np.uint64)
    number = zero
    for half in (16, 0):
        for word in words:
            number = number << np.uint64(1) | word >> (j + np.uint64(half)) & np.uint64(1)
    rest = (words[0] ^ (words[1] << np.uint64(13) | words[1] >> np.uint64(19))) & np.uint64(0x7FFFFFFF)
    return (number << np.uint64(31) | rest) < np.uint64(float(np.float32(probability)) * 2.0**39)


class Memory:
    """Tensors side by side in one memory, with NaN between them."""

    def __init__(self, tensors):
        data, self.tensors, self.address = bytearray(), tensors, {}
        for name, values in tensors.items():
            data.extend(b"\xff" * (-len(data) % 256))
            self.address[name] = BASE + len(data)
            data.extend(values.tobytes() + b"\xff" * 256)
        self.bytes = np.frombuffer(bytes(data), np.uint8).copy()

    def read(self, name):
        values, first = self.tensors[name], self.address[name] - BASE
        return self.bytes[first : first + values.nbytes].view(values.dtype).reshape(values.shape)
