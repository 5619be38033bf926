# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches over a part of the queries and a part of the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tesela.distributed._positions import Part
from tesela.torch._launch import launch
from tesela.torch._launch_backward import launch_backward
from tesela.torch._launch_parameters import launch_parameters
from tesela.torch._request import Request

if TYPE_CHECKING:
    from tesela.distributed._attention import Call


def _request(call: Call, part: Part, q: Tensor, k: Tensor) -> Request:
    placed = call.plan.placed
    constants = dict(call.plan.variant._constants)
    variant = placed.variant.bind(**constants) if constants else placed.variant
    values = {name: value for name, value in call.values.items() if name not in constants}
    values = placed.values(values, part, call.sizes, (q.shape[2], k.shape[2]))
    if call.dropout:
        first = {"dropout.first_q": part.first_q, "dropout.first_k": part.first_k}
        variant = variant._dropping({**call.dropout, **first})
    return Request(variant, values, call.scale, False)


def forward(
    call: Call, part: Part, q: Tensor, k: Tensor, v: Tensor, out: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The result over these keys, and its logarithms.

    Args:
        call: the common data of all launches.
        part: the positions at which q and k begin.
        q: ``[batch, heads, length, head dimension]``, a view, like k and v.
        k: the keys, with the same axes.
        v: the values, with the same axes.
        out: the tensor that receives the result; None: a new tensor.
    """
    given, lse = launch(q, k, v, _request(call, part, q, k), True, out)
    assert lse is not None
    return given, lse


Dense = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]
"""(gradient of the result, q, k, v, result over all keys, its logarithms, their gradient)."""


class Gradients:
    """Sums of the gradients of parameters over several launches, in float32."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.of_values: list[Tensor | None] = [None] * len(call.names)

    def add_values(self, given: list[Tensor]) -> None:
        for number, each in enumerate(given):
            before = self.of_values[number]
            self.of_values[number] = each.float() if before is None else before.add_(each)


def backward(
    call: Call,
    part: Part,
    dense: Dense,
    is_needed: bool,
    sums: Gradients,
    into: Sequence[Tensor | None] = (None, None, None),
) -> tuple[Tensor, Tensor, Tensor] | None:
    """The gradients of q, k and v from these pairs. Adds those of parameters to ``sums``.

    Args:
        call: as in ``forward``.
        part: as in ``forward``.
        dense: the tensors for these queries and keys.
        is_needed: whether gradients of q, k or v are needed.
        sums: the sums of the parameters' gradients.
        into: tensors for the gradients of q, k and v; None: a new tensor.
    """
    request = _request(call, part, dense[1], dense[2])
    gradients = launch_backward(*dense, request, into) if is_needed else None
    if call.names:
        sums.add_values(launch_parameters(*dense, request, call.names))
    return gradients


class Scheme:
    """How the ranks of a call come to their results. Subclasses compute the passes of one rank.

    Attributes:
        has: which ranks of the group launch kernels.
    """

    has: Sequence[bool]

    def gradients(
        self,
        call: Call,
        kept: tuple[Tensor, ...],
        grad: Tensor | None,
        grad_of_lse: Tensor | None,
        is_needed: bool,
        sums: Gradients,
    ) -> list[Tensor | None]:
        """The gradients of q, k and v. Adds those of the trained parameters to ``sums``.

        Args:
            call: the call.
            kept: the tensors that the forward pass kept.
            grad: the gradient of this rank's result; None: zeros.
            grad_of_lse: the gradient of its logarithms, or None.
            is_needed: whether gradients of q, k or v are needed.
            sums: the sums of the parameters' gradients.
        """
        raise NotImplementedError

    def backward(
        self,
        call: Call,
        kept: tuple[Tensor, ...],
        grad: Tensor | None,
        grad_of_lse: Tensor | None,
        is_needed: bool,
    ) -> tuple[list[Tensor | None], list[Tensor]]:
        """The gradients of q, k and v, and those of the trained parameters. See ``gradients``."""
        sums = Gradients(call)
        found = self.gradients(call, kept, grad, grad_of_lse, is_needed, sums)
        return found, finished_values(call, sums, self.has)


def finished_values(call: Call, sums: Gradients, has: Sequence[bool]) -> list[Tensor]:
    """The gradients of parameters, summed over ranks if asked for. All ranks must call it.

    Args:
        call: the call.
        sums: the sums of this rank.
        has: which ranks have launched kernels.
    """
    found = []
    for name, each in zip(call.names, sums.of_values, strict=True):
        value: Tensor = call.values[name]
        total = each if each is not None else torch.zeros_like(value, dtype=torch.float32)
        if call.sums_gradients and call.plan.ranks > 1:
            from tesela.distributed._exchange import sum_over_ranks

            total = sum_over_ranks(call.plan, total, has)
        found.append(total.to(value.dtype))
    return found
