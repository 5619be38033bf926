# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chooses the rank of each cell: by a given layout, or by a search for the fastest one."""

from __future__ import annotations

from collections.abc import Callable

from tesela import _native
from tesela._errors import InvalidArgumentError
from tesela.distributed import _layout as layouts
from tesela.distributed._cells import Counts
from tesela.distributed._machine import Machine, Shape, exchange_seconds, no_nodes
from tesela.distributed._positions import Sizes

_SLACK = 1.01
"""A rank may get this factor of its share of the work, if it then needs fewer keys."""

_EVEN = 1.05
"""A layout is even if the busiest rank's work over the mean is at most this. A search prefers
even layouts, because it knows the work better than the time of sending."""

_NODES_EVEN = 1.01
"""The unevenness that the search notes for a layout with even nodes and uneven ranks. That suffices
for the scheme "nodes", but a layout with even ranks is preferred, because it suits all schemes."""

_MUCH_BETTER = 0.99
"""A layout replaces a simpler one if its time is below this factor of the other's."""


def owners_by(
    layout: str,
    counts: Counts,
    ranks: int,
    cell: int,
    sizes: Sizes,
    shape: Shape,
    machine: Machine,
    full: int,
    scheme: str,
) -> tuple[tuple[int, ...], str]:
    """The rank of each cell, and a text that says how it was found.

    Args:
        layout: the name of a layout, or "search".
        counts: the work of each cell.
        ranks: the number of ranks.
        cell: the positions of a cell.
        sizes: the sizes for which the cells were counted.
        shape: the sizes of a call, for predictions.
        machine: the figures for predictions.
        full: the work of a full cell of one head.
        scheme: how keys are moved to the queries, or "auto".

    Raises:
        InvalidArgumentError: there is no such layout.
    """
    cells = counts.rows
    if layout == "contiguous":
        return layouts.contiguous(cells, ranks), layout
    if layout == "zigzag":
        return layouts.zigzag(cells, ranks), layout
    if layout == "striped":
        return layouts.striped(cells, ranks), layout
    if layout not in layouts.LAYOUTS:
        raise InvalidArgumentError(
            f"the layout is {layout!r}, it must be one of "
            f"{', '.join(map(repr, layouts.LAYOUTS))}, or the ranges of each rank"
        )
    work = counts.sums
    if layout == "work":
        return layouts.by_work(work, ranks), layout
    if layout == "near":
        return _near(counts, ranks, machine), layout
    if layout == "balanced" or cells == 0:
        return layouts.balanced(work, ranks), layout
    scale = shape.batch * shape.heads / max(sizes.B * sizes.H, 1)
    seconds_of_pair = shape.pair_flops * scale / machine.flops
    seconds_of_work = cell**2 * seconds_of_pair / full
    has_nodes = scheme in ("auto", "nodes") and not no_nodes(machine, ranks, shape.kv_heads)

    def grade(owners: tuple[int, ...], size: int) -> tuple[float, float]:
        """How uneven the layout is, and its time, if ``size`` ranks at a time count as one."""
        groups = ranks // size
        if size > 1:
            owners = tuple(owner // size for owner in owners)
        split = _native.split_cells(counts.sums, counts.needs, owners, groups)
        bandwidth = machine.network_bandwidth if size > 1 else machine.bandwidth(ranks)
        of_work, of_key = seconds_of_work / size, cell * shape.key_bytes / bandwidth / size
        # In a ring most of the sending runs beside the kernels, so the longer time counts. Between
        # nodes less is sent, and gathering is mostly faster, so both times count.
        both = sum if size > 1 else max
        seconds = max(
            both((load * of_work, keys * of_key)) + runs * machine.launch
            for load, keys, runs in split
        )
        if size > 1:
            seconds += exchange_seconds(machine, shape, cells * cell // ranks)
        loads = [load for load, _, _ in split]
        uneven = max(loads) * groups / max(sum(loads), 1)
        return (uneven if uneven > _EVEN else 1.0), seconds

    best: tuple[float, float, str, tuple[int, ...]] | None = None
    candidates: dict[str, Callable[[], tuple[int, ...]]] = {
        "contiguous": lambda: layouts.contiguous(cells, ranks),
        "zigzag": lambda: layouts.zigzag(cells, ranks),
        "near": lambda: _near(counts, ranks, machine),
        "balanced": lambda: layouts.balanced(work, ranks),
        "striped": lambda: layouts.striped(cells, ranks),
    }
    for name, make in candidates.items():
        if name in ("balanced", "striped") and best is not None and best[0] <= _NODES_EVEN:
            break  # an even layout was found; these two send more keys
        owners = make()
        uneven, seconds = grade(owners, 1)
        if has_nodes:
            nodes_uneven, nodes_seconds = grade(owners, machine.ranks_per_node)
            if scheme == "nodes":
                uneven, seconds = nodes_uneven, nodes_seconds
            elif nodes_uneven == 1:
                seconds = min(seconds, nodes_seconds) if uneven == 1 else nodes_seconds
                uneven = min(uneven, _NODES_EVEN)
        if best is None or (uneven, seconds) < (best[0], best[1] * _MUCH_BETTER):
            best = uneven, seconds, name, owners
    assert best is not None
    return best[3], f"{best[2]} (found by search)"


def _near(counts: Counts, ranks: int, machine: Machine) -> tuple[int, ...]:
    return _native.deal_cells(counts.sums, counts.needs, ranks, machine.ranks_per_node, _SLACK)
