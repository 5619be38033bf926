# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A latent cache: all query heads share 576 columns, of which the first 512 are the values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tesela
import torch
from reference import Array, random

D, DV, H, PAGE = 576, 512, 20, 16
LENGTHS = [150, 1, 0, 64]


def expected(q: Array, k: Array, v: Array, keeps: Array) -> tuple[Array, Array]:
    """O [H, Sq, Dv] and LSE [H, Sq] in double precision; q [H, Sq, D], k and v [Sk, D]."""
    s = np.where(keeps, np.einsum("hqd,kd->hqk", q, k) / np.sqrt(q.shape[-1]), -np.inf)
    top = np.maximum(s.max(axis=-1, initial=-np.inf), -1e30)
    p = np.exp(s - top[..., None])
    total = p.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        o = np.einsum("hqk,kd->hqd", p, v) / total[..., None]
        return np.where(total[..., None] > 0, o, 0), np.log(total) + top


class Cache:
    """Pages with NaN in rows that belong to no sequence."""

    def __init__(self, queries: int, dtype: type) -> None:
        generator = np.random.default_rng(3)
        most = 10
        order = generator.permutation(len(LENGTHS) * most + 1)
        self.pages = np.full((len(order), PAGE, 1, D), np.nan, dtype)
        self.table = np.full((len(LENGTHS), most), 2**31 - 1, np.int32)
        self.lengths = np.array(LENGTHS, np.int32)
        self.rows = [random(n, D, seed=40 + b, dtype=dtype) for b, n in enumerate(LENGTHS)]
        for b, n in enumerate(LENGTHS):
            for i in range(-(-n // PAGE)):
                self.table[b, i] = order[b * most + i]
                page = self.rows[b][i * PAGE : (i + 1) * PAGE]
                self.pages[self.table[b, i], : len(page), 0] = page
        self.q = random(len(LENGTHS), queries, H, D, seed=50, dtype=dtype)

    def check(self, out: Array, lse: Array, tolerance: float) -> None:
        """Causal attention of each sequence, whose last query has the position of its last key."""
        queries = self.q.shape[1]
        for b, n in enumerate(LENGTHS):
            rows = self.rows[b].astype(np.float64)
            keeps = np.arange(n)[None] <= np.arange(queries)[:, None] + n - queries
            q = self.q[b].astype(np.float64).transpose(1, 0, 2)
            o, sums = expected(q, rows, rows[:, :DV], keeps)
            np.testing.assert_allclose(out[b].transpose(1, 0, 2), o, rtol=0, atol=tolerance)
            np.testing.assert_allclose(lse[b], sums, rtol=0, atol=1e-3)


@pytest.mark.parametrize("queries", [1, 3, 70])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (ml_dtypes.bfloat16, 0.02)])
def test_values_are_the_first_columns_of_the_keys(
    queries: int, split: bool, dtype: type, tolerance: float
) -> None:
    cache = Cache(queries, dtype)
    out = np.full((*cache.q.shape[:3], DV), np.nan, dtype)
    _, lse = tesela.attention_paged(
        *(cache.q, cache.pages, None, "causal"),
        table=cache.table,
        lengths=cache.lengths,
        value_dim=DV,
        split=split,
        out=out,
        return_lse=True,
    )
    cache.check(out.astype(np.float64), lse, tolerance)


def test_a_view_of_the_keys_is_a_tensor_of_values() -> None:
    """Loading the same memory twice gives the same bits as loading it once."""
    cache = Cache(2, np.float32)
    more = {"table": cache.table, "lengths": cache.lengths}
    one = tesela.attention_paged(cache.q, cache.pages, None, "causal", value_dim=DV, **more)
    two = tesela.attention_paged(cache.q, cache.pages, cache.pages[..., :DV], "causal", **more)
    np.testing.assert_array_equal(one, two)


def test_ragged_tokens() -> None:
    rows = torch.randn(40, 1, D)
    q = torch.randn(40, H, D)
    starts = torch.tensor([0, 25, 40], dtype=torch.int32)
    out = tesela.attention_ragged(
        q, rows, None, "causal", starts_q=starts, max_queries=25, value_dim=DV
    )
    for first, end in ((0, 25), (25, 40)):
        k = rows[first:end, 0].double()
        s = torch.einsum("qhd,kd->hqk", q[first:end].double(), k) / D**0.5
        s = s.masked_fill(torch.ones(end - first, end - first).triu(1).bool(), -torch.inf)
        o = torch.einsum("hqk,kd->qhd", s.softmax(-1), k[:, :DV])
        torch.testing.assert_close(out[first:end].double(), o, rtol=0, atol=1e-5)


def test_wide_heads_with_values_of_their_own() -> None:
    q, k, v = torch.randn(1, 2, 30, 320), torch.randn(1, 1, 50, 320), torch.randn(1, 1, 50, 264)
    out = tesela.attention(q, k, v, "full")
    s = torch.einsum("bhqd,bkd->bhqk", q.double(), k[:, 0].double()) / 320**0.5
    o = torch.einsum("bhqk,bkd->bhqd", s.softmax(-1), v[:, 0].double())
    torch.testing.assert_close(out.double(), o, rtol=0, atol=1e-5)


def test_errors_say_what_to_pass() -> None:
    cache = Cache(1, np.float32)
    more = {"table": cache.table, "lengths": cache.lengths}
    with pytest.raises(
        tesela.InvalidArgumentError, match="value_dim is None: pass how many of k's 576 columns"
    ):
        tesela.attention_paged(cache.q, cache.pages, None, **more)
    with pytest.raises(tesela.InvalidArgumentError, match="value_dim is 600"):
        tesela.attention_paged(cache.q, cache.pages, None, value_dim=600, **more)
    with pytest.raises(tesela.InvalidArgumentError, match="value_dim is 512, and v is given"):
        tesela.attention_paged(cache.q, cache.pages, cache.pages, value_dim=512, **more)
    with pytest.raises(tesela.InvalidArgumentError, match="v is None, and a scale is given"):
        tesela.attention_paged(cache.q, cache.pages, None, value_dim=512, k_scale=1.0, **more)
    q = torch.randn(1, 1, 8, 576, requires_grad=True)
    with pytest.raises(tesela.UnsupportedError, match="only forward attention supports wider"):
        tesela.attention(q, q, q[..., :512].detach(), "full").sum().backward()
