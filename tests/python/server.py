# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small server: sequences join, share a prefix, grow, and leave, in one pool of pages.

Each step writes the new tokens of all sequences with rotary embedding, and computes attention over
their pages. Unused rows are NaN: pages that were never used, and those of sequences that left. All
numbers of a step are in tensors that belong to a batch bucket. So on a GPU one CUDA graph for each
bucket serves all of its steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import tesela
import torch
from reference import Array, random
from torch import Tensor

TOKENS = 50  # the size of the vocabulary
CHUNK, LONGEST = 12, 90  # the most queries and keys of a sequence
BUCKETS = (2, 4, 8)  # sequences of a launch; missing ones have length 0
FREE = 2**31 - 1  # table entry without a page


class Sizes(NamedTuple):
    heads: int
    kv_heads: int
    head_dim: int
    page: int
    pages: int
    prefix: int  # tokens that all prompts begin with: some whole pages, and a part of one


class Way(NamedTuple):
    """Where and how steps run."""

    device: str
    dtype: torch.dtype
    split: bool
    cascade: bool  # whether the prefix is computed once for all sequences
    limit: float


@dataclass
class Sequence:
    """A sequence's tokens, the number of them in the cache, and its pages."""

    tokens: list[int]
    wanted: int  # its final length
    cached: int = 0
    pages: list[int] = field(default_factory=list)


class Model:
    """One layer: a token has a query, a key and a value. The output chooses the next token."""

    def __init__(self, sizes: Sizes, way: Way) -> None:
        self.sizes = sizes
        head_dim = sizes.head_dim
        kinds = (sizes.heads, sizes.kv_heads, sizes.kv_heads)
        self.rows = [
            torch.from_numpy(random(TOKENS, heads, head_dim, seed=1 + i, dtype=np.float32))
            .to(way.dtype)
            .to(way.device)
            for i, heads in enumerate(kinds)
        ]
        self.head = random(sizes.heads * head_dim, TOKENS, seed=5)
        rates = 100.0 ** (-np.arange(0, head_dim, 2) / head_dim)
        angle = np.arange(LONGEST)[:, None] * rates
        self.cos, self.sin = np.cos(angle), np.sin(angle)
        self.exact = [each.double().cpu().numpy() for each in self.rows]

    def turned(self, x: Array, positions: Array) -> Array:
        a, b = np.split(x, 2, axis=-1)
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def outputs(self, tokens: list[int], first: int, window: int) -> Array:
        """The outputs of the tokens from ``first`` on, in double precision."""
        group = self.sizes.heads // self.sizes.kv_heads
        where = np.arange(len(tokens))
        q = self.turned(self.exact[0][tokens], where)[first:]
        k = self.turned(self.exact[1][tokens], where).repeat(group, 1)
        v = self.exact[2][tokens].repeat(group, 1)
        s = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(self.sizes.head_dim)
        distance = where[first:, None] - where
        s[:, (distance < 0) | (distance >= window)] = -np.inf
        p = np.exp(s - s.max(-1, keepdims=True))
        return np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v)


class Bucket:
    """The tensors of a launch for this number of sequences, and on a GPU the graph."""

    def __init__(self, count: int, most_pages: int, device: str) -> None:
        def integers(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=device)

        self.tokens, self.positions = integers(count * CHUNK), integers(count * CHUNK)
        self.slots = integers(count * CHUNK)
        self.table, self.lengths = integers(count, most_pages), integers(count)
        self.starts, self.prefix_length = integers(count + 1), integers(1)
        self.prefix_table = integers(most_pages)
        self.out: Tensor | None = None
        self.graph: torch.cuda.CUDAGraph | None = None


