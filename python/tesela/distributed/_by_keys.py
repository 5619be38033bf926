# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schemes that move keys: "gather", all before the kernels, and "ring", rank by rank meanwhile.

The gradients of keys move the other way. Each rank sums the gradients from its queries
(``_key_gradients.py``) and sends them to the keys' owners. These add them in the order of steps, so
the same call gives the same bits, if the kernels do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tesela._errors import UnsupportedError
from tesela.distributed import _layout as layouts
from tesela.distributed._exchange import Message, Pending, exchange
from tesela.distributed._kernels import Dense, Gradients, backward, finished_values, forward
from tesela.distributed._key_gradients import Sums, sum_type
from tesela.distributed._partials import Partials, Rows
from tesela.distributed._positions import Part
from tesela.distributed._steps import Launch, Step
from tesela.torch._launch import new_output

if TYPE_CHECKING:
    from tesela.distributed._attention import Call
    from tesela.distributed._plan import Plan


_SQUARE = 16
"""Side length of the squares of positions in which dropout's random numbers are made."""


class _Arriving:
    """The keys and values of a step while they are being received."""

    def __init__(self, plan: Plan, step: Step, k: Tensor, v: Tensor) -> None:
        self._step, self._k, self._v = step, k, v
        sends: list[Message] = []
        for rank, places in step.sends:
            sends.append((rank, _packed(k, v, places)))
        self._came: dict[int, Tensor] = {}
        for rank, ranges in step.receives:
            self._came[rank] = k.new_empty(layouts.tokens(ranges) * _numbers(k, v))
        self._pending: Pending = exchange(plan.group, sends, list(self._came.items()))

    def wait(self) -> tuple[Tensor, Tensor]:
        """Waits. Gives the step's keys and values, in ascending order of position."""
        self._pending.wait()
        came = {rank: _unpacked(flat, self._k, self._v) for rank, flat in self._came.items()}
        joined = []
        for number, own in enumerate((self._k, self._v)):
            parts = []
            for rank, place in self._step.order:
                source = came[rank][number] if rank in came else own
                parts.append(source[:, :, place])
            joined.append(_cat(parts, own))
        return joined[0], joined[1]


def _numbers(k: Tensor, v: Tensor) -> int:
    """The number of elements of one token's keys and values."""
    return k.shape[0] * k.shape[1] * (k.shape[3] + v.shape[3])


def _packed(k: Tensor, v: Tensor, places: Sequence[slice]) -> Tensor:
    """The keys and values at these places, copied once into one tensor."""
    count = sum(place.stop - place.start for place in places)
    flat = k.new_empty(count * _numbers(k, v))
    for x, to in zip((k, v), _unpacked(flat, k, v), strict=True):
        begin = 0
        for place in places:
            end = begin + place.stop - place.start
            to[:, :, begin:end] = x[:, :, place]
            begin = end
    return flat


