# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exchanges tokens for heads: a rank with some tokens of all heads gets all tokens of some heads.

See Jacobs and others, "DeepSpeed Ulysses" (arXiv:2309.14509).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tesela.distributed import _layout as layouts
from tesela.distributed._exchange import Message, exchange
from tesela.distributed._layout import Ranges

if TYPE_CHECKING:
    from tesela.distributed._plan import Plan


class HeadExchange:
    """The exchange between some ranks of a plan. Each of them must make the same calls.

    Attributes:
        ranks: the number of ranks that take part.
        number: the number of this rank among them. It gets this part of the heads.
        held: the number of tokens of this rank.
    """

    def __init__(self, plan: Plan, members: Sequence[int], whole: Ranges) -> None:
        """Prepares the exchange.

        Args:
            plan: the plan, which says which tokens each rank has.
            members: the ranks that take part, ascending; the rank of this process is one.
            whole: the positions that they have together, as sorted ranges.
        """
        self.ranks = len(members)
        self.number = list(members).index(plan._own_rank())
        self._plan, self._members = plan, members
        self._tokens = layouts.tokens(whole)
        self._held = [layouts.tokens(plan.ranges[rank]) for rank in members]
        self.held = self._held[self.number]
        self._places = [layouts.places(plan.ranges[rank], whole) for rank in members]

    def to_heads(self, tensors: list[Tensor]) -> list[Tensor]:
        """Tensors [batch, heads, own tokens, ...] become [batch, own heads, all tokens, ...].

        All tokens are in ascending order of position.
        """
        sends, came = [], []
        for other in range(self.ranks):
            parts = [x.chunk(self.ranks, 1)[other] for x in tensors]
            packed = torch.cat([part.reshape(-1) for part in parts])
            sends.append(packed)
            size = sum(_row(x) // self.ranks for x in tensors)
            is_own = other == self.number
            came.append(packed if is_own else packed.new_empty(size * self._held[other]))
        self._exchange(sends, came)
        whole = [
            x.new_empty((x.shape[0], x.shape[1] // self.ranks, self._tokens, *x.shape[3:]))
            for x in tensors
        ]
        for other in range(self.ranks):
            begin = 0
            for x, to in zip(tensors, whole, strict=True):
                shape = (x.shape[0], x.shape[1] // self.ranks, self._held[other], *x.shape[3:])
                part = came[other][begin : begin + prod(shape)].view(shape)
                begin += prod(shape)
                first = 0
                for place in self._places[other]:
                    end = first + place.stop - place.start
                    to[:, :, place] = part[:, :, first:end]
                    first = end
        return whole

    def to_tokens(self, tensors: list[Tensor]) -> list[Tensor]:
        """Tensors [batch, own heads, all tokens, ...] become [batch, heads, own tokens, ...]."""
        sends, came = [], []
        sizes = [_row(x) * self.held for x in tensors]
        for other in range(self.ranks):
            parts = [
                torch.cat([x[:, :, place] for place in self._places[other]], 2).reshape(-1)
                for x in tensors
                if self._places[other]
            ]
            packed = torch.cat(parts) if parts else tensors[0].new_empty(0)
            sends.append(packed)
            came.append(packed if other == self.number else packed.new_empty(sum(sizes)))
        self._exchange(sends, came)
        found = []
        begin = 0
        for x, size in zip(tensors, sizes, strict=True):
            shape = (*x.shape[:2], self.held, *x.shape[3:])
            parts = [flat[begin : begin + size].view(shape) for flat in came]
            found.append(torch.cat(parts, 1))
            begin += size
        return found

    def _exchange(self, sends: list[Tensor], came: list[Tensor]) -> None:
        """Sends a tensor to each other rank, and waits for one of each."""
        others = [other for other in range(self.ranks) if other != self.number]

        def messages(tensors: list[Tensor]) -> list[Message]:
            return [(self._members[other], tensors[other]) for other in others]

        exchange(self._plan, messages(sends), messages(came)).wait()


def _row(x: Tensor) -> int:
    """The number of elements of one token of [batch, heads, tokens, ...]."""
    return prod((*x.shape[:2], *x.shape[3:]))
