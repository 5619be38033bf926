# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The steps of one rank: in which step keys arrive, and which kernels run in it.

A step has the keys of some ranks in one tensor, in ascending order of position. In "gather" one
step has all keys that the rank needs. In "ring" each rank's keys are a step: first the rank's own
keys, then those of the previous rank, and so on. A step only has keys that some query needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tesela.distributed import _layout as layouts
from tesela.distributed._layout import Ranges

if TYPE_CHECKING:
    from tesela.distributed._plan import Plan


class Launch(NamedTuple):
    """A kernel over one range of queries and one of keys.

    Attributes:
        group: the number of the range of queries.
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
        own: places of those of our own keys that are in the step.
        order: the step's parts in ascending order of position: (rank, the place of the part in what
            that rank sent, or in our own tensors).
        keys: the number of keys.
        launches: the kernels, in their order.
    """

    sends: tuple[tuple[int, tuple[slice, ...]], ...]
    receives: tuple[tuple[int, Ranges], ...]
    own: tuple[slice, ...]
    order: tuple[tuple[int, slice], ...]
    keys: int
    launches: tuple[Launch, ...]


def steps_of(plan: Plan, scheme: str) -> tuple[Step, ...]:
    """The steps of the plan's own rank. All ranks have the same number of steps."""
    rank, ranks = plan._own_rank(), plan.ranks
    turns: list[tuple[Sequence[int], Sequence[int]]]
    if scheme == "gather":
        turns = [(range(ranks), range(ranks))]
    else:
        turns = [([(rank - t) % ranks], [(rank + t) % ranks]) for t in range(ranks)]
    own_ranges = plan.ranges[rank]
    begun: set[int] = set()
    found: list[Step] = []
    for number, (owners, takers) in enumerate(turns):
        sends = []
        for taker in takers:
            wanted = layouts.overlap(plan.needed[taker], own_ranges)
            if taker != rank and wanted:
                sends.append((taker, tuple(layouts.places(wanted, own_ranges))))
        parts: list[tuple[int, int, slice, int]] = []
        receives = []
        own: tuple[slice, ...] = ()
        for owner in owners:
            wanted = layouts.overlap(plan.needed[rank], plan.ranges[owner])
            if owner == rank and number == 0 and not wanted and own_ranges:
                # Rows that keep nothing also need a kernel, for their sinks and their zeros.
                wanted = ((own_ranges[0][0], own_ranges[0][0] + 1),)
            if not wanted:
                continue
            lies = layouts.places(wanted, own_ranges if owner == rank else wanted)
            if owner == rank:
                own = tuple(lies)
            else:
                receives.append((owner, wanted))
            parts += [
                (begin, end, place, owner) for (begin, end), place in zip(wanted, lies, strict=True)
            ]
        parts.sort(key=lambda part: part[0])
        runs = layouts.joined([(begin, end) for begin, end, _, _ in parts])
        launches = _launches(plan, own_ranges, runs, begun, number == 0)
        found.append(
            Step(
                tuple(sends),
                tuple(receives),
                own,
                tuple((owner, place) for _, _, place, owner in parts),
                layouts.tokens(runs),
                launches,
            )
        )
    return tuple(found)


def _launches(
    plan: Plan, own_ranges: Ranges, runs: Ranges, begun: set[int], is_first: bool
) -> tuple[Launch, ...]:
    """The kernels over the keys of ``runs``. For each row the first kernel adds the sink."""
    found = []
    row = 0
    for group, queries in enumerate(own_ranges):
        begin_of_group, row = row, row + queries[1] - queries[0]
        pairs = []
        place = 0
        for run in runs:
            begin, end = plan.keys_between(queries, run)
            if begin < end:
                at = slice(place + begin - run[0], place + end - run[0])
                pairs.append((at, (begin, end)))
            place += run[1] - run[0]
        if is_first and not pairs:
            pairs.append((slice(0, 1), (runs[0][0], runs[0][0] + 1)))
        for at, keys in pairs:
            begins = group not in begun
            begun.add(group)
            first, end = queries if begins else plan.queries_between(queries, keys)
            rows = slice(begin_of_group + first - queries[0], begin_of_group + end - queries[0])
            found.append(Launch(group, rows, at, first, keys[0], begins))
    return tuple(found)
