# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""New keys and values into pages, with rotary embedding, on the host."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tesela
import torch
from reference import Array, random

H, HKV, D, DV, PAGES, PAGE = 4, 2, 32, 48, 6, 16
TOKENS = 71


def angles(rotary: int, most: int = 40) -> tuple[Array, Array]:
    """cos and sin by position and pair."""
    rates = 10000.0 ** (-np.arange(0, rotary, 2) / rotary)
    angle = np.arange(most)[:, None] * rates
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def turned(x: Array, positions: Array, rotary: int, interleaved: bool) -> Array:
    """Rotates [tokens, heads, D] by complex multiplication, in double precision."""
    cos, sin = (each.astype(np.float64)[positions][:, None] for each in angles(rotary))
    x = x.astype(np.float64).copy()
    part = x[..., :rotary]
    pairs = part.reshape(*part.shape[:-1], -1, 2) if interleaved else None
    first, second = (pairs[..., 0], pairs[..., 1]) if interleaved else np.split(part, 2, axis=-1)
    new = (first * cos - second * sin, second * cos + first * sin)
    x[..., :rotary] = (
        np.stack(new, -1).reshape(part.shape) if interleaved else np.concatenate(new, -1)
    )
    return x


def inputs(dtype: Any) -> tuple[Array, Array, Array, Array, Array]:
    """q, k, v, slots, positions. Three tokens have no slot."""
    q = random(TOKENS, H, D, seed=1, dtype=dtype)
    k = random(TOKENS, HKV, D, seed=2, dtype=dtype)
    v = random(TOKENS, HKV, DV, seed=3, dtype=dtype)
    generator = np.random.default_rng(4)
    slots = generator.permutation(PAGES * PAGE)[:TOKENS].astype(np.int32)
    slots[[0, 40, 70]] = -1, PAGES * PAGE, 2**31 - 1
    return q, k, v, slots, generator.integers(0, 40, TOKENS).astype(np.int32)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("rotary", [0, 16, D])
def test_rows_go_to_their_slots(dtype: Any, interleaved: bool, rotary: int) -> None:
    q, k, v, slots, positions = inputs(dtype)
    pools = [np.full((PAGES, PAGE, HKV, dim), np.nan, dtype) for dim in (D, DV)]
    more: dict[str, Any] = {}
    if rotary:
        cos, sin = angles(rotary)
        more = {"cos": cos, "sin": sin, "positions": positions, "interleaved": interleaved}
    out = np.full(q.shape, np.nan, dtype)
    given = tesela.write_pages(q, k, v, *pools, slots=slots, out=out, **more)
    assert given is out
    limit = 1e-5 if dtype is np.float32 else 2e-2

    def expect(actual: Array, x: Array, tokens: Any) -> None:
        expected = turned(x, positions, rotary, interleaved) if rotary else x.astype(np.float64)
        actual = actual.astype(np.float64)
        np.testing.assert_allclose(actual, expected[tokens], rtol=limit, atol=limit)

    expect(out, q, slice(None))
    rows = [pool.reshape(-1, HKV, pool.shape[-1]) for pool in pools]
    is_kept = (slots >= 0) & (slots < PAGES * PAGE)
    expect(rows[0][slots[is_kept]], k, is_kept)
    np.testing.assert_array_equal(rows[1][slots[is_kept]], v[is_kept])
    untouched = np.ones(PAGES * PAGE, bool)
    untouched[slots[is_kept]] = False
    for row in rows:
        assert np.isnan(row[untouched].astype(np.float32)).all()


