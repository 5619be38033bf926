# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schemes that move keys: "gather" sends all that are needed at once, "ring" rank by rank.

Meanwhile kernels run that need none of the keys being sent. The gradients of keys move the other
way. Each rank sums the gradients from its queries (``_key_gradients.py``) and sends the sums to the
keys' owners while its next kernels run. An owner adds them in the order of steps, so the same call
gives the same bits, if the kernels do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tesela._errors import UnsupportedError
from tesela.distributed import _layout as layouts
from tesela.distributed._exchange import Message, Pending, exchange
from tesela.distributed._kernels import Dense, Gradients, Scheme, backward, forward
from tesela.distributed._key_gradients import Part as KeyPart
from tesela.distributed._key_gradients import Sums, Targets
from tesela.distributed._layout import SQUARE
from tesela.distributed._partials import Partials, Rows
from tesela.distributed._positions import Part
from tesela.distributed._steps import Launch, Step
from tesela.torch._launch import new_output

if TYPE_CHECKING:
    from tesela.distributed._attention import Call
    from tesela.distributed._plan import Plan


_DENSE = 5
"""The tensors for the backward pass begin with these five: q, k, v, the result, its logarithms."""


class _Arriving:
    """The keys and values of a step while they are being received."""

    def __init__(
        self, plan: Plan, step: Step, k: Tensor, v: Tensor, came: Sequence[Tensor] | None
    ) -> None:
        """Starts to receive, unless the keys are there already.

        Args:
            plan: the plan.
            step: the step whose keys are needed.
            k: this rank's own keys.
            v: this rank's own values.
            came: the messages of the other ranks, if they came before; None: they are sent now.
        """
        self._step, self._own = step, (k, v)
        self._pending: Pending | None = None
        if came is None:
            sends = [(rank, _packed(k, v, places)) for rank, places in step.sends]
            numbers = _numbers(k, v)
            came = [k.new_empty(layouts.tokens(ranges) * numbers) for _, ranges in step.receives]
            arriving = [(rank, flat) for (rank, _), flat in zip(step.receives, came, strict=True)]
            self._pending = exchange(plan, sends, arriving)
        self.came = tuple(came)
        others = zip(step.receives, came, strict=True)
        self._of_rank = {rank: _unpacked(flat, k, v) for (rank, _), flat in others}
        self._joined: list[Tensor] = []
        if len(step.order) > 1:
            # This rank's own keys are copied while the other keys arrive.
            self._joined = [_with_length(x, step.keys) for x in self._own]
            self._copy(of_own=True)

    def _copy(self, of_own: bool) -> None:
        """Copies the own keys, or those of other ranks, into the joined tensors."""
        begin = 0
        for rank, place in self._step.order:
            end = begin + place.stop - place.start
            if of_own == (rank not in self._of_rank):
                for to, source in zip(
                    self._joined, self._of_rank.get(rank, self._own), strict=True
                ):
                    to[:, :, begin:end] = source[:, :, place]
            begin = end

    def wait(self) -> tuple[Tensor, Tensor]:
        """Waits. Gives the step's keys and values, in ascending order of position."""
        if self._pending is not None:
            self._pending.wait()
        if self._joined:
            self._copy(of_own=False)
            return self._joined[0], self._joined[1]
        k, v = self._own
        for rank, place in self._step.order:
            k, v = (x[:, :, place] for x in self._of_rank.get(rank, self._own))
        return (k, v) if self._step.order else (k[:, :, :0], v[:, :, :0])


