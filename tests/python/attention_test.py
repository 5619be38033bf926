# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tesela.attention on NumPy arrays, against double precision."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tesela
from reference import Array, attention, check, check_lse, random

BF16 = ml_dtypes.bfloat16
TYPES = [np.float32, np.float16, BF16]


def inputs(
    batch: int = 2,
    heads: int = 6,
    kv_heads: int = 2,
    queries: int = 77,
    keys: int = 131,
    head_dim: int = 64,
    head_dim_v: int | None = None,
    dtype: Any = np.float32,
) -> tuple[Array, Array, Array]:
    return (
        random(batch, heads, queries, head_dim, seed=1, dtype=dtype),
        random(batch, kv_heads, keys, head_dim, seed=2, dtype=dtype),
        random(batch, kv_heads, keys, head_dim_v or head_dim, seed=3, dtype=dtype),
    )


def nan_like(shape: tuple[int, ...], dtype: Any) -> Array:
    return np.full(shape, np.nan, dtype)


def run(q: Array, k: Array, v: Array, variant: Any, **arguments: Any) -> tuple[Array, Array]:
    """Calls with and without the logarithms. The outputs must have the same bits."""
    shape = (*q.shape[:3], v.shape[3])
    alone = tesela.attention(q, k, v, variant, out=nan_like(shape, q.dtype), **arguments)
    out = nan_like(shape, q.dtype)
    given, lse = tesela.attention(q, k, v, variant, out=out, return_lse=True, **arguments)
    assert given is out
    assert alone.tobytes() == out.tobytes()
    return out, lse


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("head_dims", [(64, 64), (72, 40), (128, 256)])
def test_causal(dtype: Any, head_dims: tuple[int, int]) -> None:
    q, k, v = inputs(head_dim=head_dims[0], head_dim_v=head_dims[1], dtype=dtype)
    out, lse = run(q, k, v, "causal")
    expected, logarithms = attention(q, k, v, mask=lambda b, h, q, k: q >= k)
    check(out, expected)
    check_lse(lse, logarithms)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1, 1, 1), (1, 8, 1, 1, 300), (3, 4, 4, 5, 7), (1, 2, 1, 300, 1), (2, 6, 3, 33, 2100)],
)
def test_sizes(dtype: Any, sizes: tuple[int, int, int, int, int]) -> None:
    q, k, v = inputs(*sizes, dtype=dtype)
    out, lse = run(q, k, v, "full")
    expected, logarithms = attention(q, k, v)
    check(out, expected)
    check_lse(lse, logarithms)


def test_without_elements() -> None:
    q, k, v = inputs(keys=0)
    out, lse = run(q, k, v, "full")
    assert (out == 0).all()
    assert np.isneginf(lse).all()
    q, k, v = inputs(batch=0)
    assert run(q, k, v, "full")[0].shape == (0, 6, 77, 64)


@pytest.mark.parametrize("dtype", TYPES)
def test_bshd_views_are_not_copied(dtype: Any) -> None:
    q, k, v = inputs(dtype=dtype)
    expected, logarithms = attention(q, k, v, mask=lambda b, h, q, k: q >= k)

    def bshd(x: Array) -> Array:
        """A tensor in the order [B, S, H, D], as every second head of a wider one."""
        wide = np.repeat(x, 2, axis=1).transpose(0, 2, 1, 3).copy()
        wide[:, :, 1::2] = np.nan
        return wide[:, :, ::2]

    out, lse = tesela.attention(bshd(q), bshd(k), bshd(v), "causal", layout="bshd", return_lse=True)
    check(out.transpose(0, 2, 1, 3), expected)
    check_lse(lse, logarithms)
    # The same memory as a view [B, H, S, D].
    out = tesela.attention(*(bshd(x).transpose(0, 2, 1, 3) for x in (q, k, v)), "causal")
    check(out, expected)
    # The output is a view.
    target = nan_like((2, 77, 12, 64), dtype)
    tesela.attention(bshd(q), bshd(k), bshd(v), "causal", layout="bshd", out=target[:, :, ::2])
    check(target[:, :, ::2].transpose(0, 2, 1, 3), expected)
    assert np.isnan(target[:, :, 1::2]).all()


def test_scale() -> None:
    q, k, v = inputs()
    out, lse = run(q, k, v, "full", scale=0.3)
    expected, logarithms = attention(q, k, v, scale=0.3)
    check(out, expected)
    check_lse(lse, logarithms)
    with pytest.raises(tesela.InvalidArgumentError, match="the scale is 0, it must be positive"):
        tesela.attention(q, k, v, scale=0)
    with pytest.raises(tesela.InvalidArgumentError, match="the scale is -1"):
        tesela.attention(q, k, v, scale=-1)


def test_scalars() -> None:
    q, k, v = inputs()
    variant = tesela.variant("sliding_window", window=9)

    def expected(window: int) -> Array:
        return attention(q, k, v, mask=lambda b, h, q, k: (q >= k) & (q - k < window))[0]

    check(run(q, k, v, variant)[0], expected(9))
    check(run(q, k, v, variant, window=30)[0], expected(30))
    check(run(q, k, v, variant.bind(window=np.int64(3)))[0], expected(3))
    check(run(q, k, v, "sliding_window")[0], expected(4096))
    assert variant.bound == {"window": 9}


