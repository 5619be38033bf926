# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tesela.jax.attention in XLA's command buffers, which are CUDA's graphs. Needs a GPU.

XLA makes command buffers for five or more operations, and reads this limit once in a process. So
the tests run in a process of their own, with a limit of one operation.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="JAX is not installed")

NO_GPU = 77
FLAGS = "--xla_gpu_graph_min_graph_size=1 --xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUSTOM_CALL"

PROGRAM = r"""
import gc, sys
sys.path.insert(0, sys.argv[1])
from gpu_jax_test import *
from tesela import _native

try:
    device = jax.devices("cuda")[0]
except RuntimeError:
    sys.exit(77)


def recorded(call, changes, hold):
    # The same arrays again and again, then new values: XLA may record anew where memory moved.
    before = _native.xla_calls()
    for arguments in changes:
        for _ in range(12):
            hold(call(*arguments), arguments)
    called, all = _native.xla_calls() - before, 12 * len(changes)
    print(f"{called} calls of {all}")
    assert called < all / 2, f"XLA recorded little: it called {called} times in {all} runs"


q, k, v = inputs(device, (2, 4, 2, 300, 300, 64, 64))
rows, columns = positions(300, 300)


def forward():
    call = jax.jit(lambda *a: tesela.attention(*a, "causal", return_lse=True))
    changes = [(q * f, k, v) for f in (jnp.bfloat16(1), jnp.bfloat16(2), jnp.bfloat16(0.5))]
    recorded(call, changes, lambda got, a: check(got, expected(*a, rows >= columns), device))


def scalars():
    # Read by the kernel: a recorded launch sees the new value.
    def function(q, k, v, w):
        return tesela.attention(q, k, v, "sliding_window", window=w, return_lse=True)

    def hold(got, a):
        kept = (rows >= columns) & (rows - columns < int(a[3]))
        check(got, expected(*a[:3], kept), device)

    recorded(jax.jit(function), [(q, k, v, jnp.int32(w)) for w in (3, 40, 200)], hold)


TEXT = "attention packed(id: i32[B, Sk]) { mask = id[b, q] == id[b, k] && q >= k }"


def documents():
    # The summaries' memory is the graph's, not XLA's, which lends it to others in between.
    def function(q, k, v, ids):
        o, lse = tesela.attention(q, k, v, TEXT, id=ids, return_lse=True)
        return o, lse, jnp.sort(ids.astype("float32"), axis=1)  # takes memory meanwhile

    def hold(got, a):
        same = np.asarray(a[3])
        same = same[:, None, :, None] == same[:, None, None, :]
        check(got[:2], expected(*a[:3], same & (rows >= columns)), device)

    changes = []
    for seed in range(3):
        ids = np.sort(np.random.default_rng(seed).integers(0, 5, (2, 300)), axis=1)
        changes.append((q, k, v, jnp.asarray(ids, jnp.int32)))
    recorded(jax.jit(function), changes, hold)


def training():
    weight = weight_of(q, v, "bfloat16")

    def loss(*a):
        return (tesela.attention(*a, "causal").astype("float32") * weight).sum()

    def hold(got, a):
        wanted = exact_gradients(a, weight, rows >= columns)
        check_gradients(got, wanted, "bfloat16")

    call = jax.jit(jax.grad(loss, (0, 1, 2)))
    recorded(call, [(q, k, v), (q * jnp.bfloat16(0.5), k, v)], hold)


def layers():
    # Several calls in one graph, with operations of XLA between them.
    def function(q, k, v):
        a = tesela.attention(q, k, v, "causal")
        b = tesela.attention(q, v, k, "sliding_window", window=30)
        return tesela.attention(a + b, k, v, "causal")

    def hold(got, a):
        q, k, v = a
        window = (rows >= columns) & (rows - columns < 30)
        one, two = expected(q, k, v, rows >= columns)[0], expected(q, v, k, window)[0]
        middle = jnp.asarray(one, "bfloat16") + jnp.asarray(two, "bfloat16")
        assert got.devices() == {device}
        reference.check(np.asarray(got), expected(middle, k, v, rows >= columns)[0])

    recorded(jax.jit(function), [(q, k, v), (q * jnp.bfloat16(0.5), k, v)], hold)


def released():
    # A program whose graphs are gone, with all that they owned; the next one is right.
    for _ in range(3):
        documents()
        jax.clear_caches()
        gc.collect()


for part in (forward, scalars, documents, training, layers, released):
    print(part.__name__, flush=True)
    part()
"""


def test_recorded() -> None:
    """Results are right, also when XLA runs a recorded graph; and XLA does record."""
    environment = {
        **os.environ,
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}".strip(),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if ran.returncode == NO_GPU:
        pytest.skip("NO GPU: JAX finds no CUDA device")
    assert ran.returncode == 0, ran.stdout + ran.stderr[-4000:]
