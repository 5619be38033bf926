# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layouts: which rank holds which tokens, as ranges of the sequence.

The automatic layouts assign whole cells (``_cells.py``): they give the owner of each cell.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final

from tesela._errors import InvalidArgumentError

Range = tuple[int, int]
"""The first position, and the position after the last."""

Ranges = tuple[Range, ...]
"""Sorted ranges that are not empty and do not touch."""

SQUARE: Final = 16
"""Side length of the squares of positions in which dropout's random numbers are made. Under
dropout, the ranges of kernels begin at multiples of it."""

LAYOUTS: Final = ("search", "contiguous", "zigzag", "striped", "near", "balanced", "work")


# These layouts do not depend on the work. They are kept, because each new batch gets a plan with
# the same numbers.


@lru_cache(maxsize=32)
def contiguous(cells: int, ranks: int) -> tuple[int, ...]:
    """One run of cells for each rank."""
    return tuple(cell * ranks // cells for cell in range(cells))


@lru_cache(maxsize=32)
def zigzag(cells: int, ranks: int) -> tuple[int, ...]:
    """Two runs for each rank, at equal distances from the two ends: balanced for a causal mask."""
    chunks = [cell * 2 * ranks // cells for cell in range(cells)]
    return tuple(min(chunk, 2 * ranks - 1 - chunk) for chunk in chunks)


@lru_cache(maxsize=32)
def striped(cells: int, ranks: int) -> tuple[int, ...]:
    """Cells in turn to each rank."""
    return tuple(cell % ranks for cell in range(cells))


def by_work(work: Sequence[int], ranks: int) -> tuple[int, ...]:
    """One run of cells for each rank; the runs have equal work, not equal numbers of tokens."""
    total, done = sum(work), 0
    owners = []
    for each in work:
        owners.append(min((2 * done + each) * ranks // (2 * total), ranks - 1) if total else 0)
        done += each
    return tuple(owners)


def balanced(work: Sequence[int], ranks: int) -> tuple[int, ...]:
    """The same number of cells for each rank, with similar work.

    Cells are assigned in the order of their work, the largest first, each to the rank with the
    least work that still has room ("longest processing time first"; Graham, "Bounds on
    multiprocessing timing anomalies", 1969).
    """
    cells = len(work)
    room = [(cells + ranks - 1 - rank) // ranks for rank in range(ranks)]
    owners = [0] * cells
    heap = [(0, rank) for rank in range(ranks) if room[rank]]
    for cell in sorted(range(cells), key=work.__getitem__, reverse=True):
        load, rank = heapq.heappop(heap)
        owners[cell] = rank
        room[rank] -= 1
        if room[rank]:
            heapq.heappush(heap, (load + work[cell], rank))
    return tuple(owners)


def ranges_of(owners: Sequence[int], cell: int, length: int, ranks: int) -> tuple[Ranges, ...]:
    """The ranges of each rank. Neighbouring cells are joined."""
    found: list[list[Range]] = [[] for _ in range(ranks)]
    begin = 0
    for owner, run in groupby(owners):
        end = min(begin + cell * len(list(run)), length)
        if end > begin:
            found[owner].append((begin, end))
        begin = end
    return tuple(map(tuple, found))


def checked(layout: Sequence[Sequence[Range]], length: int, ranks: int) -> tuple[Ranges, ...]:
    """Ranges that the caller gave, sorted and joined.

    Raises:
        InvalidArgumentError: a token belongs to no rank, or to two.
    """
    if len(layout) != ranks:
        raise InvalidArgumentError(
            f"the layout has the ranges of {len(layout)} ranks, the group has {ranks}: pass a list "
            "of (begin, end) for each rank, empty for one without tokens"
        )
    found: list[Ranges] = []
    ends: list[tuple[int, int, int]] = []
    for rank, given in enumerate(layout):
        joined: list[Range] = []
        for begin, end in sorted((int(begin), int(end)) for begin, end in given):
            if not 0 <= begin <= end <= length:
                raise InvalidArgumentError(
                    f"rank {rank} is given the range ({begin}, {end}), and the sequence has "
                    f"{length} tokens: a range is (begin, end) with 0 <= begin <= end <= {length}"
                )
            if begin == end:
                continue
            ends.append((begin, end, rank))
            if joined and joined[-1][1] == begin:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((begin, end))
        found.append(tuple(joined))
    reached = 0
    for begin, end, rank in sorted(ends):
        if begin != reached:
            what = "no rank has" if begin > reached else "two ranks have"
            raise InvalidArgumentError(
                f"{what} the tokens {min(begin, reached)} to {max(begin, reached) - 1} (next to "
                f"rank {rank}'s range ({begin}, {end})): each token belongs to one rank"
            )
        reached = end
    if reached != length:
        raise InvalidArgumentError(
            f"no rank has the tokens {reached} to {length - 1}: each token belongs to one rank"
        )
    return tuple(found)


def overlap(first: Ranges, second: Ranges) -> Ranges:
    """The positions that are in both."""
    found: list[Range] = []
    i = j = 0
    while i < len(first) and j < len(second):
        begin, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if begin < end:
            found.append((begin, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def joined(ranges: Sequence[Range]) -> Ranges:
    """Sorted ranges without overlap; ranges that touch are joined."""
    found: list[Range] = []
    for begin, end in sorted(ranges):
        if found and found[-1][1] == begin:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return tuple(found)


def tokens(ranges: Ranges) -> int:
    """The number of positions."""
    return sum(end - begin for begin, end in ranges)


def places(inner: Ranges, outer: Ranges) -> list[slice]:
    """Where the positions of ``inner`` are in a tensor with the positions of ``outer`` in order.

    ``inner`` is a part of ``outer``. Each range of ``inner`` lies within one range of ``outer``.
    """
    found = []
    place = 0
    number = 0
    for begin, end in inner:
        while outer[number][1] <= begin:
            place += outer[number][1] - outer[number][0]
            number += 1
        first = place + begin - outer[number][0]
        found.append(slice(first, first + end - begin))
    return found
