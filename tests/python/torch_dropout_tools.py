# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The common part of the tests of dropout in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import reference
import tesela
import torch
from torch import Tensor
from torch_gradient_tools import Gradients, check, check_parameter, gradients
from torch_tools import random

SEED = 0x123456789ABCDEF0
WORDS = (SEED & 0xFFFFFFFF, SEED >> 32, 0, 0)
STATE = torch.tensor([5, -6, 7, -8], dtype=torch.int32)


class Case(NamedTuple):
    """A variant and its formula.

    Attributes:
        variant: the name or the text.
        keep: a function that says which pairs (q, k) the mask keeps.
        slope: ALiBi's slope of each head, or None.
    """

    variant: str
    keep: Callable[[Tensor, Tensor], Tensor]
    slope: Tensor | None = None


CASES = [
    Case("full", lambda q, k: q >= 0 * k),
    Case("causal", lambda q, k: q >= k),
    Case(
        "attention alibi(slope: f32[H]) { mask = q + 25 >= k\n score = s + slope[h] * (k - q) }",
        lambda q, k: q + 25 >= k,
        torch.tensor([0.5, 0.25, 0.125, 0.0625, 0.03, 0.01]),
    ),
]


def weight_of(probability: float, words: Any, q: Tensor, k: Tensor) -> Tensor:
    """The factors of the probabilities by the rule: 0, or 1 / (1 - p)."""
    sizes = (*q.shape[:3], k.shape[2])
    return torch.from_numpy(reference.dropout_weight(probability, words, *sizes)).to(q.device)


def plain(
    q: Tensor, k: Tensor, v: Tensor, case: Case, slope: Tensor | None, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Attention with factors on the probabilities, by PyTorch's own operations, and the
    log-sums."""
    shared = q.shape[1] // k.shape[1]
    k, v = (each.repeat_interleave(shared, 1) for each in (k, v))
    row, column = (torch.arange(n, device=q.device) for n in (q.shape[2], k.shape[2]))
    s = q @ k.mT / q.shape[-1] ** 0.5
    if slope is not None:
        s = s + slope[:, None, None] * (column - row[:, None])
    keep = case.keep(row[:, None], column)
    kept = torch.where(keep, s, -torch.inf)
    return (torch.where(keep, kept.softmax(-1), 0) * weight) @ v, kept.logsumexp(-1)


def check_both_passes(
    case: Case, dense: tuple[Tensor, Tensor, Tensor], probability: float, seed: Any, words: Any
) -> None:
    """The result, and the gradients of q, k, v and the slope, for the pairs that the rule drops."""
    q, k, v = dense
    dtype, device = q.dtype, str(q.device)
    grad = random(*q.shape[:3], v.shape[3], seed=4, dtype=dtype, device=device)
    weight = weight_of(probability, words, q, k)
    given = {} if case.slope is None else {"slope": case.slope.to(device)}

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        result: Tensor = tesela.attention(
            q, k, v, case.variant, dropout_p=probability, seed=seed, **given
        )
        return result

    exact = [each.double().requires_grad_() for each in dense]
    slopes = [each.double().requires_grad_() for each in given.values()]
    wanted, lse = plain(*exact, case, slopes[0] if slopes else None, weight)
    difference = attend(q, k, v).double() - wanted.detach()
    assert difference.abs().max() <= (4e-5 if dtype is torch.float32 else 3e-2)
    # A backward pass sums dO ∘ O with the rounded O that it is given. The exact gradient must do
    # the same: O's error acts like a gradient of the log-sums. With one key, or in the sum of a
    # slope, nothing else is left.
    of_rows = -(grad.double() * difference).sum(-1)
    torch.autograd.backward((wanted, lse), (grad.double(), of_rows))
    check(gradients(attend, dense, grad), Gradients(*(x.grad for x in exact)), dtype)
    if slopes:
        slope = given["slope"].clone().requires_grad_()
        given["slope"] = slope
        attend(q, k, v).backward(grad)
        assert slope.grad is not None and slopes[0].grad is not None
        check_parameter(slope.grad, slopes[0].grad, slope, dtype)
