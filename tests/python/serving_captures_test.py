# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Captured tensors with an extent Sq in calls over sequences whose queries stand behind a cache."""

import pytest
import tesela

torch = pytest.importorskip("torch")

PAGE, KEYS, QUERIES, DIM = 16, 100, 4, 32
FIRST = KEYS - QUERIES  # the position of the first query


class Sequence:
    """One sequence in pages in any order, and its rows in order."""

    def __init__(self):
        torch.manual_seed(5)
        self.table = torch.randperm(8).int()[None]
        self.lengths = torch.tensor([KEYS], dtype=torch.int32)
        self.pool = torch.randn(2, 8, PAGE, 1, DIM)
        self.q = torch.randn(1, QUERIES, 1, DIM)
        rows = torch.arange(KEYS)
        self.k, self.v = self.pool[:, self.table[0, rows // PAGE].long(), rows % PAGE, 0].double()

    def call(self, variant, **more):
        out = tesela.attention_paged(
            *(self.q, self.pool[0], self.pool[1], variant),
            table=self.table,
            lengths=self.lengths,
            max_keys=KEYS,
            **more,
        )
        return out[0, :, 0].double()

    def expected(self, bias):
        scores = self.q[0, :, 0].double() @ self.k.T / DIM**0.5 + bias
        return torch.softmax(scores, -1) @ self.v


@pytest.fixture
def sequence():
    return Sequence()


def test_behind_a_cache_sq_counts_positions_among_the_keys(sequence):
    bias = torch.randn(1, KEYS, KEYS, dtype=torch.bfloat16)
    out = sequence.call(tesela.variant("learned_bias", bias=bias))
    expected = sequence.expected(bias[0, FIRST:].double())
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


def test_with_given_positions_too(sequence):
    row = torch.randn(KEYS)
    variant = tesela.variant("attention of_row(t: f32[Sq]) { score = s * t[q] }", t=row)
    first = torch.tensor([7], dtype=torch.int32)
    out = sequence.call(variant, positions=first)
    scores = sequence.q[0, :, 0].double() @ sequence.k.T / DIM**0.5
    expected = torch.softmax(scores * row[7 : 7 + QUERIES, None], -1) @ sequence.v
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


def test_a_tree_of_guesses_counts_queries_from_0(sequence):
    ancestor = torch.eye(QUERIES, dtype=torch.bool)
    ancestor[1:, 0] = ancestor[3, 1] = True
    tree = tesela.variant("speculative_tree", ancestor=ancestor)
    out = sequence.call(tree, positions="begin")
    bias = torch.zeros(QUERIES, KEYS, dtype=torch.double)
    bias[:, FIRST:][~ancestor] = -torch.inf
    torch.testing.assert_close(out, sequence.expected(bias), atol=1e-5, rtol=1e-5)
    with pytest.raises(tesela.InvalidArgumentError, match="positions=begin") as error:
        sequence.call(tree)
    assert "must be Sk = 100" in str(error.value)
