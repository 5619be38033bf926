# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports which tiles of the score matrix a kernel computes."""

from __future__ import annotations

from typing import Any, NamedTuple

from tesela import _native


class HeadTiles(NamedTuple):
    """The tiles of one head, or of all heads, if the mask does not depend on the head.

    Attributes:
        batch: the sequence; None: the same for all.
        head: the query head; None: the same for all.
        empty: the number of tiles that are neither loaded nor computed.
        partial: the number of tiles that are computed and masked pair by pair.
        full: the number of tiles that are computed without the mask.
        kept_pairs: the number of pairs (query, key) that the mask keeps; None if they are too many
            to count.
        kinds: a byte for each cell, row after row: 0 empty, 1 partial, 2 full.
    """

    batch: int | None
    head: int | None
    empty: int
    partial: int
    full: int
    kept_pairs: int | None
    kinds: bytes


class Explanation:
    """What a kernel does with each tile of a launch, read from the kernel's own program.

    ``str()`` of it is a report. A notebook shows the picture.

    Attributes:
        variant: the variant's name.
        target: the target of the kernel, "host" or "sm_90".
        schedule: the schedule of the kernel.
        block_m: the number of queries of a tile.
        block_n: the number of keys of a tile.
        rows: the number of rows of tiles.
        columns: the number of columns of tiles.
        cell: the number of tiles along each axis of a cell. The kind of a cell is that of its
            tiles, or partial if they have several kinds. It is 1 unless there are too many tiles.
        form: how the kernel finds its tiles: "every tile", "key ranges" or "classified tiles".
        lost_proofs: the parts of the mask about which nothing could be proved, with line, column,
            caret and what to write instead; "" if there are none.
        heads: the counts of each head.
    """

    def __init__(self, native: _native.Explanation) -> None:
        self._native = native
        known = native.describe()
        self.variant: str = known["variant"]
        self.target: str = known["target"]
        self.schedule: str = known["schedule"]
        self.block_m: int = known["block_m"]
        self.block_n: int = known["block_n"]
        self.rows: int = known["rows"]
        self.columns: int = known["columns"]
        self.cell: int = known["cell"]
        self.form: str = known["form"]
        self.lost_proofs: str = known["lost_proofs"]
        self.heads = tuple(
            HeadTiles(
                None if batch < 0 else batch,
                None if head < 0 else head,
                empty,
                partial,
                full,
                None if kept < 0 else kept,
                kinds,
            )
            for batch, head, empty, partial, full, kept, kinds in known["heads"]
        )

    @property
    def svg(self) -> str:
        """The picture as SVG: queries down, keys to the right; kept pairs are darker."""
        return self._native.svg()

    def __str__(self) -> str:
        return self._native.text()

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        return self.svg


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of a tensor, or () for any other object."""
    return tuple(getattr(value, "shape", ()))