def _unpacked(flat: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Splits a tensor of ``_packed`` into tensors with the axes of k and v, and another length."""
    count = flat.numel() // max(_numbers(k, v), 1)
    shapes = [(*x.shape[:2], count, x.shape[3]) for x in (k, v)]
    cut = k.shape[0] * k.shape[1] * count * k.shape[3]
    return flat[:cut].view(shapes[0]), flat[cut:].view(shapes[1])


def _cat(parts: list[Tensor], like: Tensor) -> Tensor:
    if not parts:
        return like[:, :, :0]
    return parts[0] if len(parts) == 1 else torch.cat(parts, 2)


class ByKeys:
    """The passes of one rank, step by step."""

    def __init__(self, plan: Plan, scheme: str) -> None:
        self._plan = plan
        self._steps = plan.steps(scheme)

    def _arriving(self, k: Tensor, v: Tensor) -> Any:
        """Each step with its keys and values. The next step's are received meanwhile."""
        steps = self._steps
        coming = _Arriving(self._plan, steps[0], k, v)
        for number, step in enumerate(steps):
            keys, values = coming.wait()
            if number + 1 < len(steps):
                coming = _Arriving(self._plan, steps[number + 1], k, v)
            yield step, keys, values

    def forward(
        self, call: Call, q: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """The result, its logarithms, and the tensors for the backward pass."""
        q, k, v = (_readable(each) for each in (q, k, v))
        out = new_output(q, v.shape[3])
        lse = q.new_empty(q.shape[:3], dtype=torch.float32)
        partials: dict[int, tuple[int, Partials]] = {}  # with the first row of the group
        for step, keys, values in self._arriving(k, v):
            for each in step.launches:
                rows = (slice(None), slice(None), each.queries)
                is_first = each.group not in partials
                of_part, lse_of_part = forward(
                    *(call, _part(each), q[rows], keys[:, :, each.keys], values[:, :, each.keys]),
                    out[rows] if is_first else None,
                )
                if is_first:
                    lse[rows] = lse_of_part
                    partials[each.group] = each.queries.start, Partials(out[rows], lse[rows])
                    continue
                begin, joined = partials[each.group]
                joined.add(each.queries.start - begin, of_part, lse_of_part)
        for _, joined in partials.values():
            joined.finish()
        return out, lse, (q, k, v, out, lse)

    def check_dropout(self) -> None:
        """Raises if a kernel cannot drop the same pairs as one process drops."""
        for step in self._steps:
            for each in step.launches:
                for name, first in (("queries", each.first_q), ("keys", each.first_k)):
                    if first % _SQUARE:
                        raise UnsupportedError(
                            f"there is dropout, and a range of {name} begins at {first}: pairs are "
                            f"dropped in squares of {_SQUARE} x {_SQUARE} positions; make the plan "
                            f"with ranges, or with cells (cell=), that are multiples of {_SQUARE}"
                        )

    def kept(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor) -> tuple[Tensor, ...]:
        """The tensors for the backward pass, from what each rank has."""
        return (*(_readable(each) for each in (q, k, v)), out, lse)

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
        if grad is None:
            grad = torch.zeros_like(out)
        sums = Gradients(call)
        own_type = sum_type(self._plan.ranges[self._plan._own_rank()], k.dtype)
        dq = torch.empty_like(q)
        sums_of_q: dict[int, tuple[int, Rows]] = {}
        # If at most one other rank adds to the sums of our own queries, float32 is not needed.
        adding = len({taker for step in self._steps for taker, _ in step.sends})
        of_own = Sums(k, v, own_type if adding <= 1 else torch.float32)
        for step, keys, values in self._arriving(k, v):
            sums_of_step = Sums(keys, values, own_type)
            for each in step.launches:
                rows = (slice(None), slice(None), each.queries)
                columns = (slice(None), slice(None), each.keys)
                dense: Dense = (
                    *(grad[rows], q[rows], keys[columns], values[columns], out[rows], lse[rows]),
                    None if grad_of_lse is None else grad_of_lse[rows],
                )
                found = backward(call, _part(each), dense, is_needed, sums)
                if found is None:
                    continue
                if each.group not in sums_of_q:
                    dq[rows] = found[0]
                    sums_of_q[each.group] = each.queries.start, Rows(dq[rows])
                else:
                    begin, of_group = sums_of_q[each.group]
                    first, end = each.queries.start - begin, each.queries.stop - begin
                    of_group.over(first, end).add_(found[0])
                sums_of_step.add(each.keys, *found[1:])
            if is_needed:
                self._return(step, sums_of_step.found(), of_own, k.dtype)
        of_parameters = finished_values(call, sums, [len(each) > 0 for each in self._plan.ranges])
        if not is_needed:
            return [None] * 3, of_parameters
        for _, of_group in sums_of_q.values():
            of_group.finish()
        return [dq, *(x.to(k.dtype) for x in of_own.found())], of_parameters

    def _return(
        self, step: Step, found: tuple[Tensor, Tensor], of_own: Sums, dtype: torch.dtype
    ) -> None:
        """Sends the gradients of a step's keys to the owners, and adds received ones to our own."""
        by_rank: dict[int, list[slice]] = {}
        own: list[tuple[slice, slice]] = []
        rank = self._plan._own_rank()
        begin = 0
        for owner, place in step.order:
            part = slice(begin, begin + place.stop - place.start)
            if owner == rank:
                own.append((place, part))
            else:
                by_rank.setdefault(owner, []).append(part)
            begin = part.stop
        sends = [(owner, _packed(*found, parts)) for owner, parts in by_rank.items()]
        came: list[Message] = []
        for taker, places in step.sends:
            count = sum(place.stop - place.start for place in places)
            came_type = sum_type(self._plan.ranges[taker], dtype)
            came.append((taker, found[0].new_empty(count * _numbers(*found), dtype=came_type)))
        pending = exchange(self._plan.group, sends, came)
        for place, part in own:
            of_own.add(place, *(x[:, :, part] for x in found))
        pending.wait()
        for (_, places), (_, flat) in zip(step.sends, came, strict=True):
            begin = 0
            unpacked = _unpacked(flat, *found)
            for place in places:
                end = begin + place.stop - place.start
                of_own.add(place, *(x[:, :, begin:end] for x in unpacked))
                begin = end


def _part(each: Launch) -> Part:
    return Part(each.first_q, each.first_k, counts_sink=each.counts_sink)


def _readable(x: Tensor) -> Tensor:
    """The tensor, or a copy if kernels cannot read its parts."""
    return x if x.stride(3) == 1 or x.numel() == 0 else x.contiguous()
