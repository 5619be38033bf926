# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The work of cells and the layouts from it, against slow and straightforward references."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import tesela
import torch
from tesela import _native
from tesela.distributed._cells import TILE, CellMask, Counts
from tesela.distributed._layout import balanced, contiguous, striped, zigzag
from tesela.distributed._positions import Sizes
from torch import Tensor

CELL = 256
SIDE = 16
"""A partial cell is estimated from one pair in each of as many rows and columns."""


def documents(length: int, count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    ends = torch.sort(torch.randperm(length, generator=generator)[:count])[0]
    return torch.searchsorted(ends, torch.arange(length), right=True).int()[None]


def document_mask(ids: Tensor, length: int, heads: int) -> Tensor:
    q, k = torch.arange(length)[:, None], torch.arange(length)[None]
    return ((q >= k) & (ids[0, :, None] == ids[0, None, :])).expand(heads, length, length)


def padding_mask(ignored: Tensor, length: int, heads: int) -> Tensor:
    return ~ignored[0, None, :].expand(heads, length, length)


def dilated_mask(_: Tensor, length: int, heads: int) -> Tensor:
    h, q, k = torch.meshgrid(*map(torch.arange, (heads, length, length)), indexing="ij")
    of_head = (q % 2 == h % 2) & (k % 2 == h % 2)
    return (q >= k) & (q // 1000 == k // 1000) & of_head


def counts_of(name: str, length: int, heads: int, threads: int = 0, **values: Any) -> Counts:
    found = CellMask(tesela.variant(name), (), CELL)
    if threads:
        program = tesela.variant(name)._program.native
        found._native = _native.KeptCells(program, (), CELL, TILE, threads)
    return found.count(values, Sizes(1, heads, heads, length, length))


def expected_work(kept: Tensor) -> Tensor:
    """The work of each cell, from all pairs [heads, queries, keys]: whether they are kept."""
    length = kept.shape[1]
    cells = -(-length // CELL)
    full = 2 * (CELL // TILE)
    at = [(2 * i + 1) * CELL // (2 * SIDE) for i in range(SIDE)]
    reversed_bits = [int(f"{i:04b}"[::-1], 2) for i in range(SIDE)]
    work = torch.zeros(cells, cells, dtype=torch.long)
    for head in kept:
        for row in range(cells):
            for column in range(cells):
                block = head[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]
                if not block.any():
                    continue
                if block.all() and block.numel() == CELL * CELL:
                    work[row, column] += full
                    continue
                few = sum(
                    bool(
                        head[
                            min(row * CELL + at[i], length - 1),
                            min(column * CELL + at[reversed_bits[i]], length - 1),
                        ]
                    )
                    for i in range(SIDE)
                )
                work[row, column] += min(max((full * few + SIDE // 2) // SIDE + 1, 1), full)
    return work


CASES: dict[str, tuple[Any, Any, int]] = {
    "documents_causal": (document_mask, {"id": documents(3000, 11, 2)}, 1),
    "key_padding": (padding_mask, {"ignored": (torch.arange(3000) // 700 % 2 == 1)[None]}, 1),
    "dilated_segments": (dilated_mask, {"segment": 1000, "dilation": 2}, 4),
}


@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize("name", CASES)
def test_counts(name: str, threads: int) -> None:
    """Empty, full and partial cells, with a last row and column that are cut."""
    mask, values, heads = CASES[name]
    length = 3000
    counts = counts_of(name, length, heads, threads, **values)
    kept = mask(next(iter(values.values())), length, heads)
    assert torch.equal(counts.table.long(), expected_work(kept))


def checked(counts: Counts) -> Counts:
    """The sums and the bits of rows say the same as the work of the cells."""
    assert counts.table.sum(1).tolist() == counts.sums
    words = -(-counts.columns // 64)
    assert len(counts.needs) == counts.rows * words * 8
    for row, work in enumerate(counts.table.tolist()):
        bits = int.from_bytes(counts.needs[8 * words * row : 8 * words * (row + 1)], "little")
        assert bits == sum(1 << column for column, each in enumerate(work) if each)
    return counts


@pytest.mark.parametrize("length", [1, 255, 256, 256 * 63, 256 * 64, 256 * 64 + 1, 256 * 129 + 5])
def test_sums_and_needed_keys(length: int) -> None:
    for each in (max(length // 900, 1), 3):
        count = min(each, length)
        checked(counts_of("documents_causal", length, 1, id=documents(length, count, 3)))


def test_many_threads_count_at_once() -> None:
    """Counts share threads and take turns. Each has its own documents."""
    length = 1 << 17
    masks = [CellMask(tesela.variant("documents_causal"), (), CELL) for _ in range(2)]
    masks.append(CellMask(tesela.variant("documents"), (), CELL))
    program = tesela.variant("documents_causal")._program.native
    masks[1]._native = _native.KeptCells(program, (), CELL, TILE, 3)
    sizes = Sizes(1, 1, 1, length, length)
    batches = [documents(length, 5 + 40 * seed, seed) for seed in range(6)]
    tasks = [(mask, ids) for ids in batches for mask in masks]

    def count(task: tuple[CellMask, Tensor]) -> Counts:
        return task[0].count({"id": task[1]}, sizes)

    alone = [checked(count(task)) for task in tasks]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(count, 3 * tasks))
    assert all(a == b for a, b in zip(3 * alone, together, strict=True))


def random_counts(cells: int, seed: int, near: bool) -> Counts:
    """Random work; ``near``: only of cells near to the diagonal."""
    generator = torch.Generator().manual_seed(seed)
    work = torch.randint(0, 33, (cells, cells), generator=generator)
    work[torch.rand(cells, cells, generator=generator) < 0.5] = 0
    if near:
        distance = torch.arange(cells)[:, None] - torch.arange(cells)[None]
        work[distance.abs() > 1 + cells // 10] = 0
    rows = work.tolist()
    words = -(-cells // 64)
    bits = [sum(1 << column for column, each in enumerate(row) if each) for row in rows]
    return Counts(
        *(cells, cells, bytearray(work.int().numpy().tobytes()), [sum(row) for row in rows]),
        b"".join(each.to_bytes(8 * words, "little") for each in bits),
    )


def needed_cells(counts: Counts) -> list[set[int]]:
    return [{i for i, each in enumerate(row) if each} for row in counts.table.tolist()]


def slow_deal(counts: Counts, ranks: int, ranks_of_node: int, slack: float) -> tuple[int, ...]:
    """What ``deal_cells`` computes, with sets and without any shortcut."""
    every = list(range(counts.rows))
    if ranks > ranks_of_node > 1 and ranks % ranks_of_node == 0:
        nodes = slow_deal_some(counts, every, ranks // ranks_of_node, slack)
        within = [slow_deal_some(counts, cells, ranks_of_node, slack) for cells in nodes]
        held = [cells for node in within for cells in node]
        held = slow_exchange(counts, held, ranks_of_node, slack)
    else:
        held = slow_deal_some(counts, every, ranks, slack)
    owners = {cell: rank for rank in range(ranks) for cell in held[rank]}
    return tuple(owners[cell] for cell in every)


def slow_deal_some(counts: Counts, cells: list[int], ranks: int, slack: float) -> list[list[int]]:
    """Deals these cells. Gives the cells of each rank."""
    work, needs = counts.sums, needed_cells(counts)
    most = slack * sum(work[cell] for cell in cells) / ranks
    room = [(len(cells) + ranks - 1 - rank) // ranks for rank in range(ranks)]
    held: list[list[int]] = [[] for _ in range(ranks)]
    has: list[set[int]] = [set() for _ in range(ranks)]
    loads = [0] * ranks
    for cell in sorted(cells, key=lambda cell: (-work[cell], cell)):
        free = [rank for rank in range(ranks) if len(held[rank]) < room[rank]]
        fit = [rank for rank in free if loads[rank] + work[cell] <= most]
        rank = min(fit, key=lambda rank: (len(needs[cell] - has[rank]), loads[rank]), default=None)
        if rank is None:
            rank = min(free, key=loads.__getitem__)
        held[rank].append(cell)
        loads[rank] += work[cell]
        has[rank] |= needs[cell] | {cell}
    return slow_exchange(counts, held, 1, slack)


def slow_exchange(
    counts: Counts, held: list[list[int]], group: int, slack: float
) -> list[list[int]]:
    """Exchanges cells until the work is even. Changes ``held``.

    ``group`` neighbouring ranks have their needed keys together.
    """
    work, needs, ranks = counts.sums, needed_cells(counts), len(held)
    loads = [sum(work[cell] for cell in cells) for cells in held]
    most = slack * sum(loads) / ranks
    has: list[set[int]] = [set() for _ in range(ranks // group)]
    for rank, cells in enumerate(held):
        has[rank // group] |= set().union(cells, *(needs[cell] for cell in cells))
    for _ in range(16 * ranks):
        busiest = max(range(ranks), key=loads.__getitem__)
        if loads[busiest] <= most:
            break
        best: tuple[float, int] | None = None
        for rank in range(ranks):
            for i, light in enumerate(held[rank]):
                for j, heavy in enumerate(held[busiest]):
                    less = work[heavy] - work[light]
                    then = max(loads[busiest] - less, loads[rank] + less)
                    if rank == busiest or less <= 0 or then >= loads[busiest]:
                        continue
                    more = len(needs[heavy] - has[rank // group])
                    more += len(needs[light] - has[busiest // group])
                    if best is None or (max(then, most), more) < best:
                        best, exchange = (max(then, most), more), (rank, i, j)
        if best is None:
            break
        rank, i, j = exchange
        light, heavy = held[rank][i], held[busiest][j]
        held[rank][i], held[busiest][j] = heavy, light
        loads[busiest] -= work[heavy] - work[light]
        loads[rank] += work[heavy] - work[light]
        has[rank // group] |= needs[heavy]
        has[busiest // group] |= needs[light]
    return held


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize(
    ("cells", "ranks", "ranks_of_node"),
    [
        *[(1, 1, 8), (5, 8, 8), (24, 3, 8), (40, 7, 8), (64, 8, 8), (65, 16, 1), (130, 4, 4)],
        *[(65, 16, 8), (100, 12, 3), (40, 12, 8), (7, 16, 4)],
    ],
)
def test_deal(cells: int, ranks: int, ranks_of_node: int, near: bool) -> None:
    for seed in range(4):
        counts = random_counts(cells, seed, near)
        for slack in (1.01, 1.2):
            dealt = _native.deal_cells(counts.sums, counts.needs, ranks, ranks_of_node, slack)
            assert dealt == slow_deal(counts, ranks, ranks_of_node, slack)


@pytest.mark.parametrize(("cells", "ranks"), [(1, 1), (5, 8), (64, 8), (130, 4), (200, 3)])
def test_split(cells: int, ranks: int) -> None:
    counts = random_counts(cells, cells, near=True)
    needs = needed_cells(counts)
    for owners in (
        *(make(cells, ranks) for make in (contiguous, zigzag, striped)),
        balanced(counts.sums, ranks),
    ):
        expected = []
        for rank in range(ranks):
            own = {cell for cell in range(cells) if owners[cell] == rank}
            foreign = set().union(*(needs[cell] for cell in own)) - own
            runs = sum(cell - 1 not in own for cell in own)
            expected.append((sum(counts.sums[cell] for cell in own), len(foreign), runs))
        assert _native.split_cells(counts.sums, counts.needs, owners, ranks) == expected


def test_counts_of_different_squares() -> None:
    counts = random_counts(70, 1, near=False)
    with pytest.raises(tesela.InvalidArgumentError, match="sums of 69 rows, and the needed keys"):
        _native.deal_cells(counts.sums[1:], counts.needs, 2, 8, 1.01)
    # As many words as a square of 70 has, but with a bit for cell 70.
    needs = bytearray(counts.needs)
    needs[15] |= 1 << 7
    with pytest.raises(tesela.InvalidArgumentError, match="sums of 70 rows, and the needed keys"):
        _native.split_cells(counts.sums, bytes(needs), 70 * (0,), 1)
    for deal in (
        lambda: _native.deal_cells(counts.sums, counts.needs, 0, 8, 1.01),
        lambda: _native.split_cells(counts.sums, counts.needs, 70 * (0,), -1),
    ):
        with pytest.raises(tesela.InvalidArgumentError, match="ranks, there must be at least 1"):
            deal()
    with pytest.raises(tesela.InvalidArgumentError, match="3 cells have an owner, and there"):
        _native.split_cells(counts.sums, counts.needs, (0, 1, 0), 2)
    with pytest.raises(tesela.InvalidArgumentError, match="owner is 2, there are 2 ranks"):
        _native.split_cells(counts.sums, counts.needs, 70 * (2,), 2)
