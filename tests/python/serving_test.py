# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ragged batches, pages, split keys and merged parts: every variant of the library, on the host.

The reference of a sequence is `tesela.attention` for that sequence alone, which other tests compare
with double precision. A first query at position n is row n of a longer dense problem.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
import tesela
import torch
from reference import Array, random

H, HKV, D, DV = 4, 2, 32, 48
MOST_QUERIES, MOST_KEYS = 90, 140  # bounds of a sequence's lengths


class Sequence(NamedTuple):
    """Lengths, and the position of the first query among the keys."""

    queries: int
    keys: int
    position: int = 0


PLAIN = [Sequence(5, 17), Sequence(0, 9), Sequence(1, 130), Sequence(40, 0), Sequence(33, 64)]
MOVED = [Sequence(5, 17, 12), Sequence(1, 130, 129), Sequence(40, 90, 20), Sequence(3, 0, 2)]


class Batch:
    """Sequences, the values of a variant's parameters, and each sequence's dense inputs."""

    def __init__(self, name: str, sequences: list[Sequence]) -> None:
        self.sequences = sequences
        self.variant = tesela.variant(name)
        self.queries = [
            random(H, n, D, seed=10 + b, dtype=np.float32) for b, (n, _, _) in enumerate(sequences)
        ]
        self.keys = [
            random(HKV, n, D, seed=20 + b, dtype=np.float32)
            for b, (_, n, _) in enumerate(sequences)
        ]
        self.values = [
            random(HKV, n, DV, seed=30 + b, dtype=np.float32)
            for b, (_, n, _) in enumerate(sequences)
        ]
        generator = np.random.default_rng(7)
        self.parameters = {
            each.name: self._value(each, generator)
            for each in self.variant.parameters
            if each.shape is not None or each.default is not None
        }

    def _extents(self, shape: tuple[str, ...], b: int | None) -> list[int]:
        sizes = {"B": len(self.sequences), "H": H, "Hkv": HKV, "N": 8, "M": 6}
        sizes |= {"Sq": MOST_KEYS, "Sk": MOST_KEYS}  # queries are at positions among the keys
        if b is not None:
            queries, keys, position = self.sequences[b]
            sizes |= {"B": 1, "Sq": position + queries, "Sk": keys}
        extents = []
        for text in shape:
            found = re.fullmatch(r"(?:(\d+)\*)?([A-Za-z]+)([+-]\d+)?|(\d+)", text)
            assert found, text
            factor, name, more, number = found.groups()
            extents.append(
                int(number) if number else int(factor or 1) * sizes[name] + int(more or 0)
            )
        return extents

    def _value(self, parameter: tesela.Parameter, generator: np.random.Generator) -> Any:
        if parameter.shape is None:  # so that a mask drops some of these few positions
            small = parameter.type == "i32" and parameter.default > 24
            return 12 if small else parameter.default
        extents = self._extents(parameter.shape, None)
        if parameter.type == "bool":
            return generator.random(extents) < 0.7
        if parameter.type == "i32":
            return np.sort(generator.integers(0, 20, extents).astype(np.int32), axis=-1)
        type_ = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[parameter.type]
        return (0.3 * generator.standard_normal(extents)).astype(type_)

    def of_sequence(self, b: int) -> tuple[Array, Array]:
        """The results of sequence b alone: [H, queries, DV] and [H, queries]."""
        queries, _, position = self.sequences[b]
        parameters = dict(self.parameters)
        for each in self.variant.parameters:
            if each.shape is None:
                continue
            extents = self._extents(each.shape, b)
            places = [slice(0, max(extent, 0)) for extent in extents]
            if each.shape[0] == "B":
                places[0] = slice(b, b + 1)
            parameters[each.name] = np.ascontiguousarray(parameters[each.name][tuple(places)])
        q = np.zeros((1, H, position + queries, D), np.float32)
        q[0, :, position:] = self.queries[b]
        out, lse = tesela.attention(
            *(q, self.keys[b][None], self.values[b][None], self.variant.bind(**parameters)),
            return_lse=True,
        )
        return out[0, :, position:], lse[0, :, position:]

    def offsets(self) -> Array:
        return np.array([each.position for each in self.sequences], np.int32)


