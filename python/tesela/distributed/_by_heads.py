# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scheme "heads": each rank gets all tokens of some heads, and one kernel computes them.

See Jacobs and others, "DeepSpeed Ulysses" (arXiv:2309.14509). The number of kv heads must be a
multiple of the number of ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tesela._errors import UnsupportedError
from tesela.distributed import _layout as layouts
from tesela.distributed._exchange import exchange
from tesela.distributed._kernels import Gradients, backward, finished_values, forward
from tesela.distributed._positions import Part

if TYPE_CHECKING:
    from tesela.distributed._attention import Call
    from tesela.distributed._plan import Plan


class ByHeads:
    """The passes of one rank over its part of the heads."""

    def __init__(self, plan: Plan, scheme: str) -> None:
        self._plan = plan
        self._rank = plan._own_rank()

    def check(self, kv_heads: int, drops: bool) -> None:
        """Raises if the heads cannot be divided among the ranks."""
        if drops:
            raise UnsupportedError(
                "the scheme is 'heads', which does not support dropout: the dropped pairs depend "
                "on a head's number among all heads, and a rank has only some; use scheme='auto'"
            )
        if kv_heads % self._plan.ranks:
            raise UnsupportedError(
                f"the scheme is 'heads', and {kv_heads} kv heads cannot be divided among "
                f"{self._plan.ranks} ranks: use a multiple of {self._plan.ranks} kv heads, or "
                "scheme='auto'"
            )

    def _to_heads(self, tensors: list[Tensor]) -> list[Tensor]:
        """Tensors [batch, heads, own tokens, ...] become [batch, own heads, all tokens, ...]."""
        plan, ranks = self._plan, self._plan.ranks
        sends, came = [], []
        for other in range(ranks):
            parts = [x.chunk(ranks, 1)[other] for x in tensors]
            packed = torch.cat([part.reshape(-1) for part in parts])
            if other == self._rank:
                own = packed
                continue
            sends.append((other, packed))
            count = layouts.tokens(plan.ranges[other])
            size = sum(_row(x) // ranks for x in tensors)
            came.append((other, packed.new_empty(size * count)))
        exchange(plan.group, sends, came).wait()
        flat_of = {self._rank: own, **dict(came)}
        whole = [
            x.new_empty((x.shape[0], x.shape[1] // ranks, plan.length, *x.shape[3:]))
            for x in tensors
        ]
        for other in range(ranks):
            begin = 0
            for x, to in zip(tensors, whole, strict=True):
                count = layouts.tokens(plan.ranges[other])
                shape = (x.shape[0], x.shape[1] // ranks, count, *x.shape[3:])
                size = _product(shape)
                part = flat_of[other][begin : begin + size].view(shape)
                begin += size
                place = 0
                for first, last in plan.ranges[other]:
                    to[:, :, first:last] = part[:, :, place : place + last - first]
                    place += last - first
        return whole

    def _to_tokens(self, tensors: list[Tensor]) -> list[Tensor]:
        """Tensors [batch, own heads, all tokens, ...] become [batch, heads, own tokens, ...]."""
        plan, ranks = self._plan, self._plan.ranks
        sends, came = [], []
        held = layouts.tokens(plan.ranges[self._rank])
        sizes = [_row(x) * held for x in tensors]
        for other in range(ranks):
            parts = [
                torch.cat([x[:, :, first:last] for first, last in plan.ranges[other]], 2).reshape(
                    -1
                )
                for x in tensors
                if plan.ranges[other]
            ]
            packed = torch.cat(parts) if parts else tensors[0].new_empty(0)
            if other == self._rank:
                own = packed
                continue
            sends.append((other, packed))
            came.append((other, packed.new_empty(sum(sizes))))
        exchange(plan.group, sends, came).wait()
        flat_of = {self._rank: own, **dict(came)}
        found = []
        begin = 0
        for x, size in zip(tensors, sizes, strict=True):
            shape = (*x.shape[:2], held, *x.shape[3:])
            parts = [flat_of[other][begin : begin + size].view(shape) for other in range(ranks)]
            found.append(torch.cat(parts, 1))
            begin += size
        return found

    def _part(self, call: Call) -> Part:
        ranks = self._plan.ranks
        return Part(
            *(0, 0, self._rank * (call.sizes.H // ranks), self._rank * (call.sizes.Hkv // ranks))
        )

    def forward(
        self, call: Call, q: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """The result, its logarithms, and the tensors for the backward pass (own heads)."""
        dense = self._to_heads([q, k, v])
        q, k, v = dense
        out, lse = forward(call, self._part(call), q, k, v, None)
        own_out = self._to_tokens([out])[0]
        own_lse = self._to_tokens([lse])[0]
        return own_out, own_lse, (*dense, out, lse)

    def kept(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor) -> tuple[Tensor, ...]:
        """The tensors for the backward pass, from the parts of the ranks."""
        return (*self._to_heads([q, k, v, out]), *self._to_heads([lse]))

    def backward(
        self,
        call: Call,
        kept: tuple[Tensor, ...],
        grad: Tensor | None,
        grad_of_lse: Tensor | None,
        is_needed: bool,
    ) -> tuple[list[Tensor | None], list[Tensor]]:
        """The gradients of q, k and v, and those of the trained parameters."""
        q, k, v, out, lse = kept
        held = layouts.tokens(self._plan.ranges[self._rank])
        if grad is None:
            grad = out.new_zeros((out.shape[0], call.sizes.H, held, out.shape[3]))
        whole = self._to_heads([grad])[0]
        if grad_of_lse is None and call.return_lse:
            # Another rank may have a gradient and send it.
            grad_of_lse = lse.new_zeros((out.shape[0], call.sizes.H, held))
        of_lse = None if grad_of_lse is None else self._to_heads([grad_of_lse])[0]
        sums = Gradients(call)
        found = backward(
            call, self._part(call), (whole, q, k, v, out, lse, of_lse), is_needed, sums
        )
        gradients: list[Tensor | None] = [None] * 3
        if found is not None:
            gradients = list(self._to_tokens(list(found)))
        return gradients, finished_values(call, sums, [True] * self._plan.ranks)


def _row(x: Tensor) -> int:
    """The number of elements of one token of [batch, heads, tokens, ...]."""
    return _product((*x.shape[:2], *x.shape[3:]))


def _product(numbers: tuple[int, ...]) -> int:
    result = 1
    for each in numbers:
        result *= each
    return result