@pytest.mark.parametrize("scale", [0.37, "heads"])
def test_pages_of_8_bits(scale: Any) -> None:
    q, k, v, slots, positions = inputs(np.float32)
    pools = [np.full((PAGES, PAGE, HKV, dim), np.nan, ml_dtypes.float8_e4m3fn) for dim in (D, DV)]
    cos, sin = angles(D)
    scales = (0.37, 0.37) if scale == 0.37 else (np.float32([0.4, 0.1]), np.float32([0.05, 1.5]))
    tesela.write_pages(
        *(q, k, v, *pools),
        slots=slots,
        cos=cos,
        sin=sin,
        positions=positions,
        k_scale=scales[0],
        v_scale=scales[1],
    )
    is_kept = (slots >= 0) & (slots < PAGES * PAGE)
    for pool, x, of in zip(pools, (turned(k, positions, D, False), v), scales, strict=True):
        rows = pool.reshape(-1, HKV, pool.shape[-1]).astype(np.float64)
        meant = rows[slots[is_kept]] * np.reshape(of, (-1, 1))
        # Half a unit of three bits, or of the smallest numbers.
        limit = np.abs(x[is_kept]) / 16 + 2.0**-10 * np.reshape(of, (-1, 1))
        assert (np.abs(meant - x[is_kept]) <= 1.001 * limit).all()
        untouched = np.ones(PAGES * PAGE, bool)
        untouched[slots[is_kept]] = False
        assert np.isnan(rows[untouched]).all()


