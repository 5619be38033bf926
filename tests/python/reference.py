# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention in double precision, by NumPy: what results are held against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    mask: Callable[..., Any] | None = None,
    score: Callable[..., Any] | None = None,
    sink: Array | None = None,
    scale: float | None = None,
) -> tuple[Array, Array]:
    """The output [B, H, Sq, Dv] and the logarithms [B, H, Sq].

    mask(b, h, q, k) and score(s, b, h, q, k) take arrays of indices, which broadcast to
    [B, H, Sq, Sk]; sink has a number for each head.
    """
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    batch, heads, queries, head_dim = q.shape
    shared = heads // k.shape[1]
    k, v = np.repeat(k, shared, axis=1), np.repeat(v, shared, axis=1)
    s = np.einsum("bhqd,bhkd->bhqk", q, k) * (head_dim**-0.5 if scale is None else scale)
    b, h, i, j = np.ogrid[:batch, :heads, :queries, : k.shape[2]]
    if score is not None:
        s = score(s, b, h, i, j)
    kept = np.broadcast_to(True if mask is None else mask(b, h, i, j), s.shape)
    s = np.where(kept, s, -np.inf)
    largest = s.max(axis=-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        sink = sink.astype(np.float64).reshape(1, heads, 1, 1)
        largest = np.maximum(largest, sink)
    shift = np.where(np.isfinite(largest), largest, 0)
    p = np.exp(s - shift)
    total = p.sum(axis=-1, keepdims=True)
    if sink is not None:
        total = total + np.exp(sink - shift)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + shift)[..., 0]
    out = np.einsum("bhqk,bhkd->bhqd", p, v) / np.where(total > 0, total, 1)
    return out, lse


def random(*shape: int, seed: int, dtype: Any = np.float32) -> Array:
    """Normal numbers, rounded to the type."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def tolerance(dtype: Any) -> float:
    """What an output whose values are some units large may be off."""
    return {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}[str(np.dtype(dtype))]


def check(out: Array, expected: Array) -> None:
    """Holds an output against its reference."""
    assert out.shape == expected.shape
    error = np.abs(out.astype(np.float64) - expected).max(initial=0)
    assert error <= tolerance(out.dtype), f"the largest error is {error}"


def check_lse(lse: Array, expected: Array) -> None:
    """Holds logarithms against theirs; -inf where that is due."""
    assert lse.dtype == np.float32
    assert lse.shape == expected.shape
    empty = np.isneginf(expected)
    assert (np.isneginf(lse) == empty).all()
    assert np.abs(lse[~empty] - expected[~empty]).max(initial=0) <= 1e-3