class _Returning:
    """The gradients of a step's keys while they are sent to the keys' owners."""

    def __init__(
        self, plan: Plan, step: Step, sums: dict[int, tuple[Tensor, Sums]], k: Tensor, v: Tensor
    ) -> None:
        self._step, self._like = step, (k, v)
        rank = plan._own_rank()
        sends: list[Message] = []
        for owner, (flat, of_owner) in sums.items():
            of_owner.finish()
            sends.append((owner, flat))
        self._came: list[Message] = []
        for taker, places in step.sends:
            count = sum(place.stop - place.start for place in places)
            dtype = plan.sum_type(taker, rank, k.dtype)
            self._came.append((taker, k.new_empty(count * _numbers(k, v), dtype=dtype)))
        self._pending = exchange(plan, sends, self._came)

    def add_to(self, of_own: Sums) -> None:
        """Waits. Adds the received gradients to the own keys' sums, in the order of ranks."""
        self._pending.wait()
        for (_, places), (_, flat) in zip(self._step.sends, self._came, strict=True):
            begin = 0
            unpacked = _unpacked(flat, *self._like)
            for place in places:
                end = begin + place.stop - place.start
                of_own.add(place, *(x[:, :, begin:end] for x in unpacked))
                begin = end


def _with_length(like: Tensor, length: int) -> Tensor:
    """A new tensor ``[batch, heads, length, head dimension]``."""
    return like.new_empty((*like.shape[:2], length, like.shape[3]))


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