def test_a_step_of_decoding() -> None:
    """What was written is what attention_paged reads: as attention over the turned keys."""
    batch, length = 3, 33
    keys = random(batch, length, HKV, D, seed=5)
    values = random(batch, length, HKV, D, seed=6)
    queries = random(batch, length, H, D, seed=7)
    cos, sin = angles(D)
    where = np.arange(length, dtype=np.int32)
    table = torch.arange(batch * 3, dtype=torch.int32).flip(0).reshape(batch, 3)
    pools = [torch.full((batch * 3, PAGE, HKV, D), torch.nan) for _ in range(2)]

    def write(low: int, high: int) -> torch.Tensor:
        positions = torch.arange(low, high, dtype=torch.int32).expand(batch, -1).contiguous()
        slots = torch.gather(table, 1, (positions // PAGE).long()) * PAGE + positions % PAGE
        return tesela.write_pages(
            *(torch.from_numpy(each[:, low:high]) for each in (queries, keys, values)),
            *pools,
            slots=slots.int(),
            positions=positions,
            cos=torch.from_numpy(cos),
            sin=torch.from_numpy(sin),
        )

    write(0, length - 1)
    q = write(length - 1, length)
    out = tesela.attention_paged(
        *(q, *pools, "causal"),
        table=table,
        lengths=torch.full((batch,), length, dtype=torch.int32),
    )
    for b in range(batch):
        k = turned(keys[b], where, D, False).astype(np.float32)
        expected = tesela.attention(
            turned(queries[b], where, D, False).astype(np.float32)[None, -1:],
            *(k[None], values[b][None], "full"),
            layout="bshd",
        )
        np.testing.assert_allclose(out[b].numpy(), expected[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (0, 0)])
def test_without_tokens_nothing_happens(shape: tuple[int, ...]) -> None:
    q, k = np.zeros((*shape, H, D), np.float32), np.zeros((*shape, HKV, D), np.float32)
    pools = [np.full((PAGES, PAGE, HKV, D), np.nan, np.float32) for _ in range(2)]
    none = np.zeros(shape, np.int32)
    for convert in (lambda x: x, torch.from_numpy):
        out = tesela.write_pages(
            *(convert(each) for each in (q, k, k, *pools)),
            slots=convert(none),
            positions=convert(none),
            cos=convert(np.ones((4, 8), np.float32)),
            sin=convert(np.ones((4, 8), np.float32)),
        )
        assert tuple(out.shape) == q.shape
    assert np.isnan(pools).all()


@pytest.mark.parametrize("scale", [np.float32(0.5), np.array(0.5, np.float32), torch.tensor(0.5)])
def test_a_scale_is_any_number(scale: Any) -> None:
    q, k, v, slots, _ = inputs(np.float32)
    written = []
    for each in (scale, 0.5):
        pools = [np.zeros((PAGES, PAGE, HKV, dim), ml_dtypes.float8_e4m3fn) for dim in (D, DV)]
        tesela.write_pages(q, k, v, *pools, slots=slots, k_scale=each, v_scale=each)
        written.append([pool.tobytes() for pool in pools])
    assert written[0] == written[1]


@pytest.mark.parametrize("convert", [lambda x: x, torch.from_numpy])
def test_out_and_q_may_be_parts_of_one_tensor(convert: Any) -> None:
    """They may lie between each other, but not share a number."""
    k = convert(random(3, 2, 32, seed=2))
    slots = convert(np.arange(3, dtype=np.int32))
    whole = convert(random(6, 8, 48, seed=1))

    def write(q: Any, out: Any) -> None:
        pools = (convert(np.zeros((1, 16, 2, 32), np.float32)) for _ in range(2))
        tesela.write_pages(q, k, k, *pools, slots=slots, out=out)

    base = whole[..., :32]
    for q, out in (
        (base[:3], base[3:]),
        (base[::2], base[1::2]),
        (base[:3, :2], base[:3, 2:4]),
        (base[:3, ::2], base[:3, 1::2]),
    ):
        write(q, out)
        assert (out == q).all()
    for q, out in (
        (base[:3], base[1:4]),
        (base[:3, :4], base[:3, 2:]),
        (base[:3], whole[:3, :, 16:]),
        (base[:3], base[::2]),
    ):
        with pytest.raises(tesela.InvalidArgumentError, match="out shares memory with q"):
            write(q, out)


def test_errors_are_sentences() -> None:
    q, k, v, slots, positions = inputs(np.float32)
    pools = [np.zeros((PAGES, PAGE, HKV, dim), np.float32) for dim in (D, DV)]
    narrow = [pool.astype(ml_dtypes.float8_e4m3fn) for pool in pools]
    cos, sin = angles(D)

    def says(text: str, *pages: Array, **more: Any) -> None:
        with pytest.raises(tesela.InvalidArgumentError, match=re.escape(text)):
            tesela.write_pages(q, k, v, *pages, slots=slots, **more)

    says("cos, sin and positions belong together", *pools, cos=cos, sin=sin)
    says("k_scale is missing: pages of 8 bits need it", *narrow)
    says("k_scale is given, and the pages' elements have more than 8 bits", *pools, k_scale=1.0)
    says("at most 16 pairs", *pools, cos=cos[:, :8], sin=sin, positions=positions)
    says("v_pages has the shape (6, 16, 2)", pools[0], pools[1][..., 0])
    says("k_pages's pages must follow one another", *(pool[:, :8] for pool in pools))
    says("out shares memory with q, but q is still read", *pools, out=q.view())
    says("k_pages has 6 pages, and v_pages has 4", pools[0], pools[1][:4])
    says("a page of k_pages has 16 rows, and a page of v_pages has 8", pools[0], pools[1][:, :8])
    says("k has the shape (71, 2, 32), and k_pages has", pools[0][:, :, :1].copy(), pools[1])
    says("interleaved is 'no', it must be True or False", *pools, interleaved="no")
    for more, text in (
        ({"slots": [1, 2, 3]}, "slots is of the type <class 'list'>"),
        ({"slots": None}, "slots is None: pass a tensor"),
        ({"k": k[:70]}, f"k has the shape (70, 2, 32), and q has {q.shape}: both must have the"),
        ({"v": v[None]}, f"v has the shape (1, 71, 2, {DV}), it must have the axes of q"),
        ({"k": None}, "k is None: pass a tensor"),
    ):
        with pytest.raises(tesela.InvalidArgumentError, match=re.escape(text)):
            tesela.write_pages(
                **{"q": q, "k": k, "v": v, "k_pages": pools[0], "v_pages": pools[1], "slots": slots}
                | more
            )
    with pytest.raises(tesela.UnsupportedError, match="only float8_e4m3fn is supported"):
        wrong = [pool.astype(ml_dtypes.float8_e5m2) for pool in pools]
        tesela.write_pages(q, k, v, *wrong, slots=slots, k_scale=1.0, v_scale=1.0)
    says("k_scale has the shape (0,)", *narrow, k_scale=np.zeros(0, np.float32), v_scale=1.0)
    with pytest.raises(tesela.InvalidArgumentError, match="has the axis 0 extent 71, q has 0"):
        none = (each[None][:0] for each in (q, k, v))
        tesela.write_pages(*none, *pools, slots=slots[:, None])
    says("positions has the axis 1 extent 70", *pools, positions=positions[:70], cos=cos, sin=sin)
