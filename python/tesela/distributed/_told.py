# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The text that a plan prints."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

from tesela.distributed import _layout as layouts
from tesela.distributed._cells import TILE
from tesela.distributed._layout import Ranges

if TYPE_CHECKING:
    from tesela.distributed._plan import Plan


def told(plan: Plan) -> str:
    """The plan as a report of several lines."""
    work = plan.work
    held = [layouts.tokens(each) for each in plan.ranges]
    counts = [len(each) for each in plan.ranges]
    empty = int((plan.pairs == 0).sum())
    link = plan.received * plan.shape.key_bytes
    fastest = plan.choice()
    by_nodes = fastest.scheme == "nodes"
    busiest = plan.of_nodes.imbalance if by_nodes else plan.imbalance
    lines = [
        f"{plan.variant.name}: {plan.length:,} tokens on {plan.ranks} ranks, {plan.layout}",
        f"  tokens      {_span(held)} a rank, in {_span(counts)} ranges",
        f"  work        {float(work.sum()):,.0f} tiles of {TILE} x {TILE}, of all heads; the "
        f"busiest {'node' if by_nodes else 'rank'} has {busiest:.3f} of the mean",
        f"  pairs       {empty:,} of {plan.ranks**2:,} pairs of ranks are empty",
        f"  keys        a rank receives {_span(plan.received.sum(1).int().tolist())} tokens; "
        f"the busiest link carries {_bytes(float(link.max()) if link.numel() else 0.0)}",
        f"  predicted   efficiency {fastest.efficiency:.3f} by '{fastest.scheme}' (a forward "
        f"pass of {plan.shape.heads} heads, {plan.shape.kv_heads} kv heads, D "
        f"{plan.shape.head_dim}; a model, not a measurement)",
    ]
    for each in plan.predictions():
        time = f"{each.seconds * 1e3:.3g} ms" if isfinite(each.seconds) else "cannot be"
        lines.append(f"    {each.scheme:<8}  {time}: {each.why}")
    if plan.ranks <= 16:
        lines.append("  rank   tokens  tiles kept  receives")
        for rank in range(plan.ranks):
            lines.append(
                f"  {rank:>4} {held[rank]:>8,} {float(work[rank]):>11,.0f} "
                f"{int(plan.received[rank].sum()):>9,}  {_listed(plan.ranges[rank])}"
            )
    return "\n".join(lines)


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def _listed(ranges: Ranges) -> str:
    shown = ", ".join(f"{begin:,}-{end - 1:,}" for begin, end in ranges[:4])
    return shown + (f", and {len(ranges) - 4} more" if len(ranges) > 4 else "")
