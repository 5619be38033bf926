# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention in double precision with NumPy: the reference of the tests."""

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
    weight: Array | None = None,
) -> tuple[Array, Array]:
    """The output [B, H, Sq, Dv] and the logarithms [B, H, Sq].

    mask(b, h, q, k) and score(s, b, h, q, k) take arrays of indices that broadcast to [B, H, Sq,
    Sk]. sink has a number for each head. weight multiplies the probabilities only in their product
    with v, as dropout does.
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
    if weight is not None:
        p = p * weight
    out = np.einsum("bhqk,bhkd->bhqd", p, v) / np.where(total > 0, total, 1)
    return out, lse


def _philox(words: tuple[Any, ...], key: tuple[int, int], rounds: int) -> tuple[Any, ...]:
    x, y, z, w = (np.uint64(each) for each in words)
    low = np.uint64(0xFFFFFFFF)
    for number in range(rounds):
        first = np.uint64((key[0] + number * 0x9E3779B9) & 0xFFFFFFFF)
        second = np.uint64((key[1] + number * 0xBB67AE85) & 0xFFFFFFFF)
        a, b = x * np.uint64(0xD2511F53), z * np.uint64(0xCD9E8D57)
        x, y, z, w = (
            b >> np.uint64(32) ^ y ^ first,
            b & low,
            a >> np.uint64(32) ^ w ^ second,
            a & low,
        )
    return x, y, z, w


def dropout_weight(
    probability: float, words: Any, batch: int, heads: int, queries: int, keys: int
) -> Array:
    """0 for each dropped pair, 1 / (1 - p) for the others, by the rule of docs/numerics.md.

    words: two of the seed and two of the offset, the lower ones first. Result: [B, H, Sq, Sk].
    """
    seed, seed_high, offset, offset_high = (int(each) & 0xFFFFFFFF for each in words)
    head, q, k = np.ogrid[: batch * heads, :queries, :keys]
    start = _philox((offset, offset_high, 0, 0), (seed, seed_high), 10)
    of_k, of_q = ((i // 16 * 4 + i % 8 // 2).astype(np.uint64) for i in (k, q))
    counter = (start[0] ^ of_k, start[1] ^ of_q, start[2] ^ head.astype(np.uint64), start[3])
    random_words = _philox(tuple(np.broadcast_arrays(*counter)), (0, 0), 7)
    j = (8 * (q % 2) + 4 * (q // 8 % 2) + 2 * (k // 8 % 2) + k % 2).astype(np.uint64)
    number = np.uint64(0)
    one, most = np.uint64(1), np.uint64(0x7FFFFFFF)
    for half in (16, 0):
        for word in random_words:
            number = number << one | word >> (j + np.uint64(half)) & one
    turned = random_words[1] << np.uint64(13) | random_words[1] >> np.uint64(19)
    number = number << np.uint64(31) | (random_words[0] ^ turned) & most
    exact = float(np.float32(probability))
    dropped = number < np.uint64(exact * 2.0**39)
    kept = np.where(dropped, 0, 1 / (1 - exact) if exact < 1 else 0)
    return kept.reshape(batch, heads, queries, keys)


def random(*shape: int, seed: int, dtype: Any = np.float32) -> Array:
    """Normal random numbers, rounded to the type."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def tolerance(dtype: Any) -> float:
    """The tolerance for an output with values up to some units."""
    return {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}[str(np.dtype(dtype))]


def check(out: Array, expected: Array) -> None:
    """Compares an output with its reference."""
    assert out.shape == expected.shape
    error = np.abs(out.astype(np.float64) - expected).max(initial=0)
    assert error <= tolerance(out.dtype), f"the largest error is {error}"


def check_lse(lse: Array, expected: Array) -> None:
    """Compares logarithms with their reference; -inf must be at the same places."""
    assert lse.dtype == np.float32
    assert lse.shape == expected.shape
    empty = np.isneginf(expected)
    assert (np.isneginf(lse) == empty).all()
    assert np.abs(lse[~empty] - expected[~empty]).max(initial=0) <= 1e-3
