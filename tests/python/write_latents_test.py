# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""New rows of a latent cache into pages, with rotary embedding of their last columns."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tesela
import torch
from reference import Array, random
from write_pages_test import angles, turned

H, D, PAGES, PAGE, TOKENS = 3, 576, 4, 16, 41


def inputs(columns: int, kv_heads: int, dtype: Any) -> tuple[Array, Array, Array, Array]:
    """q, rows, slots, positions. Two tokens have no slot."""
    q = random(TOKENS, H * kv_heads, columns, seed=1, dtype=dtype)
    rows = random(TOKENS, kv_heads, columns, seed=2, dtype=dtype)
    generator = np.random.default_rng(4)
    slots = generator.permutation(PAGES * PAGE)[:TOKENS].astype(np.int32)
    slots[[0, 40]] = -1, PAGES * PAGE
    return q, rows, slots, generator.integers(0, 40, TOKENS).astype(np.int32)


def turned_at_end(x: Array, positions: Array, rotary: int, interleaved: bool) -> Array:
    first = x.shape[-1] - rotary
    end = turned(x[..., first:], positions, rotary, interleaved) if rotary else x[..., first:]
    return np.concatenate([x[..., :first].astype(np.float64), end], -1)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    ("columns", "rotary", "kv_heads", "dtype"),
    [
        (D, 64, 1, np.float32),
        (D, 64, 1, ml_dtypes.bfloat16),
        (D, 0, 1, np.float32),
        (D, 16, 2, np.float32),
        (320, 128, 1, np.float32),  # pieces of 160 columns
        (40, 40, 1, np.float32),  # one piece
    ],
)
def test_rows_go_to_their_slots(
    columns: int, rotary: int, kv_heads: int, dtype: Any, interleaved: bool
) -> None:
    q, rows, slots, positions = inputs(columns, kv_heads, dtype)
    pool = np.full((PAGES, PAGE, kv_heads, columns), np.nan, dtype)
    more: dict[str, Any] = {}
    if rotary:
        cos, sin = angles(rotary)
        more = {"positions": positions, "cos": cos, "sin": sin}
    got = tesela.write_pages(
        q, rows, None, pool, None, slots=slots, interleaved=interleaved, **more
    )
    near = {"rtol": 1e-5 if dtype is np.float32 else 2**-8, "atol": 1e-5}
    np.testing.assert_allclose(
        got.astype(np.float64), turned_at_end(q, positions, rotary, interleaved), **near
    )
    expected = turned_at_end(rows, positions, rotary, interleaved)
    written = pool.reshape(-1, kv_heads, columns).astype(np.float64)
    isin = (slots >= 0) & (slots < PAGES * PAGE)
    np.testing.assert_allclose(written[slots[isin]], expected[isin], **near)
    others = np.setdiff1d(np.arange(PAGES * PAGE), slots)
    assert np.isnan(written[others]).all()


def test_a_step() -> None:
    """Rows of a step are the keys and values of the same step's attention."""
    length, kept = 20, 512
    cos, sin = (torch.from_numpy(each) for each in angles(64))
    rows = torch.from_numpy(random(1, length, 1, D, seed=5, dtype=np.float32))
    q = torch.from_numpy(random(1, length, H, D, seed=6, dtype=np.float32))
    pool = torch.full((PAGES, PAGE, 1, D), torch.nan)
    table = torch.tensor([[3, 1]], dtype=torch.int32)
    positions = torch.arange(length, dtype=torch.int32)[None]
    slots = table.gather(1, (positions // PAGE).long()) * PAGE + positions % PAGE
    new = tesela.write_pages(
        q, rows, None, pool, None, slots=slots, positions=positions, cos=cos, sin=sin
    )
    got = tesela.attention_paged(
        new,
        pool,
        None,
        "causal",
        table=table,
        lengths=torch.tensor([length], dtype=torch.int32),
        value_dim=kept,
    )
    at = np.arange(length)
    keys = turned_at_end(rows[0].numpy(), at, 64, False)[:, 0]
    queries = turned_at_end(q[0].numpy(), at, 64, False)
    scores = np.einsum("qhd,kd->hqk", queries, keys) / np.sqrt(D)
    scores = np.where(at[:, None] >= at, scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    expected = np.einsum("hqk,kd->qhd", p, keys[:, :kept])
    np.testing.assert_allclose(got[0].numpy(), expected, rtol=1e-4, atol=1e-4)


def test_mistakes() -> None:
    q, rows, slots, positions = inputs(D, 1, np.float32)
    pool = np.zeros((PAGES, PAGE, 1, D), np.float32)
    cos, sin = angles(64)
    turns = {"positions": positions, "cos": cos, "sin": sin}

    def refused(message: str, *arguments: Any, **more: Any) -> None:
        with pytest.raises(tesela.Error, match=re.escape(message)):
            tesela.write_pages(*arguments, slots=slots, **more)

    refused("v is None, but not v_pages", q, rows, None, pool, pool)
    refused("v_pages is None, but not v", q, rows, rows, pool, None)
    refused("k has the shape (41, 1, 512)", q, rows[..., :512], None, pool, None)
    refused(
        "k has the shape (41, 1, 576), and q has (41, 3, 512)", q[..., :512], rows, None, pool, None
    )
    refused("k_scale is given", q, rows, None, pool, None, k_scale=1.0)
    wide = np.zeros((TOKENS, H, 2 * D), np.float32)
    refused("q's heads must follow one another", wide[..., :D], rows, None, pool, None, **turns)
    narrow = pool.astype(ml_dtypes.float8_e4m3fn)
    refused("elements have 8 bits", q, rows, None, narrow, None, k_scale=1.0)
    refused("out has the shape (41, 3, 512)", q, rows, None, pool, None, out=q[..., :512].copy())
    cos, sin = angles(288)
    turns = {"positions": positions, "cos": cos, "sin": sin}
    refused(
        "rows of 576 columns, of which the last 288 are rotated, cannot be cut into pieces",
        *(q, rows, None, pool, None),
        **turns,
    )