class ByKeys(Scheme):
    """The passes of one rank, step by step."""

    def __init__(self, plan: Plan, scheme: str, share: tuple[int, int] = (0, 1)) -> None:
        """Prepares the passes.

        Args:
            plan: the plan.
            scheme: "gather" or "ring".
            share: the number of this rank's part of the heads, and the number of parts.
        """
        self._plan = plan
        self._share = share
        self.has = [len(each) > 0 for each in plan.ranges]
        self._steps = plan.steps(scheme)
        self._keeps = scheme == "gather" and plan.keeps_received

    def _arriving(
        self, steps: Sequence[Step], k: Tensor, v: Tensor, came: Sequence[Tensor] | None = None
    ) -> Iterator[tuple[Step, Tensor, Tensor, _Arriving]]:
        """Gives each step with its keys and values. The next step's are received meanwhile.

        Args:
            steps: the steps.
            k: this rank's own keys.
            v: this rank's own values.
            came: the messages of the other ranks, if they were kept; None: they are sent now.
        """

        def begin(number: int) -> _Arriving:
            step = steps[number]
            there = came if step.receives or came is None else ()
            return _Arriving(self._plan, step, k, v, there)

        coming = begin(0)
        for number, step in enumerate(steps):
            now = coming
            keys, values = now.wait()
            if number + 1 < len(steps):
                coming = begin(number + 1)
            yield step, keys, values, now

    def forward(
        self, call: Call, q: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """The result, its logarithms, and the tensors for the backward pass."""
        q, k, v = (_readable(each) for each in (q, k, v))
        out = new_output(q, v.shape[3])
        lse = q.new_empty(q.shape[:3], dtype=torch.float32)
        partials: dict[int, tuple[int, Partials]] = {}  # with the first row of the group
        came: list[Tensor] = []
        for step, keys, values, arrived in self._arriving(self._steps, k, v):
            came += arrived.came
            for each in step.launches:
                rows = (slice(None), slice(None), each.queries)
                is_first = each.group not in partials
                part = self._part(call, each)
                of_part, lse_of_part = forward(
                    *(call, part, q[rows], keys[:, :, each.keys], values[:, :, each.keys]),
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
        # The empty tensor marks that keys are kept, even if none came.
        kept = (k.new_empty(0), *came) if self._keeps else ()
        return out, lse, (q, k, v, out, lse, *kept)

    def check_dropout(self) -> None:
        """Raises if a kernel cannot drop the same pairs as one process drops."""
        for step in self._steps:
            for each in step.launches:
                for name, first in (("queries", each.first_q), ("keys", each.first_k)):
                    if first % SQUARE:
                        raise UnsupportedError(
                            f"there is dropout, and a range of {name} begins at {first}: pairs are "
                            f"dropped in squares of {SQUARE} x {SQUARE} positions; make the plan "
                            f"with ranges, or with cells (cell=), that are multiples of {SQUARE}"
                        )

    def kept(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor) -> tuple[Tensor, ...]:
        """The tensors for the backward pass, from what each rank has.

        They have no keys of other ranks, so these are sent again in the backward pass.
        """
        return (*(_readable(each) for each in (q, k, v)), out, lse)

    def gradients(
        self,
        call: Call,
        kept: tuple[Tensor, ...],
        grad: Tensor | None,
        grad_of_lse: Tensor | None,
        is_needed: bool,
        sums: Gradients,
    ) -> list[Tensor | None]:
        """See ``Scheme.gradients``."""
        q, k, v, out, lse = kept[:_DENSE]
        came = kept[_DENSE + 1 :] if len(kept) > _DENSE else None
        if grad is None:
            grad = torch.zeros_like(out)
        dq = torch.empty_like(q)
        sums_of_q: dict[int, tuple[int, Rows]] = {}
        of_own = Sums(torch.empty_like(k), torch.empty_like(v))
        returning: _Returning | None = None
        # If keys were kept, the step with other ranks' keys is first. Then the gradients of these
        # keys are sent while the other step's kernels run.
        steps = self._steps if came is None else self._steps[::-1]
        for step, keys, values, _ in self._arriving(steps, k, v, came):
            messages = self._messages(step, k, v)
            targets = Targets(_key_parts(step, messages, of_own))
            for each in step.launches:
                rows = (slice(None), slice(None), each.queries)
                columns = (slice(None), slice(None), each.keys)
                dense: Dense = (
                    *(grad[rows], q[rows], keys[columns], values[columns], out[rows], lse[rows]),
                    None if grad_of_lse is None else grad_of_lse[rows],
                )
                is_first = each.group not in sums_of_q
                places = targets.place(each.keys, k.dtype) if is_needed else None
                into = (dq[rows] if is_first else None, *(places or (None, None)))
                part = self._part(call, each)
                found = backward(call, part, dense, is_needed, sums, into)
                if found is None:
                    continue
                if is_first:
                    sums_of_q[each.group] = each.queries.start, Rows(dq[rows])
                else:
                    begin, of_group = sums_of_q[each.group]
                    first, end = each.queries.start - begin, each.queries.stop - begin
                    of_group.over(first, end).add_(found[0])
                if places is None:
                    targets.add(each.keys, *found[1:])
                else:
                    targets.settle()
            if is_needed:
                if returning is not None:
                    returning.add_to(of_own)
                returning = _Returning(self._plan, step, messages, k, v)
        if returning is not None:
            returning.add_to(of_own)
        if not is_needed:
            return [None] * 3
        for _, of_group in sums_of_q.values():
            of_group.finish()
        return [dq, *of_own.finish()]

    def _part(self, call: Call, each: Launch) -> Part:
        heads = call.first_heads(self._share)
        return Part(each.first_q, each.first_k, *heads, each.counts_sink)

    def _messages(self, step: Step, k: Tensor, v: Tensor) -> dict[int, tuple[Tensor, Sums]]:
        """For each owner of a step's keys: its message, and the sums of gradients in it."""
        rank = self._plan._own_rank()
        found = {}
        for owner, ranges in step.receives:
            dtype = self._plan.sum_type(rank, owner, k.dtype)
            flat = k.new_empty(layouts.tokens(ranges) * _numbers(k, v), dtype=dtype)
            found[owner] = flat, Sums(*_unpacked(flat, k, v))
        return found


def _key_parts(step: Step, messages: dict[int, tuple[Tensor, Sums]], of_own: Sums) -> list[KeyPart]:
    """For each part of a step's keys: the sums that get its gradients, and the places in them."""
    parts: list[KeyPart] = []
    begin = 0
    for owner, place in step.order:
        end = begin + place.stop - place.start
        parts.append(
            (slice(begin, end), messages[owner][1] if owner in messages else of_own, place)
        )
        begin = end
    return parts


def _readable(x: Tensor) -> Tensor:
    """The tensor, or a copy if kernels cannot read its parts."""
    return x if x.stride(3) == 1 or x.numel() == 0 else x.contiguous()