def test_constants_are_kernels_of_their_own() -> None:
    text = "attention few(const count: i32 = 4, far: i32) { mask = k % count == 0 && k < far }"
    q, k, v = inputs(queries=40)
    for count in (4, 3):
        values = {} if count == 4 else {"count": count}
        expected, _ = attention(q, k, v, mask=lambda b, h, q, k, n=count: (k % n == 0) & (k < 90))
        check(run(q, k, v, text, far=90, **values)[0], expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16, np.int32, np.int64, np.bool_])
def test_captured_tensors(dtype: Any) -> None:
    name = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "bool": "bool"}
    declared = name.get(str(np.dtype(dtype)), "i32")
    q, k, v = inputs()
    values = np.random.default_rng(7).integers(0, 4, (6, 131)).astype(dtype)
    keeps = "t[h, k]" if declared == "bool" else "t[h, k] > 1"
    text = f"attention captured(t: {declared}[H, Sk]) {{ mask = {keeps} || k == 0 }}"
    rows = values if declared == "bool" else values.astype(np.float64) > 1
    expected, logarithms = attention(q, k, v, mask=lambda b, h, q, k: rows[h, k] | (k == 0))
    # With gaps, and with its axes in the other order in memory.
    wide = np.zeros((6, 300), dtype)
    wide[:, 5:136] = values
    for tensor in (values, wide[:, 5:136], np.asfortranarray(values), wide[:, 5:136].copy()):
        out, lse = run(q, k, v, text, t=tensor)
        check(out, expected)
        check_lse(lse, logarithms)
    # A broadcast tensor has strides of 0.
    row = np.broadcast_to(values[:1], (6, 131))
    rows = np.broadcast_to(rows[:1], (6, 131))
    expected, _ = attention(q, k, v, mask=lambda b, h, q, k: rows[h, k] | (k == 0))
    check(run(q, k, v, text, t=row)[0], expected)


def test_int64_wraps_to_int32() -> None:
    q, k, v = inputs(batch=1, queries=9, keys=20)
    far = np.arange(20, dtype=np.int64) + (1 << 40)
    far[3] = -2
    text = "attention wrapped(t: i32[Sk]) { mask = t[k] < 11 }"
    expected, _ = attention(q, k, v, mask=lambda b, h, q, k: (k < 11) | (k == 3))
    check(run(q, k, v, text, t=far)[0], expected)
    with pytest.raises(tesela.InvalidArgumentError, match="the variant declares f32"):
        tesela.attention(q, k, v, "attention f(t: f32[Sk]) { score = s + t[k] }", t=far)


def test_score_sink_and_chained_reads() -> None:
    q, k, v = inputs()
    slope = np.array([2.0 ** -(i + 1) for i in range(6)], np.float32)
    sink = random(6, seed=9)
    order = np.random.default_rng(3).permutation(131).astype(np.int64)
    text = """
    attention all(slope: f32[H], z: f32[H], order: i32[Sk]) {
      mask = q >= order[order[k]]
      score = s + slope[h] * (k - q)
      sink = z[h]
    }"""
    out, lse = run(q, k, v, text, slope=slope, z=sink, order=order)
    expected, logarithms = attention(
        q,
        k,
        v,
        mask=lambda b, h, q, k: q >= order[order[k]],
        score=lambda s, b, h, q, k: s + slope[h] * (k - q),
        sink=sink,
    )
    check(out, expected)
    check_lse(lse, logarithms)


def test_rows_without_keys_are_zero() -> None:
    q, k, v = inputs()
    out, lse = run(q, k, v, "attention late() { mask = q >= 40 }")
    assert (out[:, :, :40] == 0).all()
    assert np.isneginf(lse[:, :, :40]).all()
    expected, logarithms = attention(q, k, v, mask=lambda b, h, q, k: q >= 40)
    check(out, expected)
    check_lse(lse, logarithms)


def test_many_parameters() -> None:
    """More parameters than fit on the stack of a launch."""
    q, k, v = inputs(batch=1, queries=5)
    names = [f"p{i}" for i in range(20)]
    declared = ", ".join(f"{name}: f32" for name in names)
    text = f"attention many({declared}, t: f32[Sk]) {{ score = s + {' + '.join(names)} + t[k] }}"
    bias = random(131, seed=4)
    out, _ = run(q, k, v, text, t=bias, **{name: 0.1 * i for i, name in enumerate(names)})
    check(out, attention(q, k, v, score=lambda s, b, h, q, k: s + bias[k])[0])


def test_one_kernel_for_all_lengths() -> None:
    variant = tesela.variant("attention once(w: i32) { mask = q - k < w }")
    for queries, keys in ((1, 9), (1, 5000), (20, 30), (50, 60), (50, 3000), (2100, 2100)):
        q, k, v = inputs(1, 2, 1, queries, keys, dtype=np.float32)
        out = tesela.attention(q, k, v, variant, w=5)
        check(out, attention(q, k, v, mask=lambda b, h, q, k: q - k < 5)[0])
    assert len(variant._program.kernels) == 1
