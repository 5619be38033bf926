# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Messages between ranks: each is one flat tensor whose size both sides know from the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from tesela.distributed import _layout as layouts
from tesela.distributed._agree import connect, no_answer

if TYPE_CHECKING:
    from tesela.distributed._plan import Plan

Message = tuple[int, Tensor]
"""The other rank of the group, and what is sent, or where it arrives: contiguous."""


class Pending:
    """Messages under way."""

    def __init__(self, works: list[Any], kept: list[Tensor]) -> None:
        self._works = works
        self._kept = kept  # what is sent must live until it is

    def wait(self) -> None:
        """On the host until they have arrived; on a GPU the current stream waits, not the host."""
        try:
            for work in self._works:
                work.wait()
        except RuntimeError as error:
            no_answer(error)
        self._works, self._kept = [], []


def exchange(group: Any, sends: Sequence[Message], receives: Sequence[Message]) -> Pending:
    """Begins to send and receive. Empty messages are left out; both sides know that.

    The group is connected (``_agree.connect``): a rank without messages does nothing here.
    """
    operations = []
    kept = []
    for function, messages in ((dist.isend, sends), (dist.irecv, receives)):
        for peer, tensor in messages:
            if tensor.numel() == 0:
                continue
            # A backend need not know the element type.
            flat = tensor.view(-1).view(torch.uint8)
            kept.append(flat)
            operations.append(dist.P2POp(function, flat, group=group, group_peer=peer))
    if not operations:
        return Pending([], [])
    try:
        return Pending(dist.batch_isend_irecv(operations), kept)
    except RuntimeError as error:
        no_answer(error)


class _Gather(torch.autograd.Function):
    """The whole of a tensor that is split over ranks."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, x: Tensor, axis: int) -> Tensor:
        ctx.plan, ctx.axis = plan, axis
        rank = plan._own_rank()
        x = x.contiguous()
        parts = []
        for other, ranges in enumerate(plan.ranges):
            shape = list(x.shape)
            shape[axis] = layouts.tokens(ranges)
            parts.append(x if other == rank else x.new_empty(shape))
        others = [other for other in range(plan.ranks) if other != rank]
        exchange(
            plan.group,
            [(other, x) for other in others],
            [(other, parts[other]) for other in others],
        ).wait()
        shape = list(x.shape)
        shape[axis] = plan.length
        whole = x.new_empty(shape)
        for part, ranges in zip(parts, plan.ranges, strict=True):
            place = 0
            for begin, end in ranges:
                whole.narrow(axis, begin, end - begin).copy_(part.narrow(axis, place, end - begin))
                place += end - begin
        return whole

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, ctx.plan.shard(gradient, ctx.axis), None


def gather(plan: Plan, x: Tensor, axis: int) -> Tensor:
    """As ``Plan.gather`` says."""
    connect(plan.group, x.device)
    whole: Tensor = _Gather.apply(plan, x, axis)
    return whole


_SMALL = 1 << 16
"""Bytes of what is sent whole: one round of messages is faster than two."""


def sum_over_ranks(plan: Plan, x: Tensor, has: Sequence[bool]) -> Tensor:
    """The sum of a tensor of ranks, on each of them. The same bits each time: in their order.

    Of a large one each rank sums a part, and sends that to the others; so a rank receives twice
    the tensor at most, however many ranks there are.

    Args:
        plan: whose ranks.
        x: this rank's.
        has: which ranks have one; others' are zeros.
    """
    rank, ranks = plan._own_rank(), plan.ranks
    others = [other for other in range(ranks) if other != rank]
    flat = x.contiguous().view(-1)
    is_small = flat.numel() * flat.element_size() <= _SMALL
    # By rank that sums it.
    parts = [flat] * ranks if is_small else list(flat.tensor_split(ranks))
    came = {
        other: parts[rank] if other == rank else torch.empty_like(parts[rank])
        for other in range(ranks)
        if has[other]
    }
    exchange(
        plan.group,
        [(other, parts[other]) for other in others if has[rank]],
        [(other, came[other]) for other in others if has[other]],
    ).wait()
    first, *rest = [*came.values()] or [torch.zeros_like(parts[rank])]
    total = first.clone()
    for each in rest:
        total += each
    if is_small:
        return total.view(x.shape)
    whole = torch.empty_like(flat)
    places = whole.tensor_split(ranks)
    places[rank].copy_(total)
    exchange(
        plan.group,
        [(other, places[rank]) for other in others],
        [(other, places[other]) for other in others],
    ).wait()
    return whole.view(x.shape)
