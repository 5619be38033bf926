# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Messages between ranks: flat tensors whose sizes both ranks know from the plan."""

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
"""The other rank of the plan, and the contiguous tensor to send or to receive into."""


class Pending:
    """Messages that are being sent and received."""

    def __init__(self, works: list[Any], kept: list[Tensor]) -> None:
        self._works = works
        self._kept = kept  # sent tensors must live until they are sent

    def wait(self) -> None:
        """Waits for the messages: on the host, or on a GPU as work of the current stream."""
        try:
            for work in self._works:
                work.wait()
        except RuntimeError as error:
            no_answer(error)
        self._works, self._kept = [], []


def exchange(plan: Plan, sends: Sequence[Message], receives: Sequence[Message]) -> Pending:
    """Starts to send and to receive. Empty messages are left out; both ranks know that.

    The plan's group must be connected (``_agree.connect``), because a rank without messages does
    nothing here.
    """
    operations = []
    kept = []
    for function, messages in ((dist.isend, sends), (dist.irecv, receives)):
        for peer, tensor in messages:
            if tensor.numel() == 0:
                continue
            # As bytes, because a backend may not support the element type.
            flat = tensor.view(-1).view(torch.uint8)
            kept.append(flat)
            operations.append(
                dist.P2POp(function, flat, group=plan.group, group_peer=plan.members[peer])
            )
    if not operations:
        return Pending([], [])
    try:
        return Pending(dist.batch_isend_irecv(operations), kept)
    except RuntimeError as error:
        no_answer(error)


class _Gather(torch.autograd.Function):
    """Joins a tensor that is split over ranks."""

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
            plan,
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
    """See ``Plan.gather``."""
    connect(plan.group, x.device)
    whole: Tensor = _Gather.apply(plan, x, axis)
    return whole


_SMALL = 1 << 16
"""Bytes up to which a tensor is sent whole: one round of messages is then faster than two."""


def sum_over_ranks(plan: Plan, x: Tensor, has: Sequence[bool]) -> Tensor:
    """Sums a tensor over the ranks, in their order, so that the bits are always the same.

    For a large tensor each rank sums one part and sends the sum to the others. So a rank receives
    at most twice the size of the tensor, for any number of ranks.

    Args:
        plan: the plan with the ranks.
        x: this rank's tensor.
        has: which ranks have a tensor; those of other ranks count as zeros.
    """
    rank, ranks = plan._own_rank(), plan.ranks
    others = [other for other in range(ranks) if other != rank]
    flat = x.contiguous().view(-1)
    is_small = flat.numel() * flat.element_size() <= _SMALL
    # Part i is summed by rank i.
    parts = [flat] * ranks if is_small else list(flat.tensor_split(ranks))
    came = {
        other: parts[rank] if other == rank else torch.empty_like(parts[rank])
        for other in range(ranks)
        if has[other]
    }
    exchange(
        plan,
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
        plan,
        [(other, places[rank]) for other in others],
        [(other, places[other]) for other in others],
    ).wait()
    return whole.view(x.shape)