def tokens(parts: list[Array], before: int, behind: int) -> tuple[Array, Array]:
    """Parts [heads, n, D] joined as [tokens, heads, D] with NaN around them, and their starts."""
    heads, _, dim = parts[0].shape
    starts = np.cumsum([before] + [part.shape[1] for part in parts]).astype(np.int32)
    out = np.full((starts[-1] + behind, heads, dim), np.nan, np.float32)
    for start, part in zip(starts, parts, strict=False):
        out[start : start + part.shape[1]] = part.swapaxes(0, 1)
    return out, starts


def pages_of(parts: list[Array], page: int, seed: int) -> tuple[Array, Array]:
    """Pages in random order, with NaN in rows that belong to no sequence, and the table.

    Table entries after a sequence's end name no page.
    """
    heads, _, dim = parts[0].shape
    most = -(-MOST_KEYS // page)
    order = np.random.default_rng(seed).permutation(len(parts) * most + 2)
    pool = np.full((len(order), page, heads, dim), np.nan, np.float32)
    table = np.full((len(parts), most), 2**31 - 1, np.int32)
    for b, part in enumerate(parts):
        for i in range(-(-part.shape[1] // page)):
            rows = part[:, i * page : (i + 1) * page]
            table[b, i] = order[b * most + i]
            pool[table[b, i], : rows.shape[1]] = rows.swapaxes(0, 1)
    return pool, table


def check(batch: Batch, out: Array, lse: Array, starts: Array) -> None:
    """Checks the rows of every sequence in [tokens, H, DV] and [H, tokens], which were poisoned."""
    written = np.zeros(len(out), bool)
    for b, (queries, _, _) in enumerate(batch.sequences):
        rows = slice(starts[b], starts[b] + queries)
        written[rows] = True
        expected, logarithms = batch.of_sequence(b)
        np.testing.assert_allclose(out[rows].swapaxes(0, 1), expected, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(lse[:, rows], logarithms, rtol=2e-5, atol=2e-4)
    assert np.isnan(out[~written]).all() and np.isnan(lse[:, ~written]).all()


def poison(out_shape: tuple[int, ...]) -> Array:
    return np.full(out_shape, np.nan, np.float32)


def run_ragged(batch: Batch, split: bool) -> None:
    q, starts_q = tokens(batch.queries, 2, 3)
    k, starts_k = tokens(batch.keys, 1, 4)
    v, _ = tokens(batch.values, 1, 4)
    out = poison((len(q), H, DV))
    kept = {"starts_q": starts_q, "starts_k": starts_k, "positions": batch.offsets()}
    bounds = {"max_queries": MOST_QUERIES, "max_keys": MOST_KEYS}
    given, lse = tesela.attention_ragged(
        *(q, k, v, batch.variant.bind(**batch.parameters)),
        **kept,
        **bounds,
        out=out,
        return_lse=True,
        split=split,
    )
    assert given is out
    # Rows that belong to no sequence are new memory with arbitrary contents.
    outside = np.ones(len(q), bool)
    for b, (queries, _, _) in enumerate(batch.sequences):
        outside[starts_q[b] : starts_q[b] + queries] = False
    lse[:, outside] = np.nan
    check(batch, out, lse, starts_q)


def run_paged(batch: Batch, page: int, split: bool) -> None:
    q, starts_q = tokens(batch.queries, 2, 3)
    k, table = pages_of(batch.keys, page, 3)
    v, _ = pages_of(batch.values, page, 3)
    out = poison((len(q), H, DV))
    _, lse = tesela.attention_paged(
        *(q, k, v, batch.variant.bind(**batch.parameters)),
        table=table,
        lengths=np.array([each.keys for each in batch.sequences], np.int32),
        starts_q=starts_q,
        max_queries=MOST_QUERIES,
        max_keys=MOST_KEYS,
        positions=batch.offsets(),
        out=out,
        return_lse=True,
        split=split,
    )
    outside = np.ones(len(q), bool)
    for b, (queries, _, _) in enumerate(batch.sequences):
        outside[starts_q[b] : starts_q[b] + queries] = False
    lse[:, outside] = np.nan
    check(batch, out, lse, starts_q)


@pytest.mark.parametrize("name", tesela.library())
@pytest.mark.parametrize("split", [False, True])
def test_ragged(name: str, split: bool) -> None:
    run_ragged(Batch(name, PLAIN), split)


@pytest.mark.parametrize("name", tesela.library())
def test_pages(name: str) -> None:
    run_paged(Batch(name, PLAIN), 16, split=False)


@pytest.mark.parametrize("name", tesela.library())
def test_pages_in_parts_behind_a_cache(name: str) -> None:
    run_paged(Batch(name, MOVED), 64, split=True)


@pytest.mark.parametrize("page", [1, 3, 16, 128])
def test_page_sizes(page: int) -> None:
    run_paged(Batch("causal", MOVED), page, split=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("split", [None, False])
def test_decoding_in_torch(dtype: torch.dtype, split: bool | None) -> None:
    """One query at the end of each sequence: attention over all of its keys."""
    lengths = [700, 1, 33]
    generator = torch.Generator().manual_seed(3)
    q = torch.randn(3, 1, H, D, generator=generator).to(dtype)
    pool = torch.randn(2, 64, 16, HKV, D, generator=generator).to(dtype)
    table = torch.full((3, 44), 1000, dtype=torch.int32)
    table[0], table[1, 0] = torch.arange(44), 50
    table[2, :3] = torch.tensor([60, 48, 55])
    out, lse = tesela.attention_paged(
        *(q, pool[0], pool[1], "causal"),
        table=table,
        lengths=torch.tensor(lengths, dtype=torch.int32),
        return_lse=True,
        split=split,
    )
    assert out.shape == (3, 1, H, D) and lse.shape == (3, H, 1)
    for b, n in enumerate(lengths):
        used = table[b, : -(-n // 16)].long()
        k, v = (each[used].flatten(0, 1)[:n].transpose(0, 1)[None] for each in pool)
        expected, logarithms = tesela.attention(
            q[b : b + 1].transpose(1, 2), k, v, "full", return_lse=True
        )
        tolerance = 1e-5 if dtype is torch.float32 else 1e-2
        torch.testing.assert_close(out[b], expected[0].transpose(0, 1), rtol=0, atol=tolerance)
        torch.testing.assert_close(lse[b], logarithms[0], rtol=0, atol=1e-4)


SCALES = ["number", "heads", "pages", "heads of pages"]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("is_torch", [False, True])
def test_keys_of_8_bits_in_pages(scales: str, split: bool, is_torch: bool) -> None:
    """The same call on the numbers that the bytes stand for. Unused rows are NaN."""
    batch = Batch("causal", MOVED)
    q, starts_q = tokens(batch.queries, 0, 0)
    k, table = pages_of(batch.keys, 16, 3)
    v, _ = pages_of(batch.values, 16, 3)
    generator = np.random.default_rng(8)
    shape = {"number": (1, 1), "heads": (1, HKV), "pages": (len(k), 1)}.get(scales, (len(k), HKV))
    given, narrow, meant = {}, [], []
    for name, values in (("k_scale", k), ("v_scale", v)):
        scale = generator.uniform(0.2, 0.9, shape).astype(np.float32)
        full = np.broadcast_to(scale, (len(k), HKV))[:, None, :, None]
        narrow.append((values / full).astype(ml_dtypes.float8_e4m3fn))
        meant.append(narrow[-1].astype(np.float32) * full)
        unused = np.isnan(values).all(axis=(1, 2, 3))
        if shape[0] > 1:
            scale[unused] = np.nan
        given[name] = float(scale[0, 0]) if scales == "number" else scale
        if scales == "heads":
            given[name] = scale[0]
    where = {
        "table": table,
        "lengths": np.array([each.keys for each in batch.sequences], np.int32),
        "starts_q": starts_q,
        "positions": batch.offsets(),
    }
    bounds = {"max_queries": MOST_QUERIES, "max_keys": MOST_KEYS, "split": split}
    expected, logarithms = tesela.attention_paged(
        *(q, *meant, "causal"), **where, **bounds, return_lse=True
    )
    if is_torch:
        as_bytes = (torch.from_numpy(each.view(np.uint8)) for each in narrow)
        narrow = [each.view(torch.float8_e4m3fn) for each in as_bytes]
        q = torch.from_numpy(q)
        where = {name: torch.from_numpy(each) for name, each in where.items()}
        given = {
            name: each if isinstance(each, float) else torch.from_numpy(each)
            for name, each in given.items()
        }
    out, lse = tesela.attention_paged(
        *(q, *narrow, "causal"), **where, **bounds, **given, return_lse=True
    )
    np.testing.assert_allclose(np.asarray(out), expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(np.asarray(lse), logarithms, rtol=2e-5, atol=2e-4)


def test_keys_of_8_bits_one_after_the_other() -> None:
    batch = Batch("softcap", PLAIN)
    q, starts_q = tokens(batch.queries, 0, 0)
    k, starts_k = tokens(batch.keys, 1, 4)
    v, _ = tokens(batch.values, 1, 4)
    scale = np.array([0.3, 0.8], np.float32)
    narrow = [(each / scale[:, None]).astype(ml_dtypes.float8_e4m3fn) for each in (k, v)]
    where = {"starts_q": starts_q, "starts_k": starts_k}
    bounds = {"max_queries": MOST_QUERIES, "max_keys": MOST_KEYS}
    out = tesela.attention_ragged(
        *(q, *narrow, batch.variant), **where, **bounds, k_scale=scale, v_scale=scale
    )
    meant = [each.astype(np.float32) * scale[:, None] for each in narrow]
    expected = tesela.attention_ragged(*(q, *meant, batch.variant), **where, **bounds)
    np.testing.assert_allclose(out, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("variant", ["causal", "alibi"])
def test_keys_that_are_all_0_may_have_the_scale_0(variant: str) -> None:
    n = 20
    q = random(n, H, D, seed=1, dtype=np.float32)
    v = random(n, HKV, DV, seed=3, dtype=np.float32).astype(ml_dtypes.float8_e4m3fn)
    k = np.zeros((n, HKV, D), ml_dtypes.float8_e4m3fn)
    out = tesela.attention_ragged(
        *(q, k, v, variant),
        starts_q=np.array([0, n], np.int32),
        max_queries=n,
        k_scale=np.zeros(HKV, np.float32),
        v_scale=1.0,
        **({"slope": np.zeros(H, np.float32)} if variant == "alibi" else {}),
    )
    sums = np.cumsum(v.astype(np.float64), axis=0) / np.arange(1, n + 1)[:, None, None]
    assert np.abs(out - np.repeat(sums, H // HKV, axis=1)).max() < 1e-2


def test_scales_that_do_not_fit() -> None:
    q = random(2, 1, H, D, seed=1, dtype=np.float32)
    pool = random(3, 16, HKV, D, seed=2, dtype=np.float32)
    narrow = pool.astype(ml_dtypes.float8_e4m3fn)
    paged = {"table": np.zeros((2, 2), np.int32), "lengths": np.ones(2, np.int32)}

    def says(text: str, *keys: Array, **scales: Any) -> None:
        with pytest.raises(tesela.InvalidArgumentError, match=re.escape(text)):
            tesela.attention_paged(q, *keys, **paged, **scales)

    says("k_scale is missing, and k's elements have 8 bits", narrow, narrow)
    says("v_scale is given, and v's elements are float32", pool, pool, v_scale=1.0)
    says(
        "k's elements are float8_e4m3fn, v's are float32: both must have 8 bits",
        narrow,
        pool,
        k_scale=1.0,
    )
    says(
        "v_scale is given, and v's elements are float32",
        *(narrow, pool),
        k_scale=1.0,
        v_scale=1.0,
    )
    three = np.ones(3, np.float32)
    says(
        "k_scale has the shape (3,), it must have one number, or [2] with one for each kv head, or "
        "[3, 1 or 2] with one for each page",
        *(narrow, narrow),
        k_scale=three,
        v_scale=1.0,
    )
    with pytest.raises(tesela.InvalidArgumentError, match="one for each kv head"):
        tesela.attention_ragged(
            *(q[0], narrow[0], narrow[0]),
            starts_q=np.array([0, 1], np.int32),
            max_queries=1,
            k_scale=np.ones((3, 1), np.float32),
            v_scale=1.0,
        )


@pytest.mark.parametrize("split", [False, True])
def test_a_tensor_of_tokens(split: bool) -> None:
    """A tensor with an element for each token of all keys is read from where the sequence
    begins."""
    batch = Batch("full", PLAIN)
    q, starts_q = tokens(batch.queries, 2, 3)
    k, starts_k = tokens(batch.keys, 1, 4)
    v, _ = tokens(batch.values, 1, 4)
    bias = random(len(k), seed=40, dtype=np.float32)
    where = {"starts_q": starts_q, "starts_k": starts_k, "split": split}
    bounds = {"max_queries": MOST_QUERIES, "max_keys": MOST_KEYS}
    of_tokens = "attention biased(starts: i32[N], t: f32[T]) { score = s + t[starts[b] + k] }"
    of_positions = "attention biased(t: f32[B, Sk]) { score = s + t[b, k] }"
    padded = np.zeros((len(PLAIN), MOST_KEYS), np.float32)
    for b, (_, n, _) in enumerate(PLAIN):
        padded[b, :n] = bias[starts_k[b] : starts_k[b] + n]
    outs = []
    for text, values in (
        (of_tokens, {"starts": starts_k, "t": bias}),
        (of_positions, {"t": padded}),
    ):
        out = poison((len(q), H, DV))
        tesela.attention_ragged(
            *(q, k, v, tesela.variant(text, **values)), **where, **bounds, out=out
        )
        outs.append(out)
    np.testing.assert_array_equal(*outs)
    with pytest.raises(tesela.InvalidArgumentError, match=re.escape("read it at starts[b] + k")):
        tesela.attention_ragged(
            *(q, k, v, tesela.variant("attention t(t: f32[Sk]) { score = s + t[k] }", t=bias)),
            **where,
            **bounds,
        )


def test_gradients_are_refused() -> None:
    q = torch.randn(6, H, D, requires_grad=True)
    k = torch.randn(6, HKV, D)
    starts = torch.tensor([0, 6], dtype=torch.int32)
    with pytest.raises(tesela.UnsupportedError, match="variant 'documents_causal'"):
        tesela.attention_ragged(q, k, k, starts_q=starts, max_queries=6)
    pages, table = torch.randn(3, 16, HKV, D), torch.zeros(1, 2, dtype=torch.int32)
    with pytest.raises(tesela.UnsupportedError, match=r"call it under torch\.no_grad"):
        tesela.attention_paged(q[None], pages, pages, table=table, lengths=starts[1:])
    narrow, scale = pages.to(torch.float8_e4m3fn), torch.ones(HKV, requires_grad=True)
    with pytest.raises(tesela.UnsupportedError, match="requires a gradient"):
        tesela.attention_paged(
            *(q.detach()[None], narrow, narrow),
            **{"table": table, "lengths": starts[1:], "k_scale": scale, "v_scale": 1.0},
        )
    with pytest.raises(tesela.UnsupportedError, match="merged attention has none"):
        tesela.merge_partials([q, q], torch.zeros(2, H, 6))
    with torch.no_grad():
        tesela.attention_ragged(q, k, k, starts_q=starts, max_queries=6)


@pytest.mark.parametrize("is_stacked", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_merged_parts_are_the_whole(dtype: Any, is_stacked: bool) -> None:
    q = random(2, 7, H, D, seed=1, dtype=dtype)
    k, v = (random(2, 90, HKV, D, seed=seed, dtype=dtype) for seed in (2, 3))
    parts = [
        tesela.attention(q, k[:, low:high], v[:, low:high], return_lse=True, layout="bshd")
        for low, high in ((0, 50), (50, 50), (50, 90))
    ]
    outs, lses = zip(*parts, strict=True)
    if is_stacked:
        outs, lses = np.stack(outs), np.stack(lses)
    else:
        outs, lses = list(outs), list(lses)
    out, lse = tesela.merge_partials(outs, lses, return_lse=True)
    expected, logarithms = tesela.attention(q, k, v, return_lse=True, layout="bshd")
    tolerance = 1e-5 if dtype is np.float32 else 2e-2
    np.testing.assert_allclose(
        out.astype(np.float32), expected.astype(np.float32), rtol=0, atol=tolerance
    )
    np.testing.assert_allclose(lse, logarithms, atol=1e-4)
    of_tokens = tesela.merge_partials([each[0] for each in outs], [each[0] for each in lses])
    assert of_tokens.tobytes() == out[0].tobytes()
    rounded = np.empty(out.shape, ml_dtypes.bfloat16)
    tesela.merge_partials(outs, lses, out=rounded)
    np.testing.assert_array_equal(rounded, out.astype(ml_dtypes.bfloat16))


def test_errors_are_sentences() -> None:
    q = random(6, H, D, seed=1, dtype=np.float32)
    pool = random(3, 16, HKV, D, seed=2, dtype=np.float32)
    ones = np.ones(1, np.int32)
    paged = {"table": np.zeros((1, 2), np.int32), "lengths": ones}

    def says(text: str, call: Any, *arguments: Any, **keywords: Any) -> None:
        with pytest.raises(tesela.InvalidArgumentError, match=re.escape(text)):
            call(*arguments, **keywords)

    says(
        "q has the shape (6, 4, 32), it must have the axes [B, Sq, heads, head dimension]",
        *(tesela.attention_paged, q, pool, pool),
        **paged,
    )
    for layout, of_pages, of_tokens in (
        ("bshd", "[pages, page, heads, head dimension]", "[tokens, heads, head dimension]"),
        ("bhsd", "[pages, heads, page, head dimension]", "[heads, tokens, head dimension]"),
    ):
        says(
            f"k has the shape (16, 2, 32), it must have the axes {of_pages}",
            *(tesela.attention_paged, q[None], pool[0], pool),
            **paged,
            layout=layout,
        )
        says(
            f"v has the shape (1, 6, 4, 32), it must have the axes {of_tokens}",
            *(tesela.attention_ragged, q, q, q[None]),
            starts_q=np.array([0, 6], np.int32),
            max_queries=6,
            layout=layout,
        )
        says(
            f"q has the shape (1, 6, 4, 32), it must have the axes {of_tokens}, since starts_q",
            *(tesela.attention_paged, q[None], pool, pool),
            **paged,
            starts_q=np.array([0, 6], np.int32),
            max_queries=6,
            layout=layout,
        )
    says(
        "max_queries is missing: pass an upper bound for every sequence of this launch",
        *(tesela.attention_paged, q, pool, pool),
        **paged,
        starts_q=np.array([0, 6], np.int32),
    )
    says(
        "a page of k has 16 rows, and a page of v has 8",
        *(tesela.attention_paged, q[None], pool, pool[:, :8]),
        **paged,
    )
    says(
        "table is f32[1, 2], its elements must be i32: convert it to i32",
        *(tesela.attention_paged, q[None], pool, pool),
        **{**paged, "table": np.zeros((1, 2), np.float32)},
    )
    says(
        "lengths is f32[1], its elements must be i32: convert it to i32",
        *(tesela.attention_paged, q[None], pool, pool),
        **{**paged, "lengths": np.ones(1, np.float32)},
    )
    says(
        "starts_q is f32[2], its elements must be i32: convert it to i32",
        *(tesela.attention_ragged, q, q, q),
        starts_q=np.array([0, 6], np.float32),
        max_queries=6,
    )
    says(
        "positions is 'middle', it must be 'begin', 'end' or a tensor",
        *(tesela.attention_paged, q[None], pool, pool),
        **paged,
        positions="middle",
    )
    says(
        "max_keys is missing",
        *(tesela.attention_ragged, q, q[:, :2], q[:, :2]),
        starts_q=np.array([0, 6], np.int32),
        starts_k=np.array([0, 6], np.int32),
        max_queries=6,
    )
    says(
        "the layout is 'hsd', it must be 'bshd' or 'bhsd'",
        *(tesela.attention_ragged, q, q, q),
        starts_q=np.array([0, 6], np.int32),
        max_queries=6,
        layout="hsd",
    )
    says(
        "the logarithms have the shape (2, 6, 4), the results' is (2, 6, 4, 32): they must have "
        "(2, 4, 6)",
        *(tesela.merge_partials, np.stack([q, q]), np.zeros((2, 6, 4), np.float32)),
    )
    says("outs is of the type <class 'int'>", tesela.merge_partials, 3, 4)
