# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server's loop on the host: sequences join, share a prefix, grow, and leave, in one pool.

Each step writes the new tokens of all sequences with rotary embedding, and attends to their pages.
What nobody has is NaN: pages that were never used, and those of sequences that left. Of some steps
all results are held against attention in double precision over the sequence's whole history.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import tesela
from reference import Array, random

H, HKV, D, PAGE, PAGES = 4, 2, 16, 8, 96
TOKENS, CHUNK, LONGEST, MOST_PAGES = 50, 12, 90, 12
PREFIX = 21  # tokens that all prompts begin with: two whole pages, and a part of one
BUCKETS = (2, 4, 8)  # sequences of a launch; those that a batch lacks have the length 0
FREE = 2**31 - 1  # in tables, where a sequence has no page


@dataclass
class Sequence:
    """Its tokens, how many of them are in the cache, and where."""

    tokens: list[int]
    wanted: int  # so long it becomes
    cached: int = 0
    pages: list[int] = field(default_factory=list)


class Model:
    """One layer: a token has a query, a key and a value; an output chooses the next one."""

    def __init__(self) -> None:
        self.q = random(TOKENS, H, D, seed=1)
        self.k, self.v = random(2, TOKENS, HKV, D, seed=2)
        self.head = random(H * D, TOKENS, seed=3)
        rates = 100.0 ** (-np.arange(0, D, 2) / D)
        angle = np.arange(LONGEST)[:, None] * rates
        self.cos, self.sin = np.cos(angle), np.sin(angle)

    def turned(self, x: Array, positions: Array) -> Array:
        a, b = np.split(x.astype(np.float64), 2, axis=-1)
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def outputs(self, tokens: list[int], first: int, window: int) -> Array:
        """Of the tokens from ``first`` on, in double precision."""
        where = np.arange(len(tokens))
        q = self.turned(self.q[tokens], where)[first:]
        k = self.turned(self.k[tokens], where).repeat(H // HKV, 1)
        v = self.v[tokens].astype(np.float64).repeat(H // HKV, 1)
        s = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(D)
        distance = where[first:, None] - where
        s[:, (distance < 0) | (distance >= window)] = -np.inf
        p = np.exp(s - s.max(-1, keepdims=True))
        return np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v)


class Server:
    def __init__(self, model: Model, variant: tesela.Variant, window: int, split: bool) -> None:
        self.model, self.variant, self.window, self.split = model, variant, window, split
        self.pools = [np.full((PAGES, PAGE, HKV, D), np.nan, np.float32) for _ in range(2)]
        self.free = list(np.random.default_rng(4).permutation(PAGES))
        self.users = np.zeros(PAGES, int)
        self.running: list[Sequence] = []
        self.prefix = Sequence(
            [int(t) for t in np.random.default_rng(5).integers(0, TOKENS, PREFIX)], 0
        )

    def take(self) -> int:
        page = int(self.free.pop())
        self.users[page] = 1
        return page

    def leave(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        for page in sequence.pages:
            self.users[page] -= 1
            if self.users[page] == 0:
                for pool in self.pools:
                    pool[page] = np.nan
                self.free.insert(0, page)

    def join(self, more: list[int], wanted: int) -> None:
        """A prompt: the prefix, whose whole pages are there already, and ``more``."""
        shared = self.prefix.pages[: PREFIX // PAGE]
        self.users[shared] += 1
        cached = len(shared) * PAGE
        self.running.append(Sequence(self.prefix.tokens + more, wanted, cached, list(shared)))

    def step(self, is_checked: bool) -> None:
        """A chunk of each prompt, or the newest token."""
        batch = self.running
        bucket = min(n for n in BUCKETS if n >= len(batch))
        table = np.full((bucket, MOST_PAGES), FREE, np.int32)
        lengths, starts = np.zeros(bucket, np.int32), np.zeros(bucket + 1, np.int32)
        tokens: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        for b in range(bucket):
            if b < len(batch):
                each = batch[b]
                end = min(len(each.tokens), each.cached + CHUNK)
                while len(each.pages) * PAGE < end:
                    each.pages.append(self.take())
                table[b, : len(each.pages)] = each.pages
                lengths[b] = end
                for i in range(each.cached, end):
                    tokens.append(each.tokens[i])
                    positions.append(i)
                    slots.append(each.pages[i // PAGE] * PAGE + i % PAGE)
            starts[b + 1] = len(tokens)
        model = self.model
        q = tesela.write_pages(
            *(model.q[tokens], model.k[tokens], model.v[tokens], *self.pools),
            slots=np.array(slots, np.int32),
            positions=np.array(positions, np.int32),
            cos=model.cos.astype(np.float32),
            sin=model.sin.astype(np.float32),
        )
        out = tesela.attention_paged(
            *(q, *self.pools, self.variant),
            table=table,
            lengths=lengths,
            starts_q=starts,
            max_queries=CHUNK,
            max_keys=LONGEST,
            split=self.split,
        )
        for b, each in enumerate(list(batch)):
            rows = out[starts[b] : starts[b + 1]]
            if is_checked:
                seen = each.tokens[: lengths[b]]
                expected = model.outputs(seen, each.cached, self.window)
                np.testing.assert_allclose(rows, expected, rtol=1e-4, atol=1e-4)
            each.cached = int(lengths[b])
            if each.cached == len(each.tokens):  # the prompt is through
                each.tokens.append(int((rows[-1].reshape(-1) @ model.head).argmax()))
            if len(each.tokens) > each.wanted:
                self.leave(each)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", ["causal", "sliding_window"])
def test_sequences_join_grow_and_leave(name: str, split: bool) -> None:
    window = 30 if name == "sliding_window" else LONGEST
    variant = tesela.variant(name, **({"window": window} if name == "sliding_window" else {}))
    server = Server(Model(), variant, window, split)
    # The prefix is a sequence of its own, which stays until the end.
    server.prefix.wanted = LONGEST
    server.running.append(server.prefix)
    while server.prefix.cached < PREFIX:
        server.step(is_checked=True)
    server.running.remove(server.prefix)
    server.prefix.tokens = server.prefix.tokens[:PREFIX]
    generator = np.random.default_rng(6)
    joined, checked = 0, 0
    for step in range(300):
        while len(server.running) < BUCKETS[-1] and (
            not server.running or generator.random() < 0.3
        ):
            more = [int(t) for t in generator.integers(0, TOKENS, generator.integers(1, 30))]
            server.join(more, PREFIX + len(more) + int(generator.integers(1, 40)))
            joined += 1
        is_checked = step % 7 == 0
        checked += is_checked
        server.step(is_checked)
    assert joined > 30 and checked > 40
    for each in list(server.running):
        server.leave(each)
    # What nobody has is free again; the prefix's pages are the server's own.
    assert len(server.free) == PAGES - len(server.prefix.pages)
