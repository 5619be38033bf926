# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Serving on a GPU: pages, ragged prompts, graphs whose lengths change, merged prefixes."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tesela
import torch
from torch import Tensor

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

H, HKV = 32, 8
MOST_KEYS = 4096


def reference(
    q: Tensor, k: Tensor, v: Tensor, window: int | None = None, cap: float | None = None
) -> tuple[Tensor, Tensor]:
    """One sequence, [n, heads, D], in float64. The last query has the position of the last key."""
    q, k, v = (each.double().transpose(0, 1) for each in (q, k, v))
    k, v = (each.repeat_interleave(H // HKV, 0) for each in (k, v))
    s = q @ k.mT * q.shape[-1] ** -0.5
    if cap is not None:
        s = cap * torch.tanh(s / cap)
    i = torch.arange(q.shape[1], device=q.device)[:, None] + k.shape[1] - q.shape[1]
    j = torch.arange(k.shape[1], device=q.device)
    kept = i >= j
    if window is not None:
        kept &= i - j < window
    s = s.masked_fill(~kept, -torch.inf)
    lse = s.logsumexp(-1)
    out = torch.where(lse.isneginf()[..., None], 0.0, s.softmax(-1).nan_to_num()) @ v
    return out.transpose(0, 1), lse


class Cache:
    """A pool of pages in random order with NaN where no sequence has keys, and each sequence's
    keys."""

    def __init__(self, lengths: list[int], page: int, head_dim: int, dtype: torch.dtype) -> None:
        generator = torch.Generator("cuda").manual_seed(5)
        most = -(-MOST_KEYS // page)
        order = torch.randperm(len(lengths) * most, generator=generator, device="cuda")
        shape = (2, len(order), page, HKV, head_dim)
        self.pool = torch.full(shape, torch.nan, dtype=dtype, device="cuda")
        self.table = torch.full((len(lengths), most), 2**31 - 1, dtype=torch.int32, device="cuda")
        self.lengths = torch.tensor(lengths, dtype=torch.int32, device="cuda")
        self.keys: list[Tensor] = []
        for b, n in enumerate(lengths):
            kv = torch.randn(2, n, HKV, head_dim, generator=generator, device="cuda").to(dtype)
            self.keys.append(kv)
            for i in range(-(-n // page)):
                number = int(order[b * most + i])
                self.table[b, i] = number
                rows = kv[:, i * page : (i + 1) * page]
                self.pool[:, number, : rows.shape[1]] = rows

    def attend(self, q: Tensor, variant: Any, **more: Any) -> Any:
        return tesela.attention_paged(
            *(q, self.pool[0], self.pool[1], variant),
            table=self.table,
            lengths=self.lengths,
            max_keys=MOST_KEYS,
            **more,
        )


VARIANTS = {
    "causal": ("causal", {}),
    "window": (tesela.variant("sliding_window", window=300), {"window": 300}),
    "softcap": (
        "attention capped() { mask = q >= k\n score = 20.0 * tanh(s / 20.0) }",
        {"cap": 20.0},
    ),
}
LENGTHS = [4096, 1, 0, 700, 33, 2048, 65, 16]


def close(out: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(out.double(), expected, rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("page", [1, 16, 24, 64, 256])
@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_decoding(head_dim: int, name: str, page: int, split: bool) -> None:
    if head_dim != 128 and (page not in (16, 64) or name == "softcap"):
        pytest.skip("one head dimension has them all")
    cache = Cache(LENGTHS, page, head_dim, torch.bfloat16)
    q = torch.randn(len(LENGTHS), 1, H, head_dim, device="cuda", dtype=torch.bfloat16)
    variant, of_reference = VARIANTS[name]
    out, lse = cache.attend(q, variant, return_lse=True, split=split)
    again = cache.attend(q, variant, split=split)
    assert torch.equal(out, again)
    for b, n in enumerate(LENGTHS):
        if n == 0:
            assert bool((out[b] == 0).all()) and bool(lse[b].isneginf().all())
            continue
        expected, sums = reference(q[b], *cache.keys[b], **of_reference)
        close(out[b], expected)
        torch.testing.assert_close(lse[b].double(), sums, rtol=0, atol=2e-3)


@pytest.mark.parametrize("queries", [1, 100])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("scales", ["heads", "pages"])
@pytest.mark.parametrize("page", [16, 24, 64, 256])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_keys_of_8_bits(head_dim: int, page: int, scales: str, split: bool, queries: int) -> None:
    if head_dim != 128 and page != 64:
        pytest.skip("one head dimension has them all")
    lengths = [n for n in LENGTHS if n >= queries or n == 0]
    cache = Cache(lengths, page, head_dim, torch.bfloat16)
    pages = cache.pool.shape[1]
    shape = (1, HKV) if scales == "heads" else (pages, HKV)
    scale = torch.rand(2, *shape, device="cuda") * 0.02 + 0.01
    full = scale.expand(2, pages, HKV)[:, :, None, :, None]
    cache.pool = (cache.pool / full).clamp(-448, 448).to(torch.float8_e4m3fn)  # the largest e4m3
    meant = cache.pool.float() * full
    if scales == "pages":
        scale[cache.pool.float().isnan().all(dim=(2, 3, 4))[..., None].expand_as(scale)] = torch.nan
    q = torch.randn(len(lengths), queries, H, head_dim, device="cuda", dtype=torch.bfloat16)
    given = [each[0] if scales == "heads" else each for each in scale]
    out, lse = cache.attend(
        q, "causal", return_lse=True, split=split, k_scale=given[0], v_scale=given[1]
    )
    for b, n in enumerate(lengths):
        if n == 0:
            assert bool((out[b] == 0).all()) and bool(lse[b].isneginf().all())
            continue
        used = cache.table[b, : -(-n // page)].long()
        k, v = (each[used].flatten(0, 1)[:n] for each in meant)
        expected, sums = reference(q[b], k, v)
        close(out[b], expected)
        torch.testing.assert_close(lse[b].double(), sums, rtol=0, atol=2e-3)


def rotated(x: Tensor, positions: Tensor, angle: Tensor, interleaved: bool) -> Tensor:
    """Rotary embedding of all columns, in double precision."""
    x = x.double()
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    cos, sin = (each(angle.double())[positions.long(), None] for each in (torch.cos, torch.sin))
    new = (a * cos - b * sin, b * cos + a * sin)
    return torch.stack(new, -1).flatten(-2) if interleaved else torch.cat(new, -1)


@pytest.mark.parametrize("is_narrow", [False, True])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_new_keys_and_values(head_dim: int, interleaved: bool, is_narrow: bool) -> None:
    tokens, pages, page = 150, 20, 16
    q = torch.randn(tokens, H, head_dim, device="cuda", dtype=torch.bfloat16)
    k, v = torch.randn(2, tokens, HKV, head_dim, device="cuda", dtype=torch.bfloat16)
    positions = torch.randint(0, 5000, (tokens,), device="cuda", dtype=torch.int32)
    slots = torch.randperm(pages * page, device="cuda")[:tokens].int()
    slots[3], slots[149] = -1, pages * page
    rates = 10000.0 ** (-torch.arange(0, head_dim, 2, device="cuda") / head_dim)
    angle = torch.arange(5000, device="cuda")[:, None] * rates
    dtype = torch.float8_e4m3fn if is_narrow else torch.bfloat16
    pool = torch.full((2, pages, page, HKV, head_dim), torch.nan, device="cuda").to(dtype)
    scale = torch.rand(HKV, device="cuda") + 0.5
    more = {"k_scale": scale, "v_scale": scale} if is_narrow else {}
    out = tesela.write_pages(
        *(q, k, v, pool[0], pool[1]),
        slots=slots,
        positions=positions,
        cos=angle.cos(),
        sin=angle.sin(),
        interleaved=interleaved,
        **more,
    )

    turned = partial(rotated, positions=positions, angle=angle, interleaved=interleaved)
    close(out, turned(q))
    kept = torch.ones(tokens, dtype=torch.bool, device="cuda")
    kept[[3, 149]] = False
    for pages_of, x in zip(pool, (turned(k), v.double()), strict=True):
        rows = pages_of.flatten(0, 1).double()
        written = rows[slots[kept].long()] * (scale[:, None] if is_narrow else 1)
        limit = 1 / 16 if is_narrow else 1e-2
        torch.testing.assert_close(written, x[kept], rtol=limit, atol=2e-2)
        untouched = torch.ones(pages * page, dtype=torch.bool, device="cuda")
        untouched[slots[kept].long()] = False
        assert bool(rows[untouched].isnan().all())


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_new_rows_of_a_latent_cache(dtype: torch.dtype, interleaved: bool) -> None:
    tokens, pages, page, columns, rotary = 150, 20, 16, 576, 64
    q = torch.randn(tokens, H, columns, device="cuda", dtype=dtype)
    rows = torch.randn(tokens, 1, columns, device="cuda", dtype=dtype)
    positions = torch.randint(0, 5000, (tokens,), device="cuda", dtype=torch.int32)
    slots = torch.randperm(pages * page, device="cuda")[:tokens].int()
    slots[3], slots[149] = -1, pages * page
    rates = 10000.0 ** (-torch.arange(0, rotary, 2, device="cuda") / rotary)
    angle = torch.arange(5000, device="cuda")[:, None] * rates
    pool = torch.full((pages, page, 1, columns), torch.nan, device="cuda", dtype=dtype)
    more = {"positions": positions, "cos": angle.cos(), "sin": angle.sin()}
    out = tesela.write_pages(
        q, rows, None, pool, None, slots=slots, interleaved=interleaved, **more
    )

    def turned(x: Tensor) -> Tensor:
        end = rotated(x[..., -rotary:], positions, angle, interleaved)
        return torch.cat([x[..., :-rotary].double(), end], -1)

    close(out, turned(q))
    kept = torch.ones(tokens, dtype=torch.bool, device="cuda")
    kept[[3, 149]] = False
    got = pool.flatten(0, 1).double()
    torch.testing.assert_close(got[slots[kept].long()], turned(rows)[kept], rtol=1e-2, atol=2e-2)
    untouched = torch.ones(pages * page, dtype=torch.bool, device="cuda")
    untouched[slots[kept].long()] = False
    assert bool(got[untouched].isnan().all())


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("page", [16, 64])
def test_chunks_of_prompts(page: int, split: bool) -> None:
    lengths, queries = [4096, 40, 700, 512], [512, 40, 1, 300]
    cache = Cache(lengths, page, 128, torch.bfloat16)
    starts = torch.tensor([0, *torch.tensor(queries).cumsum(0).tolist()], dtype=torch.int32)
    q = torch.randn(sum(queries), H, 128, device="cuda", dtype=torch.bfloat16)
    out = cache.attend(q, "causal", starts_q=starts.cuda(), max_queries=512, split=split)
    for b in range(len(lengths)):
        rows = slice(int(starts[b]), int(starts[b + 1]))
        close(out[rows], reference(q[rows], *cache.keys[b])[0])


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_ragged_prompts(head_dim: int) -> None:
    lengths = [300, 1, 0, 1024, 77]
    starts = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    shape = (sum(lengths) + 9, H + 2 * HKV, head_dim)  # q, k and v in one tensor, and unused rows
    qkv = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    qkv[sum(lengths) :] = torch.nan
    q, k, v = qkv.split([H, HKV, HKV], 1)
    out = torch.full_like(q, torch.nan)
    tesela.attention_ragged(q, k, v, starts_q=starts.cuda(), max_queries=1024, out=out)
    for b in range(len(lengths)):
        rows = slice(int(starts[b]), int(starts[b + 1]))
        close(out[rows], reference(q[rows], k[rows], v[rows])[0])
    assert bool(out[sum(lengths) :].isnan().all())


@pytest.mark.parametrize("split", [False, True])
def test_one_graph_serves_changing_lengths(split: bool) -> None:
    cache = Cache([2000, 900, 50], 64, 128, torch.bfloat16)
    q = torch.randn(3, 1, H, 128, device="cuda", dtype=torch.bfloat16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = cache.attend(q, "causal", split=split)
    for lengths in ([2000, 900, 50], [1, 0, 49], [1999, 64, 50]):
        cache.lengths.copy_(torch.tensor(lengths, dtype=torch.int32))
        q.normal_()
        graph.replay()
        for b, n in enumerate(lengths):
            if n:
                k, v = cache.keys[b][:, :n]
                close(out[b], reference(q[b], k, v)[0])
            else:
                assert bool((out[b] == 0).all())


GRAPHS_ALONE = """
import gc

import tesela
import tesela._contexts as contexts
import tesela._variant as variants
import torch
from gpu_serving_test import H, Cache, close, reference

tesela.cache.limits(most_kernels=1, disk=False)
cache = Cache([2000, 900, 50], 64, 128, torch.bfloat16)
q = torch.randn(3, 1, H, 128, device="cuda", dtype=torch.bfloat16)


def attend(name, split):
    return cache.attend(q, tesela.variant("attention %s() { mask = q >= k }" % name), split=split)


def forget_variants():
    known = vars(variants._known)
    for each in (variants._programs, variants.known_variants, variants._places, known):
        each.clear()
    gc.collect()


graphs = {split: torch.cuda.CUDAGraph() for split in (False, True)}
results = {}
for split, graph in graphs.items():
    with torch.cuda.graph(graph):
        results[split] = attend("gone", split)
# Nothing but the graphs has kernels of this variant now: who asks for it has it compiled anew.
forget_variants()
attend("other", True)
before = contexts.context(0).compile_count
attend("gone", True)
assert contexts.context(0).compile_count == before + 1
forget_variants()
attend("other", False)
for lengths in ([2000, 900, 50], [1, 77, 49]):
    cache.lengths.copy_(torch.tensor(lengths, dtype=torch.int32))
    q.normal_()
    for split, graph in graphs.items():
        results[split].fill_(torch.nan)
        graph.replay()
        for b, n in enumerate(lengths):
            k, v = cache.keys[b][:, :n]
            close(results[split][b], reference(q[b], k, v)[0])
"""


def test_a_graph_outlives_its_variant() -> None:
    # A separate process that keeps only one kernel in memory.
    done = subprocess.run(
        [sys.executable, "-c", GRAPHS_ALONE],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def test_a_shared_prefix_is_read_once() -> None:
    lengths = [700, 1, 33]
    cache = Cache(lengths, 16, 128, torch.bfloat16)
    prefix = torch.randn(2, 1, 500, HKV, 128, device="cuda", dtype=torch.bfloat16)
    q = torch.randn(3, 1, H, 128, device="cuda", dtype=torch.bfloat16)
    of_prefix = tesela.attention(
        q.view(1, 3, H, 128), prefix[0], prefix[1], "full", layout="bshd", return_lse=True
    )
    of_suffix = cache.attend(q, "full", return_lse=True)
    out = tesela.merge_partials(
        [of_prefix[0][0], of_suffix[0][:, 0]], [of_prefix[1][0], of_suffix[1][:, :, 0].T]
    )
    for b in range(len(lengths)):
        k, v = (torch.cat([prefix[i, 0], cache.keys[b][i]]) for i in range(2))
        close(out[b : b + 1], reference(q[b], k, v)[0])


def test_parts_in_float32() -> None:
    outs = torch.randn(3, 2, 5, H, 128, device="cuda")
    lses = torch.randn(3, 2, H, 5, device="cuda")
    lses[1, 0] = -torch.inf
    out, lse = tesela.merge_partials(outs, lses, return_lse=True)
    weights = lses.double().softmax(0).transpose(2, 3)[..., None]
    expected = (weights * outs).sum(0)
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(lse, lses.logsumexp(0), atol=1e-5, rtol=1e-5)
    rounded = torch.empty_like(out, dtype=torch.bfloat16)
    tesela.merge_partials(outs, lses, out=rounded)
    assert torch.equal(rounded, out.bfloat16())


def share(cache: Cache, prefix: int) -> None:
    """All sequences begin with the keys of the first one. Whole pages of them are shared."""
    page = cache.pool.shape[2]
    whole = prefix // page
    for b, keys in enumerate(cache.keys):
        if b == 0 or keys.shape[1] == 0:
            continue
        keys[:, :prefix] = cache.keys[0][:, :prefix]
        cache.pool[:, cache.table[b, :whole].long()] = torch.nan
        cache.table[b, :whole] = cache.table[0, :whole]
        if prefix % page:
            rows = keys[:, whole * page : prefix]
            cache.pool[:, int(cache.table[b, whole]), : rows.shape[1]] = rows


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("queries", [1, 60])
@pytest.mark.parametrize("page", [16, 64])
@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_a_cascade(head_dim: int, name: str, page: int, queries: int, split: bool) -> None:
    if head_dim != 128 and (page != 64 or name == "softcap"):
        pytest.skip("one head dimension has them all")
    prefix, lengths = 1000, [4096, 1001, 0, 1700, 1100, 3048, 1064]
    cache = Cache(lengths, page, head_dim, torch.bfloat16)
    share(cache, prefix)
    counts = [min(queries, n, 1 + 20 * b) for b, n in enumerate(lengths)]
    starts = torch.tensor([0, *torch.tensor(counts).cumsum(0).tolist()], dtype=torch.int32)
    q = torch.randn(sum(counts) + 5, H, head_dim, device="cuda", dtype=torch.bfloat16)
    out = torch.full_like(q, torch.nan)
    variant, of_reference = VARIANTS[name]

    def attend() -> Any:
        return tesela.attention_cascade(
            *(q, cache.pool[0], cache.pool[1], variant),
            prefix_table=cache.table[0],
            prefix_length=prefix_length,
            table=cache.table,
            lengths=cache.lengths,
            starts_q=starts_q,
            max_queries=queries,
            max_keys=MOST_KEYS,
            split=split,
            out=out,
            return_lse=True,
        )

    prefix_length = torch.tensor([prefix], dtype=torch.int32, device="cuda")
    starts_q = starts.cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _, lse = attend()
    for length in (prefix, 0, page, prefix - 1):  # shared keys may also be read as a sequence's own
        prefix_length.fill_(length)
        out.fill_(torch.nan)
        graph.replay()
        assert bool(out[int(starts[-1]) :].isnan().all())
        for b in range(len(lengths)):
            if counts[b]:
                rows = slice(int(starts[b]), int(starts[b + 1]))
                expected, sums = reference(q[rows], *cache.keys[b], **of_reference)
                close(out[rows], expected)
                torch.testing.assert_close(lse[:, rows].double(), sums, rtol=0, atol=2e-3)


def test_wrong_numbers_end_and_stay_inside() -> None:
    cache = Cache([100, 100, 100, 100], 16, 128, torch.bfloat16)
    q = torch.randn(4, 1, H, 128, device="cuda", dtype=torch.bfloat16)
    cache.table[0] = torch.randint(-(2**31), 2**31 - 1, cache.table[0].shape, dtype=torch.int32)
    cache.lengths.copy_(torch.tensor([2**31 - 1, 100, -5, -(2**31)], dtype=torch.int32))
    for split in (False, True):
        out = cache.attend(q, "causal", split=split)
        close(out[1], reference(q[1], *cache.keys[1])[0])
        assert bool((out[2:] == 0).all())