class Server:
    def __init__(self, sizes: Sizes, way: Way, variant: tesela.Variant, window: int) -> None:
        self.sizes, self.way, self.variant, self.window = sizes, way, variant, window
        self.model = Model(sizes, way)
        shape = (2, sizes.pages, sizes.page, sizes.kv_heads, sizes.head_dim)
        self.pool = torch.full(shape, torch.nan, dtype=way.dtype, device=way.device)
        angles = (self.model.cos, self.model.sin)
        self.angles = [torch.from_numpy(each).float().to(way.device) for each in angles]
        self.free = [int(n) for n in np.random.default_rng(4).permutation(sizes.pages)]
        self.users = np.zeros(sizes.pages, int)
        self.running: list[Sequence] = []
        most_pages = -(-LONGEST // sizes.page)
        self.buckets = {n: Bucket(n, most_pages, way.device) for n in BUCKETS}
        tokens = np.random.default_rng(5).integers(0, TOKENS, sizes.prefix)
        self.prefix = Sequence([int(t) for t in tokens], LONGEST)

    def take(self) -> int:
        page = self.free.pop()
        self.users[page] = 1
        return page

    def leave(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        for page in sequence.pages:
            self.users[page] -= 1
            if self.users[page] == 0:
                self.pool[:, page] = torch.nan
                self.free.insert(0, page)

    def join(self, more: list[int], wanted: int) -> None:
        """Adds a prompt: the prefix, whose whole pages are shared, followed by ``more``."""
        shared = self.prefix.pages[: self.sizes.prefix // self.sizes.page]
        self.users[shared] += 1
        cached = len(shared) * self.sizes.page
        self.running.append(Sequence(self.prefix.tokens + more, wanted, cached, list(shared)))

    def compute(self, at: Bucket) -> Tensor:
        """The device's work of a step."""
        q, k, v = (each.index_select(0, at.tokens) for each in self.model.rows)
        q = tesela.write_pages(
            *(q, k, v, self.pool[0], self.pool[1]),
            slots=at.slots,
            positions=at.positions,
            cos=self.angles[0],
            sin=self.angles[1],
        )
        where = {"table": at.table, "lengths": at.lengths, "starts_q": at.starts}
        bounds = {"max_queries": CHUNK, "max_keys": LONGEST, "split": self.way.split}
        arguments = (q, self.pool[0], self.pool[1], self.variant)
        if not self.way.cascade:
            return tesela.attention_paged(*arguments, **where, **bounds)
        return tesela.attention_cascade(
            *arguments,
            prefix_table=at.prefix_table,
            prefix_length=at.prefix_length,
            **where,
            **bounds,
        )

    def run(self, at: Bucket) -> Tensor:
        """On a GPU the bucket's graph runs the step; the first step captures it."""
        if self.way.device == "cpu":
            return self.compute(at)
        if at.graph is None:
            at.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(at.graph):
                at.out = self.compute(at)
        at.graph.replay()
        assert at.out is not None
        return at.out

    def step(self, is_checked: bool) -> None:
        """Each sequence computes a chunk of its prompt, or its newest token."""
        batch, page = self.running, self.sizes.page
        at = self.buckets[min(n for n in BUCKETS if n >= len(batch))]
        table = torch.full(at.table.shape, FREE, dtype=torch.int32)
        lengths, starts = [0] * len(at.lengths), [0] * len(at.starts)
        rows: list[tuple[int, int, int]] = []  # token, position, slot
        for b in range(len(lengths)):
            if b < len(batch):
                each = batch[b]
                lengths[b] = min(len(each.tokens), each.cached + CHUNK)
                while len(each.pages) * page < lengths[b]:
                    each.pages.append(self.take())
                table[b, : len(each.pages)] = torch.tensor(each.pages)
                for i in range(each.cached, lengths[b]):
                    rows.append((each.tokens[i], i, each.pages[i // page] * page + i % page))
            starts[b + 1] = len(rows)
        rows += [(0, 0, -1)] * (len(at.tokens) - len(rows))  # rows that belong to no sequence
        for tensor, numbers in zip(
            (at.tokens, at.positions, at.slots), zip(*rows, strict=True), strict=True
        ):
            tensor.copy_(torch.tensor(numbers))
        at.table.copy_(table)
        at.lengths.copy_(torch.tensor(lengths))
        at.starts.copy_(torch.tensor(starts))
        whole = self.prefix.pages[: self.sizes.prefix // page]
        is_shared = self.prefix not in batch
        at.prefix_length.fill_(len(whole) * page if is_shared else 0)
        at.prefix_table[: len(whole)] = torch.tensor(whole, dtype=torch.int32)
        out = self.run(at).double().cpu().numpy()
        for b, each in enumerate(list(batch)):
            results = out[starts[b] : starts[b + 1]]
            if is_checked:
                expected = self.model.outputs(each.tokens[: lengths[b]], each.cached, self.window)
                limit = self.way.limit
                np.testing.assert_allclose(results, expected, rtol=limit, atol=limit)
            each.cached = lengths[b]
            if each.cached == len(each.tokens):  # the whole prompt was computed
                each.tokens.append(int((results[-1].reshape(-1) @ self.model.head).argmax()))
            if len(each.tokens) > each.wanted:
                self.leave(each)


def serve(sizes: Sizes, way: Way, name: str, steps: int) -> Server:
    """Runs the server for this number of steps. Every seventh is compared with double precision."""
    window = 30 if name == "sliding_window" else LONGEST
    variant = tesela.variant(name, **({"window": window} if name == "sliding_window" else {}))
    server = Server(sizes, way, variant, window)
    # The prefix is a sequence of its own. Its pages stay until the end.
    server.running.append(server.prefix)
    while server.prefix.cached < sizes.prefix:
        server.step(is_checked=True)
    server.running.remove(server.prefix)
    server.prefix.tokens = server.prefix.tokens[: sizes.prefix]
    generator = np.random.default_rng(6)
    joined = checked = 0
    for step in range(steps):
        while len(server.running) < BUCKETS[-1] and (
            not server.running or generator.random() < 0.3
        ):
            more = [int(t) for t in generator.integers(0, TOKENS, generator.integers(1, 30))]
            server.join(more, sizes.prefix + len(more) + int(generator.integers(1, 40)))
            joined += 1
        is_checked = step % 7 == 0
        checked += is_checked
        server.step(is_checked)
    assert joined > steps // 10 and checked > steps // 8
    for each in list(server.running):
        server.leave(each)
    # All other pages are free again; the server keeps the prefix's pages.
    assert len(server.free) == sizes.pages - len(server.prefix.pages)
    return server
