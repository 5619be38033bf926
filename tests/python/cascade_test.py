# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A prefix that all sequences share, computed once for all of their queries, on the host.

In a page only the keys of sequences are finite; results are poisoned.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
import tesela
import torch
from reference import Array, random
from serving_test import DV, HKV, MOST_KEYS, MOST_QUERIES, Batch, D, H, Sequence, check, tokens

PAGE = 16


def at_end(queries: int, keys: int) -> Sequence:
    return Sequence(queries, keys, keys - queries)


# A decoding step, guesses, a chunk of a prompt, a sequence with only the prefix, and an empty one.
BATCH = [at_end(1, 130), at_end(1, 64), at_end(5, 70), at_end(33, 90), at_end(1, 50), at_end(0, 0)]


class Pool(NamedTuple):
    k: Array
    v: Array
    table: Array
    prefix_table: Array


def pool_of(batch: Batch, prefix: int, page: int) -> Pool:
    """Whole pages of the prefix are shared. Each sequence has its own copy of the remaining
    rows."""
    most = -(-MOST_KEYS // page)
    order = np.random.default_rng(3).permutation(len(batch.keys) * most + most)
    pools = [np.full((len(order), page, HKV, dim), np.nan, np.float32) for dim in (D, DV)]
    table = np.full((len(batch.keys), most), 2**31 - 1, np.int32)
    prefix_table = np.full(most, 2**31 - 1, np.int32)
    taken = iter(order)

    def fill(number: int, rows: list[Array]) -> None:
        for pool, of_page in zip(pools, rows, strict=True):
            pool[number, : of_page.shape[1]] = of_page.swapaxes(0, 1)

    longest = max(range(len(batch.keys)), key=lambda b: batch.keys[b].shape[1])
    for i in range(-(-prefix // page)):
        prefix_table[i] = next(taken)
        rows = slice(i * page, min((i + 1) * page, prefix))
        fill(prefix_table[i], [batch.keys[longest][:, rows], batch.values[longest][:, rows]])
    shared = prefix // page
    for b, keys in enumerate(batch.keys):
        for i in range(-(-keys.shape[1] // page)):
            if i < shared:
                table[b, i] = prefix_table[i]
                continue
            table[b, i] = next(taken)
            rows = slice(i * page, (i + 1) * page)
            fill(table[b, i], [keys[:, rows], batch.values[b][:, rows]])
    return Pool(*pools, table, prefix_table)


def places_of(batch: Batch, pool: Pool, prefix: int, starts: Any) -> dict[str, Any]:
    """The table and the lengths of the sequences of `batch` in `pool`."""
    return {
        "prefix_table": pool.prefix_table,
        "prefix_length": np.array([prefix], np.int32),
        "table": pool.table,
        "lengths": np.array([each.keys for each in batch.sequences], np.int32),
        "starts_q": starts,
        "max_queries": MOST_QUERIES,
    }


def share(batch: Batch, prefix: int) -> None:
    """All sequences begin with the same keys and values."""
    for parts, heads_dim in ((batch.keys, D), (batch.values, DV)):
        of_prefix = random(HKV, prefix, heads_dim, seed=99, dtype=np.float32)
        for part in parts:
            part[:, :prefix] = of_prefix[:, : part.shape[1]]


def run(batch: Batch, prefix: int, split: bool, page: int = PAGE) -> None:
    share(batch, prefix)
    pool = pool_of(batch, prefix, page)
    q, starts = tokens(batch.queries, 2, 3)
    out = np.full((len(q), H, DV), np.nan, np.float32)
    given, lse = tesela.attention_cascade(
        *(q, pool.k, pool.v, batch.variant.bind(**batch.parameters)),
        **places_of(batch, pool, prefix, starts),
        max_keys=MOST_KEYS,
        split=split,
        out=out,
        return_lse=True,
    )
    assert given is out
    outside = np.ones(len(q), bool)
    for b, each in enumerate(batch.sequences):
        outside[starts[b] : starts[b] + each.queries] = False
    assert np.isnan(out[outside]).all()
    lse[:, outside] = np.nan
    check(batch, out, lse, starts)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", tesela.library())
def test_every_variant_sees_true_positions(name: str, split: bool) -> None:
    run(Batch(name, BATCH), 50, split)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("prefix", [0, 1, 16, 48, 50])
@pytest.mark.parametrize("page", [1, 24, 64])
def test_pages_and_prefixes_of_any_length(page: int, prefix: int, split: bool) -> None:
    run(Batch("sliding_window", BATCH), prefix, split, page)


def test_a_chunk_that_begins_within_the_prefix() -> None:
    """The sequence's first queries do not see the whole prefix."""
    run(Batch("causal", [at_end(40, 60), at_end(1, 55), at_end(55, 55)]), 50, split=False)


Pairs = Callable[[Array, Array], Array]


class Exact(NamedTuple):
    """A variant, and its result in double precision."""

    text: str
    keeps: Pairs
    score: Callable[[Array, Array, Array, int], Array] = lambda s, q, k, h: s
    sink: float = -np.inf
    values: dict[str, Any] | None = None


DOCUMENTS = np.sort(np.random.default_rng(2).integers(0, 4, (len(BATCH), MOST_KEYS)), axis=-1)
SLOPES = np.array([0.5, 0.25, 0.125, 0.0625])


def causal(q: Array, k: Array) -> Array:
    return q >= k


EXACT = {
    "causal": Exact("attention v() { mask = q >= k }", causal),
    "window": Exact(
        "attention v() { mask = q >= k && q - k < 30 }", lambda q, k: (q >= k) & (q - k < 30)
    ),
    "first keys and a window": Exact(
        "attention v() { mask = q >= k && (k < 4 || q - k < 20) }",
        lambda q, k: (q >= k) & ((k < 4) | (q - k < 20)),
    ),
    "alibi": Exact(
        "attention v(slope: f32[H]) { mask = q >= k\n score = s + slope[h] * (k - q) }",
        causal,
        lambda s, q, k, h: s + SLOPES[h] * (k - q),
        values={"slope": SLOPES.astype(np.float32)},
    ),
    "softcap": Exact(
        "attention v() { mask = q >= k\n score = 2.0 * tanh(s / 2.0) }",
        causal,
        lambda s, q, k, h: 2 * np.tanh(s / 2),
    ),
    "sink": Exact("attention v() { mask = q >= k\n sink = 0.75 }", causal, sink=0.75),
    "documents": Exact(
        "attention v(doc: i32[B, Sk]) { mask = q >= k && doc[b, q] == doc[b, k] }",
        causal,
        values={"doc": DOCUMENTS.astype(np.int32)},
    ),
    "ends": Exact(
        "attention v() { mask = k >= Sk - 12 && k < Sq }", lambda q, k: k >= k.max() - 11
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", EXACT)
def test_in_double_precision(name: str, split: bool, dtype: Any) -> None:
    prefix, exact = 50, EXACT[name]
    batch = Batch("full", BATCH)
    share(batch, prefix)
    for parts in (batch.queries, batch.keys, batch.values):
        parts[:] = [each.astype(dtype).astype(np.float32) for each in parts]
    pool = pool_of(batch, prefix, PAGE)
    q, starts = tokens(batch.queries, 0, 0)
    out, lse = tesela.attention_cascade(
        *(q.astype(dtype), pool.k.astype(dtype), pool.v.astype(dtype)),
        tesela.variant(exact.text, **(exact.values or {})),
        **places_of(batch, pool, prefix, starts),
        max_keys=MOST_KEYS,
        split=split,
        return_lse=True,
    )
    limit = 2e-5 if dtype is np.float32 else 2e-2
    for b, each in enumerate(BATCH):
        where = np.arange(each.keys)
        at, to = where[each.position :, None], where[None]
        kept = exact.keeps(at, to) if each.keys else np.zeros((0, 0), bool)
        if name == "documents":
            kept = kept & (DOCUMENTS[b][at] == DOCUMENTS[b][to])
        for h in range(H):
            x = batch.queries[b][h].astype(np.float64)
            s = x @ batch.keys[b][h * HKV // H].T / np.sqrt(D)
            s = np.where(kept, exact.score(s, at, to, h), -np.inf)
            expected = np.logaddexp(np.logaddexp.reduce(s, axis=-1), exact.sink)
            rows = slice(starts[b], starts[b + 1])
            np.testing.assert_allclose(lse[h, rows], expected, rtol=1e-4, atol=1e-3)
            p = np.exp(s - expected[:, None])
            result = out[rows, h].astype(np.float64)
            np.testing.assert_allclose(
                result, p @ batch.values[b][h * HKV // H], rtol=limit, atol=limit
            )


@pytest.mark.parametrize("key", [3, 49, 50, 60])
def test_a_row_that_is_nan_in_one_part_is_nan(key: int) -> None:
    prefix, batch = 50, Batch("full", BATCH)
    share(batch, prefix)
    pool = pool_of(batch, prefix, PAGE)
    q, starts = tokens(batch.queries, 0, 0)
    text = f"attention v() {{ mask = k == {key}\n score = inf }}"
    out, lse = tesela.attention_cascade(
        q, pool.k, pool.v, text, **places_of(batch, pool, prefix, starts), return_lse=True
    )
    for b, each in enumerate(BATCH):
        rows = slice(starts[b], starts[b + 1])
        if each.keys > key:
            assert np.isnan(out[rows]).all() and np.isnan(lse[:, rows]).all()
        else:
            assert (out[rows] == 0).all() and np.isneginf(lse[:, rows]).all()


def test_in_torch_with_rows_of_the_step() -> None:
    """The rows are computed once and passed on; they equal what the call computes itself."""
    generator = torch.Generator().manual_seed(3)
    lengths = torch.tensor([70, 64, 0, 90], dtype=torch.int32)
    starts = torch.tensor([0, 1, 2, 2, 6], dtype=torch.int32)
    q = torch.randn(8, H, D, generator=generator)
    pool = torch.randn(2, 32, PAGE, HKV, D, generator=generator)
    table = torch.randperm(24, generator=generator).int().reshape(4, 6)
    table[:, :3] = torch.tensor([30, 29, 31])
    places = {"table": table, "lengths": lengths, "starts_q": starts, "max_queries": 4}
    prefix = {
        "prefix_table": table[0, :3].contiguous(),
        "prefix_length": torch.tensor([48], dtype=torch.int32),
    }
    rows = tesela.query_rows(starts, lengths, len(q))
    assert rows[0][:6].tolist() == [69, 63, 86, 87, 88, 89]
    assert rows[1][:6].tolist() == [0, 1, 3, 3, 3, 3]
    assert rows[2][:6].tolist() == [70, 64, 90, 90, 90, 90]
    out, lse = tesela.attention_cascade(
        *(q, pool[0], pool[1]), **places, **prefix, rows=rows, return_lse=True
    )
    again = tesela.attention_cascade(q, pool[0], pool[1], **places, **prefix)
    assert torch.equal(out[:6], again[:6])
    expected, sums = tesela.attention_paged(q, pool[0], pool[1], **places, return_lse=True)
    torch.testing.assert_close(out[:6], expected[:6], rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(lse[:, :6], sums[:, :6], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("scales", ["heads", "pages"])
def test_keys_of_8_bits(scales: str) -> None:
    generator = np.random.default_rng(4)
    q = random(3, H, D, seed=1, dtype=np.float32)
    pool = generator.standard_normal((2, 12, PAGE, HKV, D)).astype(ml_dtypes.float8_e4m3fn)
    shape = (HKV,) if scales == "heads" else (12, HKV)
    scale = generator.uniform(0.3, 1.0, (2, *shape)).astype(np.float32)
    table = np.array([[9, 3, 0, 1], [9, 3, 2, 4], [9, 3, 5, 6]], np.int32)
    places = {
        "table": table,
        "lengths": np.array([60, 33, 50], np.int32),
        "starts_q": np.arange(4, dtype=np.int32),
        "max_queries": 1,
        "k_scale": scale[0],
        "v_scale": scale[1],
    }
    out = tesela.attention_cascade(
        *(q, *pool),
        prefix_table=table[0, :2].copy(),
        prefix_length=np.array([32], np.int32),
        **places,
    )
    expected = tesela.attention_paged(q, *pool, **places)
    np.testing.assert_allclose(out, expected, rtol=2e-5, atol=2e-5)


def test_errors_are_sentences() -> None:
    q = random(3, H, D, seed=1, dtype=np.float32)
    pool = random(4, PAGE, HKV, D, seed=2, dtype=np.float32)
    places = {
        "table": np.zeros((3, 4), np.int32),
        "lengths": np.full(3, 40, np.int32),
        "starts_q": np.arange(4, dtype=np.int32),
        "max_queries": 1,
        "prefix_table": np.zeros(2, np.int32),
        "prefix_length": np.array([20], np.int32),
    }

    def says(text: str, variant: Any = "causal", **other: Any) -> None:
        with pytest.raises(tesela.InvalidArgumentError, match=re.escape(text)):
            tesela.attention_cascade(q, pool, pool, variant, **(places | other))

    says("rows have 2 tokens, q has 3", rows=(np.zeros(2, np.int32),) * 3)
    says("rows is 2 tensors, it must be a tuple of three", rows=(np.zeros(3, np.int32),) * 2)
    says("rows is a <class 'numpy.ndarray'>", rows=np.zeros((3, 3), np.int32))
    says("prefix_length is of the type <class 'int'>", prefix_length=20)
    says("did you mean the argument 'prefix_length' of attention_cascade", prefix_lengths=20)
    with pytest.raises(tesela.UnsupportedError, match="a shared prefix has no latent form"):
        tesela.attention_cascade(q, pool, None, **places, value_dim=16)
    says("prefix_table has the shape (1, 2)", prefix_table=np.zeros((1, 2), np.int32))
    says("max_queries is missing", max_queries=None)
    says("does not know the number B of sequences", "attention v() { mask = k < B }")
    says("a reduction has one bound", "attention v() { mask = any(i < Sk: i == k) }")
    says(
        "the parameter 'query_keys' has the name of a tensor that prefix=shared adds",
        tesela.variant("attention v(query_keys: i32) { mask = k < query_keys }", query_keys=3),
    )
