# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The steps of one rank: in which step keys arrive, and which kernels run in it.

A step has the keys of some ranks in one tensor, in ascending order of position. "gather" has up to
two steps. The first is for queries that need only the rank's own keys. Its kernels read these keys
in place and run while other ranks' keys arrive. The second step has all keys that the other queries
need. In "ring" each rank's keys are a step: first the rank's own keys, then those of the previous
rank, and so on. A step only has keys that some query needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tesela.distributed import _layout as layouts
from tesela.distributed._layout import Range, Ranges
from tesela.distributed._waiting import parts_of

if TYPE_CHECKING:
    from tesela.distributed._plan import Plan


class Launch(NamedTuple):
    """A kernel over one range of queries and one of keys.

    Attributes:
        group: the number of the group of queries.
        queries: where they are in the rank's tensors. The first kernel of a group has all of its
            queries; the others only have queries that may keep some of the keys.
        keys: where the keys are in the step's tensor.
        first_q: the position of the first query.
        first_k: the position of the first key.
        counts_sink: whether the kernel adds the rows' sinks.
    """

    group: int
    queries: slice
    keys: slice
    first_q: int
    first_k: int
    counts_sink: bool


class Step(NamedTuple):
    """Keys that are available at the same time, and the kernels over them.

    Attributes:
        sends: (rank, places of those of our keys that it needs) for each rank that gets some.
        receives: (rank, positions) for each rank from which we get some.
        order: the step's parts in ascending order of position: (rank, the place of the part in what
            that rank sent, or in our own tensors).
        keys: the number of keys.
        launches: the kernels, in their order.
    """

    sends: tuple[tuple[int, tuple[slice, ...]], ...]
    receives: tuple[tuple[int, Ranges], ...]
    order: tuple[tuple[int, slice], ...]
    keys: int
    launches: tuple[Launch, ...]


class _Group(NamedTuple):
    """A range of queries, or a part of one, that has its own kernels.

    Attributes:
        number: counts the rank's groups from 0.
        queries: the positions of the queries.
        row: the place of the first query in the rank's tensors.
        waits: whether some of the queries may need keys of other ranks.
    """

    number: int
    queries: Range
    row: int
    waits: bool


def steps_of(plan: Plan, scheme: str) -> tuple[Step, ...]:
    """The steps of the plan's own rank. All ranks have the same number of steps with messages."""
    rank, ranks = plan._own_rank(), plan.ranks
    own_ranges = plan.ranges[rank]
    if scheme == "gather":
        parts = parts_of(plan, rank)
        places = layouts.places(tuple(part for part, _ in parts), own_ranges)
        groups = [
            _Group(number, part, place.start, waits)
            for number, ((part, waits), place) in enumerate(zip(parts, places, strict=True))
        ]
        early = [group for group in groups if not group.waits]
        late = [group for group in groups if group.waits]
        keys = plan.needs.ranges(plan.needs.of_all(group.queries for group in late))
        every = range(ranks)
        found = [_own_step(plan, rank, early)] if early else []
        # Queries that wait need some key, and the others have their kernels in the first step. So
        # no group needs a kernel without keys here.
        last = _step(plan, rank, (every, every), keys, late, set(), False)
        return (*found, last) if last.launches or last.sends or not found else tuple(found)
    row, groups = 0, []
    for number, queries in enumerate(own_ranges):
        groups.append(_Group(number, queries, row, True))
        row += queries[1] - queries[0]
    begun: set[int] = set()
    return tuple(
        _step(
            plan,
            rank,
            ([(rank - t) % ranks], [(rank + t) % ranks]),
            plan.needed[rank],
            groups,
            begun,
            t == 0,
        )
        for t in range(ranks)
    )


def _own_step(plan: Plan, rank: int, groups: Sequence[_Group]) -> Step:
    """The step of queries that need only the rank's own keys. These keys are not copied."""
    own = plan.ranges[rank]
    held = layouts.tokens(own)
    launches = _launches(plan, groups, own, set(), True)
    return Step((), (), ((rank, slice(0, held)),), held, launches)


def _step(
    plan: Plan,
    rank: int,
    others: tuple[Sequence[int], Sequence[int]],
    keys: Ranges,
    groups: Sequence[_Group],
    begun: set[int],
    is_first: bool,
) -> Step:
    """A step with messages.

    Args:
        plan: the plan.
        rank: the rank of this process.
        others: the ranks whose keys are in the step, and the ranks that get ours.
        keys: the positions of all keys that the rank needs.
        groups: the groups of queries that are computed with the step's keys.
        begun: the numbers of the groups that have had a kernel. The step adds its own.
        is_first: whether a group without keys also gets a kernel in this step.
    """
    own_ranges = plan.ranges[rank]
    owners, takers = others
    sends = []
    for taker in takers:
        wanted = layouts.overlap(plan.needed[taker], own_ranges)
        if taker != rank and wanted:
            sends.append((taker, tuple(layouts.places(wanted, own_ranges))))
    parts: list[tuple[int, int, slice, int]] = []
    receives = []
    for owner in owners:
        wanted = layouts.overlap(keys, plan.ranges[owner])
        if owner == rank and is_first and not wanted and groups:
            # Rows that keep nothing also need a kernel, for their sinks and their zeros.
            wanted = ((own_ranges[0][0], own_ranges[0][0] + 1),)
        if not wanted:
            continue
        lies = layouts.places(wanted, own_ranges if owner == rank else wanted)
        if owner != rank:
            receives.append((owner, wanted))
        parts += [
            (begin, end, place, owner) for (begin, end), place in zip(wanted, lies, strict=True)
        ]
    parts.sort(key=lambda part: part[0])
    runs = layouts.joined([(begin, end) for begin, end, _, _ in parts])
    return Step(
        tuple(sends),
        tuple(receives),
        tuple((owner, place) for _, _, place, owner in parts),
        layouts.tokens(runs),
        _launches(plan, groups, runs, begun, is_first),
    )


def _launches(
    plan: Plan, groups: Sequence[_Group], runs: Ranges, begun: set[int], is_first: bool
) -> tuple[Launch, ...]:
    """The kernels over the keys of ``runs``. For each row the first kernel adds the sink."""
    found = []
    for number, queries, row, _ in groups:
        pairs = []
        place = 0
        for run in runs:
            begin, end = plan.needs.between(queries, run)
            if begin < end:
                at = slice(place + begin - run[0], place + end - run[0])
                pairs.append((at, (begin, end)))
            place += run[1] - run[0]
        if is_first and not pairs:
            pairs.append((slice(0, 1), (runs[0][0], runs[0][0] + 1)))
        for at, keys in pairs:
            begins = number not in begun
            begun.add(number)
            first, end = queries if begins else plan.needs.queries_between(queries, keys)
            rows = slice(row + first - queries[0], row + end - queries[0])
            found.append(Launch(number, rows, at, first, keys[0], begins))
    return tuple(found)
