# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Divides a rank's queries: some wait for keys of other ranks, the others are computed first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tesela.distributed._layout import SQUARE, Range

if TYPE_CHECKING:
    from tesela.distributed._plan import Plan


def parts_of(plan: Plan, rank: int) -> list[tuple[Range, bool]]:
    """A rank's ranges or their parts, each with True if it waits for keys of other ranks.

    A range is divided if the predicted gain is more than the additional launches cost. There is a
    gain because the part that does not wait is computed while keys arrive. The keys of this part
    also need no copy beside those of other ranks.
    """
    waits = _waits(plan, rank)
    arriving = _seconds_of_arriving(plan, rank)
    whole: list[tuple[Range, bool]] = []
    divided: list[tuple[float, int, list[tuple[Range, bool]]]] = []
    for number, (begin, end) in enumerate(plan.ranges[rank]):
        first, last = begin // plan.cell, (end - 1) // plan.cell
        cells = waits[first : last + 1]
        whole.append(((begin, end), any(cells)))
        if not any(cells):
            arriving -= _seconds_of(plan, (begin, end))
        elif not all(cells) and plan.cell % SQUARE == 0:
            low, high = _longest(cells)
            free = (max(begin, (first + low) * plan.cell), min(end, (first + high) * plan.cell))
            parts = [((begin, free[0]), True), (free, False), ((free[1], end), True)]
            parts = [(part, is_late) for part, is_late in parts if part[0] < part[1]]
            divided.append((_seconds_of(plan, free), number, parts))
    found = {number: [each] for number, each in enumerate(whole)}
    for seconds, number, parts in sorted(divided, reverse=True):
        (free,) = (part for part, is_late in parts if not is_late)
        gain = min(max(arriving, 0.0), seconds) + _seconds_of_copy(plan, free)
        if gain > (len(parts) - 1) * plan.machine.launch:
            found[number] = parts
            arriving -= seconds
    return [part for number in sorted(found) for part in found[number]]


def _longest(waits: Sequence[bool]) -> tuple[int, int]:
    """The begin and the end of the longest run of False."""
    best, begin = (0, 0), 0
    for at, each in enumerate((*waits, True)):
        if each:
            best = max(best, (begin, at), key=lambda run: run[1] - run[0])
            begin = at + 1
    return best


def _waits(plan: Plan, rank: int) -> list[bool]:
    """For each cell: whether its queries may keep keys that the rank does not hold."""
    whole = plan.needs.whole_cells(plan.ranges[rank])
    return plan.needs.which(~whole)


def _seconds_of_arriving(plan: Plan, rank: int) -> float:
    """The predicted time in which the rank receives its keys."""
    received = plan.received[rank]
    messages = int((received > 0).sum())
    seconds = float(received.sum()) * plan.shape.key_bytes / plan.machine.bandwidth(plan.ranks)
    return seconds + messages * plan.machine.latency


def _seconds_of(plan: Plan, queries: Range) -> float:
    """The predicted time of the kernels of these queries."""
    return plan.pairs_of(queries) * plan.shape.pair_flops / plan.machine.flops


def _seconds_of_copy(plan: Plan, keys: Range) -> float:
    """The predicted time in which keys and values are copied on the GPU: read and written."""
    moved = 2 * (keys[1] - keys[0]) * plan.shape.key_bytes
    return moved / plan.machine.memory_bandwidth
