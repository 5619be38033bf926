# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scores as users of FlexAttention write them: one of each kind in attention-gym
(https://github.com/meta-pytorch/attention-gym) and in FlexAttention's documentation and article
(https://pytorch.org/blog/flexattention/), written anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional
from flex_cases import SK, SQ, B, Case, H, case, floats, ints
from flex_masks import causal_mask, sliding


@case
def identity() -> Case:
    return Case(score=lambda score, b, h, q_idx, kv_idx: score)


@case
def times_two() -> Case:
    return Case(score=lambda score, b, h, q_idx, kv_idx: score * 2)


@case
def causal_by_score() -> Case:
    def score_mod(score, b, h, q_idx, kv_idx):
        return torch.where(q_idx >= kv_idx, score, -float("inf"))

    return Case(score=score_mod)


@case
def relative_position() -> Case:
    return Case(score=lambda score, b, h, q_idx, kv_idx: score + (q_idx - kv_idx))


@case
def alibi_by_formula() -> Case:
    heads = H

    def score_mod(score, b, h, q_idx, kv_idx):
        scale = torch.exp2(-((h + 1) * 8.0 / heads))
        return score + (kv_idx - q_idx) * scale

    return Case(score=score_mod)


@case
def alibi_by_table() -> Case:
    slopes = 2.0 ** -(torch.arange(1, H + 1) * 8.0 / H)

    def score_mod(score, b, h, q_idx, kv_idx):
        return score + slopes[h] * (kv_idx - q_idx)

    return Case(causal_mask, score_mod)


@case
def softcap() -> Case:
    cap = 3.0

    def score_mod(score, b, h, q_idx, kv_idx):
        return cap * torch.tanh(score / cap)

    return Case(score=score_mod)


@case
def softcap_approximate() -> Case:
    class Tanh(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return torch.tanh(x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    cap, tanh = 20, Tanh.apply

    def score_mod(score, b, h, q_idx, kv_idx):
        return cap * tanh(score / cap)

    return Case(sliding(9), score_mod)


@case
def bias_of_pairs() -> Case:
    bias = floats(B, H, SQ, SK)
    return Case(score=lambda score, b, h, q_idx, kv_idx: score + bias[b, h, q_idx, kv_idx])


@case
def bias_by_distance() -> Case:
    table, offset = floats(H, SQ + SK), SQ

    def score_mod(score, b, h, q_idx, kv_idx):
        return score + table[h, kv_idx - q_idx + offset]

    return Case(score=score_mod)


@case
def bias_by_row_and_column() -> Case:
    rows, columns = floats(H, SQ, seed=1).half(), floats(SK, seed=2).bfloat16()

    def score_mod(score, b, h, q_idx, kv_idx):
        return score + rows[h][q_idx] * columns[kv_idx].to(score.dtype)

    return Case(score=score_mod)


@case
def sandwich() -> Case:
    heads, longest, width = H, 64, 16
    frequencies = 1.0 / 10000 ** (2 * torch.arange(width // 2) / width)
    distances = torch.arange(2 * longest - 1) - (longest - 1)
    table = torch.cos(distances.abs()[:, None] * frequencies).sum(-1)
    ratio = heads / (8.0 * torch.arange(1, heads + 1))
    offset = longest - 1

    def score_mod(score, b, h, q_idx, kv_idx):
        return score + table[q_idx - kv_idx + offset] * ratio[h]

    return Case(score=score_mod)


@case
def graph_distance() -> Case:
    bias = floats(H, 6)
    distances = ints(0, 6, B, SK, SK).int()

    def score_mod(score, b, h, q_idx, kv_idx):
        return score + bias[h, distances[b, q_idx, kv_idx]]

    return Case(score=score_mod)


@case
def graph_edges() -> Case:
    longest = 3
    bias = floats(H, longest, 5)
    edges, lengths = ints(0, 5, B, SK, SK, longest), ints(0, 4, B, SK, SK, seed=1)
    tables = [bias[:, n] for n in range(longest)]

    def score_mod(score, b, h, q_idx, kv_idx):
        length = lengths[b, q_idx, kv_idx]
        total = 0.0
        for n, table in enumerate(tables):
            each = table[h, edges[b, q_idx, kv_idx, n]]
            total = total + torch.where(length > n, each, 0.0)
        return score + total / torch.clamp(length, min=1)

    return Case(score=score_mod)


@case
def latent_rope() -> Case:
    heads, scale = H, 0.25
    queries, keys = floats(B, H, SQ, 8, seed=3), floats(B, 1, SK, 8, seed=4)

    def score_mod(score, b, h, q_idx, kv_idx):
        return score + scale * torch.dot(queries[b, h, q_idx], keys[b, h // heads, kv_idx])

    return Case(score=score_mod)


def activation(function: Callable[[Any], Any], offset: float = 1.0) -> Case:
    def score_mod(score, b, h, q_idx, kv_idx):
        return torch.log(function(score) + offset)

    return Case(score=score_mod)


@case
def activation_gelu() -> Case:
    return activation(functional.gelu)


@case
def activation_gelu_tanh() -> Case:
    return activation(lambda x: functional.gelu(x, approximate="tanh"))


@case
def activation_relu() -> Case:
    return activation(functional.relu)


@case
def activation_sigmoid() -> Case:
    return activation(torch.sigmoid, 0.5)


@case
def activation_silu() -> Case:
    return activation(functional.silu)


@case
def activation_softplus() -> Case:
    return activation(functional.softplus, 0.0)


@case
def sinks_by_score() -> Case:
    sinks, window = 4, 12

    def score_mod(score, b, h, q_idx, kv_idx):
        inside = (q_idx - kv_idx < window) | (kv_idx < sinks)
        return score.masked_fill(~(inside & (kv_idx <= q_idx)), float("-inf"))

    return Case(score=score_mod)


@case
def logs_of_distance() -> Case:
    def score_mod(score, b, h, q_idx, kv_idx):
        distance = torch.clamp((q_idx - kv_idx).abs().float(), min=1.0)
        return score - torch.log2(distance).floor() * 0.5 + torch.log1p(distance).sqrt() * 0.1

    return Case(score=score_mod)


@case
def temperature_by_query() -> Case:
    def score_mod(score, b, h, q_idx, kv_idx):
        return score * torch.log((q_idx + 1).to(torch.float32)).clamp_min(1.0) ** 0.5

    return Case(causal_mask, score_mod)


@case
def arrays() -> Case:
    table, bounds = floats(H, 12), torch.tensor([3, 9, 20, 31])

    def score_mod(score, b, h, q_idx, kv_idx):
        flipped = table.flip(0)[h, kv_idx % 12] + table.T[q_idx % 12, h]
        sums = table[h, 2:9].sum() + table[:, 1::3].mean(-1)[h] + (table[h] * table[0])[-2]
        products = table[h] @ table[1] + torch.dot(table[h, :4], table.exp()[h, 8:])
        bucket = torch.bucketize(kv_idx, bounds) + torch.searchsorted(bounds, q_idx, right=True)
        return score + 0.1 * (flipped + sums + products) + bucket

    return Case(lambda b, h, q_idx, kv_idx: (table[h] > kv_idx - q_idx).any(), score_mod)


@case
def rounding() -> Case:
    def score_mod(score, b, h, q_idx, kv_idx):
        x = (q_idx - kv_idx) / 4
        steps = torch.round(x) + torch.ceil(x) * 2 - torch.trunc(x) * 3 + torch.sign(x)
        whole = torch.fmod(q_idx - kv_idx, 5) + torch.remainder(kv_idx - q_idx, 7)
        return score + 0.05 * steps + 0.01 * whole + 0.1 * torch.remainder(x, 0.75)

    return Case(score=score_mod)
