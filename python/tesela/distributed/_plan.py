# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plan: who holds which tokens, whose keys a rank needs, and how much work it has."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tesela import _native
from tesela._errors import InvalidArgumentError
from tesela._prepare import extents
from tesela._variant import Variant, as_variant
from tesela._variant import variant as variant_of
from tesela.distributed import _layout as layouts
from tesela.distributed._cells import TILE, CellMask, Counts, cell_mask, cell_size
from tesela.distributed._layout import Range, Ranges
from tesela.distributed._machine import SCHEMES, Machine, Prediction, Shape, predict
from tesela.distributed._operator import number_of
from tesela.distributed._positions import Sizes, placed
from tesela.distributed._steps import Step, steps_of
from tesela.distributed._values import is_equal, of_torch, on_host, version_of

_SLACK = 1.01
"""More than its share of the work, for a rank that needs fewer keys then."""

_EVEN = 1.05
"""The busiest rank's work by the mean. A search prefers layouts below: of sending it knows less."""

_MUCH_BETTER = 0.99
"""A layout replaces a simpler one where its time is below that share of the other's."""


class Plan:
    """How a sequence is split over ranks, for one mask. Made by :func:`plan`; it prints itself.

    Attributes:
        variant: the variant, with the values that the plan was made for.
        length: tokens of the sequence.
        ranges: the ranges of positions of each rank, ascending; a rank's tensors hold them in this
            order, one behind the other.
        layout: how they were found.
        rank: whose plan it is; None: nobody's, it is only looked at.
        group: the process group; None: there is none.
        machine: what predictions are made with.
        scheme: how keys come to the queries, or "auto".
        number: a tensor by which compiled code finds it.
    """

    def __init__(
        self,
        variant: Variant,
        sizes: Sizes,
        ranges: tuple[Ranges, ...],
        layout: str,
        mask: CellMask,
        counts: Counts,
        decided: dict[str, Any],
        host: dict[str, Any],
        rank: int | None,
        group: Any,
        machine: Machine,
        shape: Shape,
        scheme: str,
    ) -> None:
        self.variant = variant
        self.placed = placed(variant)
        self.length = sizes.Sq
        self.ranges = ranges
        self.layout = layout
        self.rank = rank
        self.group = group
        self.machine = machine
        self.scheme = scheme
        self._sizes = sizes
        self._mask = mask
        self._counts = counts
        self._work = counts.table
        self._decided = decided
        self._versions = {name: version_of(value) for name, value in decided.items()}
        self._planned = host
        self._shape = shape
        self._copies: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}
        self._schemes: dict[tuple[Shape, bool], str] = {}
        self._steps: dict[str, tuple[Step, ...]] = {}
        self.number = number_of(self)

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.ranges)

    @property
    def cell(self) -> int:
        """Positions of a cell, of which the plan knows whether pairs are kept."""
        return self._mask.cell

    # What is computed of it is computed when it is asked for: a step with new documents needs the
    # ranges and what its own rank sends, not the rest.

    @cached_property
    def _held(self) -> Tensor:
        """The share of each cell that a rank holds, float64 [ranks, cells]."""
        held = torch.zeros(self.ranks, len(self._work), dtype=torch.float64, device="cpu")
        for rank, ranges in enumerate(self.ranges):
            for begin, end in ranges:
                first, last = begin // self.cell, (end - 1) // self.cell
                held[rank, first + 1 : last] = 1
                for cell in {first, last}:
                    low, high = cell * self.cell, min((cell + 1) * self.cell, self.length)
                    held[rank, cell] += (min(end, high) - max(begin, low)) / (high - low)
        return held

    @cached_property
    def _lengths(self) -> Tensor:
        """The positions of each cell: the last one may be cut."""
        lengths = torch.full((len(self._work),), self.cell, dtype=torch.float64, device="cpu")
        if len(lengths):
            lengths[-1] = self.length - (len(lengths) - 1) * self.cell
        return lengths

    @cached_property
    def pairs(self) -> Tensor:
        """The work: kept pairs of rank r's queries and rank o's keys, of all batches and heads.

        Partial cells count by a look at some pairs. float64 ``[ranks, ranks of keys]``.
        """
        of_cells = self._work / self._mask.full * self._lengths[:, None] * self._lengths[None, :]
        return self._held @ of_cells @ self._held.T

    @cached_property
    def _needed_cells(self) -> Tensor:
        """Whether a rank needs keys of a cell, bool [ranks, cells]."""
        if not len(self._work):
            return torch.zeros(self.ranks, 0, dtype=torch.bool, device="cpu")
        return (self._held > 0).float() @ (self._work > 0).float() > 0

    @cached_property
    def needed(self) -> tuple[Ranges, ...]:
        """The ranges of keys that each rank's queries keep some pair with, its own among them."""
        found = []
        for row in self._needed_cells:
            edges = torch.diff(
                row.int(), prepend=row.new_zeros(1).int(), append=row.new_zeros(1).int()
            )
            begins = ((edges == 1).nonzero()[:, 0] * self.cell).tolist()
            ends = ((edges == -1).nonzero()[:, 0] * self.cell).tolist()
            found.append(
                tuple(
                    (begin, min(end, self.length)) for begin, end in zip(begins, ends, strict=True)
                )
            )
        return tuple(found)

    @cached_property
    def received(self) -> Tensor:
        """Tokens whose keys rank r receives of rank o, float64 ``[ranks, ranks]``."""
        of_cells = self._needed_cells.double() @ (self._held * self._lengths).T
        return of_cells.fill_diagonal_(0)

    @property
    def work(self) -> Tensor:
        """Kept tiles of 128 x 128 pairs of each rank."""
        return self.pairs.sum(1) / TILE**2

    @property
    def imbalance(self) -> float:
        """The work of the busiest rank by the mean."""
        work = self.work
        return float(work.max() / work.mean()) if float(work.sum()) else 1.0

    def keys_between(self, queries: Range, keys: Range) -> Range:
        """The part of ``keys`` outside of which no query of ``queries`` keeps a pair."""
        rows = slice(queries[0] // self.cell, (queries[1] - 1) // self.cell + 1)
        first, last = keys[0] // self.cell, (keys[1] - 1) // self.cell
        kept = (self._work[rows, first : last + 1] > 0).any(0).nonzero()[:, 0]
        if not len(kept):
            return keys[0], keys[0]
        low, high = first + int(kept[0]), first + int(kept[-1]) + 1
        return max(keys[0], low * self.cell), min(keys[1], high * self.cell)

    def queries_between(self, queries: Range, keys: Range) -> Range:
        """The part of ``queries`` outside of which none keeps a pair with a key of ``keys``."""
        first, last = queries[0] // self.cell, (queries[1] - 1) // self.cell
        columns = slice(keys[0] // self.cell, (keys[1] - 1) // self.cell + 1)
        kept = (self._work[first : last + 1, columns] > 0).any(1).nonzero()[:, 0]
        low, high = first + int(kept[0]), first + int(kept[-1]) + 1
        return max(queries[0], low * self.cell), min(queries[1], high * self.cell)

    @cached_property
    def touched(self) -> Tensor:
        """Tokens of rank r whose queries may keep a key of rank o, float64 ``[ranks, ranks]``."""
        keeps = (self._work > 0).float() @ (self._held > 0).float().T > 0
        return (self._held * self._lengths) @ keeps.double()

    @cached_property
    def launches(self) -> Tensor:
        """How many kernels each rank launches where it has all keys that it needs."""
        counts = [
            max(
                len(ranges),
                sum(
                    begin < end
                    for queries in ranges
                    for keys in needed
                    for begin, end in [self.keys_between(queries, keys)]
                ),
            )
            for ranges, needed in zip(self.ranges, self.needed, strict=True)
        ]
        return torch.tensor(counts, dtype=torch.float64, device="cpu")

    def predictions(self, shape: Shape | None = None) -> list[Prediction]:
        """What a forward pass is predicted to take, by each scheme; the fastest first.

        Args:
            shape: of the call; None: that of the plan.
        """
        found = [self._prediction(scheme, shape or self._shape) for scheme in SCHEMES]
        return sorted(found, key=lambda each: each.seconds)

    def _prediction(self, scheme: str, shape: Shape) -> Prediction:
        counted = self._sizes.B * self._sizes.H
        scale = shape.batch * shape.heads / counted if counted else 1.0
        held = [float(layouts.tokens(each)) for each in self.ranges]
        return predict(
            *(scheme, self.machine, shape, self.pairs * scale, self.received, self.touched),
            torch.tensor(held, dtype=torch.float64, device="cpu"),
            self.launches,
        )

    def choice(self, shape: Shape | None = None) -> Prediction:
        """The scheme that a call of this shape takes, and why."""
        if self.scheme == "auto":
            return self.predictions(shape)[0]
        return self._prediction(self.scheme, shape or self._shape)

    def scheme_for(self, shape: Shape, drops: bool = False) -> str:
        """That of ``choice``, remembered: a model asks for the same again in each layer.

        Args:
            shape: of the call.
            drops: whether it has dropout, which there is not by "heads".
        """
        if self.scheme != "auto":
            return self.scheme
        found = self._schemes.get((shape, drops))
        if found is None:
            schemes = [each.scheme for each in self.predictions(shape)]
            found = next(each for each in schemes if not (drops and each == "heads"))
            self._schemes[shape, drops] = found
        return found

    def steps(self, scheme: str) -> tuple[Step, ...]:
        """What this rank does by a scheme that moves keys."""
        found = self._steps.get(scheme)
        if found is None:
            found = self._steps[scheme] = steps_of(self, scheme)
        return found

    def shard(self, x: Tensor, axis: int = 2) -> Tensor:
        """This rank's part of a tensor that has the whole sequence, in the plan's order.

        Args:
            x: with ``length`` elements along ``axis``.
            axis: of the sequence; 2: that of ``[batch, heads, length, head dimension]``.

        Raises:
            InvalidArgumentError: the axis has another length, or the plan has no rank.
        """
        ranges = self.ranges[self._own_rank()]
        self._check_axis(x, axis, self.length, "the whole sequence")
        parts = [x.narrow(axis, begin, end - begin) for begin, end in ranges]
        return torch.cat(parts or [x.narrow(axis, 0, 0)], axis)

    def positions(self, device: Any = None) -> Tensor:
        """The positions of this rank's tokens, int64: what rotary embeddings are computed of."""
        ranges = self.ranges[self._own_rank()]
        parts = [torch.arange(begin, end, device=device) for begin, end in ranges]
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64, device=device)

    def gather(self, x: Tensor, axis: int = 2) -> Tensor:
        """The whole of a tensor of which each rank has its part. All ranks call it.

        Its gradient is that of a tensor that each rank has whole and uses alike: a rank's part of
        its own gradient.
        """
        from tesela.distributed._exchange import gather

        self._check_axis(x, axis, layouts.tokens(self.ranges[self._own_rank()]), "this rank's part")
        return gather(self, x, axis)

    def _own_rank(self) -> int:
        if self.rank is None:
            raise InvalidArgumentError(
                "the plan was made without a process group and can only be printed: to run it, "
                "make it with group=, or after torch.distributed.init_process_group"
            )
        return self.rank

    def _check_axis(self, x: Tensor, axis: int, expected: int, of: str) -> None:
        if not -x.dim() <= axis < x.dim() or x.shape[axis] != expected:
            raise InvalidArgumentError(
                f"the tensor has the shape {tuple(x.shape)}, and its axis {axis} must have the "
                f"{expected} tokens of {of}: pass the axis of the sequence"
            )

    def check_values(self, given: Mapping[str, Any]) -> None:
        """Raises where a value that decides the mask is not the one that the plan was made for.

        Values are compared number by number with the plan's own copy. Only the plan's own tensor on
        a GPU, which that would wait for, is known by PyTorch's count of changes.

        Args:
            given: of a call, by name.
        """
        for name, decided in self._decided.items():
            value = given.get(name)
            version = version_of(value)
            if value is decided and version is not None:
                is_same = version == self._versions[name]
            else:
                is_same = is_equal(value, self._planned[name])
            if not is_same and value is decided:
                raise InvalidArgumentError(
                    f"'{name}' decides which pairs are kept, and it was changed in place since the "
                    "plan was made: make a plan for the new values"
                )
            if not is_same:
                raise InvalidArgumentError(
                    f"'{name}' decides which pairs are kept, and its value differs from the one "
                    "that the plan was made for: make a plan for this value"
                )

    def value_on(self, name: str, value: Any, device: torch.device) -> Any:
        """A parameter's value as kernels on the device read it.

        Args:
            name: of the parameter.
            value: which ``check_values`` has seen.
            device: of q, k and v.
        """
        value = of_torch(value)
        if not isinstance(value, Tensor) or value.dim() == 0 or value.device == device:
            return value
        if name not in self._decided or value.requires_grad or not value.is_cpu:
            return value.to(device)
        # These numbers are the plan's: one copy serves all layers.
        key = (name, value.dtype, device)
        found = self._copies.get(key)
        if found is None:
            found = self._copies[key] = value.to(device)
        return found

    def check_sizes(self, sizes: Sizes) -> None:
        """Raises where the numbers of batches or heads decide, and are others than the plan's."""
        for decides, what, names in (
            (self._mask.tells_batches, "batch", ("B",)),
            (self._mask.tells_heads, "heads", ("H", "Hkv")),
        ):
            for name in names:
                planned, found = getattr(self._sizes, name), getattr(sizes, name)
                if decides and planned != found:
                    raise InvalidArgumentError(
                        f"{name} is {found}, and the plan was made for {planned}; the mask is "
                        f"computed from it: pass {what}= to tesela.distributed.plan"
                        + (", and kv_heads=" if name != "B" else "")
                    )

    @cached_property
    def digest(self) -> str:
        """The same for two plans by which ranks can run together, else another."""
        made = hashlib.sha256()
        constants = self.variant._arguments({})[1]
        made.update(repr((self.variant.text, constants, self._sizes.Sq, self.cell)).encode())
        made.update(repr(self.ranges).encode())
        for name in self._decided:
            value = self._planned[name]
            made.update(name.encode())
            if isinstance(value, Tensor):
                made.update(repr((value.dtype, tuple(value.shape))).encode())
                made.update(value.contiguous().flatten().view(torch.uint8).numpy().data)
            else:
                made.update(repr(value).encode())
        return made.hexdigest()[:16]

    def __str__(self) -> str:
        work = self.work
        held = [layouts.tokens(each) for each in self.ranges]
        counts = [len(each) for each in self.ranges]
        empty = int((self.pairs == 0).sum())
        link = self.received * self._shape.key_bytes
        fastest = self.choice()
        lines = [
            f"{self.variant.name}: {self.length:,} tokens on {self.ranks} ranks, {self.layout}",
            f"  tokens      {_span(held)} a rank, in {_span(counts)} ranges",
            f"  work        {float(work.sum()):,.0f} tiles of {TILE} x {TILE}, of all heads; the "
            f"busiest rank has {self.imbalance:.3f} of the mean",
            f"  pairs       {empty:,} of {self.ranks**2:,} pairs of ranks are empty",
            f"  keys        a rank receives {_span(self.received.sum(1).int().tolist())} tokens; "
            f"the busiest link carries {_bytes(float(link.max()) if link.numel() else 0.0)}",
            f"  predicted   efficiency {fastest.efficiency:.3f} by '{fastest.scheme}' (a forward "
            f"pass of {self._shape.heads} heads, {self._shape.kv_heads} kv heads, D "
            f"{self._shape.head_dim}; a model, not a measurement)",
        ]
        for each in self.predictions():
            time = "cannot be" if each.efficiency == 0 else f"{each.seconds * 1e3:.3g} ms"
            lines.append(f"    {each.scheme:<8}  {time}: {each.why}")
        if self.ranks <= 16:
            lines.append("  rank   tokens  tiles kept  receives")
            for rank in range(self.ranks):
                lines.append(
                    f"  {rank:>4} {held[rank]:>8,} {float(work[rank]):>11,.0f} "
                    f"{int(self.received[rank].sum()):>9,}  {_listed(self.ranges[rank])}"
                )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<tesela.distributed.Plan {self.variant.name}, {self.length} tokens, {self.layout}>"


def plan(
    variant: Variant | str | Any,
    *,
    length: int,
    group: Any = None,
    ranks: int | None = None,
    layout: str | Sequence[Sequence[Range]] = "search",
    scheme: str = "auto",
    batch: int | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int = 128,
    head_dim_v: int | None = None,
    dtype: torch.dtype = torch.bfloat16,
    machine: Machine | None = None,
    cell: int | None = None,
    **parameters: Any,
) -> Plan:
    """Splits a sequence over the ranks of a group, for one mask.

    Every rank calls it with the same arguments, and gets the same plan; nothing is sent.

    Args:
        variant: a :class:`tesela.Variant`, or what :func:`tesela.variant` takes.
        length: tokens of the sequence, queries and keys alike.
        group: of torch.distributed; None: all of its processes. A rank is a place in the group.
        ranks: instead of a group: a plan for so many, to be looked at.
        layout: "contiguous", one range a rank; "zigzag", two; "striped", cell after cell;
            "balanced", cells by their work, as many for each; "near", the same, and near to the
            keys that they need; "work", one range a rank, as long as it has its share of the work;
            "search", of "contiguous", "zigzag" and "near" the fastest by prediction whose busiest
            rank has at most 1.05 of the mean work; where none has, "balanced", then "striped", or
            the most even of all. Or the ranges themselves: a list of (begin, end) for each rank.
        scheme: how keys come to the queries. "gather": those that a rank needs, all before its
            kernels; "ring": rank by rank, while kernels run; "heads": queries and keys are dealt
            anew, each rank has some heads of all tokens; "auto": what is predicted to be fastest
            for a call's sizes.
        batch: sequences; None: what the shapes of captured tensors tell, else 1.
        heads: of queries; None: likewise. They matter where the mask tells heads apart, and for
            predictions. Where neither says how many there are, predictions take 32, and 8 of keys
            and values.
        kv_heads: of keys and values; None: as heads.
        head_dim: for predictions, and so are the next three.
        head_dim_v: None: as head_dim.
        dtype: of q, k and v.
        machine: what predictions are made with.
        cell: tokens of a cell, of which it is known whether pairs are kept; None: an eighth of a
            rank's tokens, a multiple of 128 where these are many.
        parameters: values of the variant's parameters. The mask's are needed; the plan keeps a
            copy of these on the host.

    Raises:
        InvalidArgumentError: a value does not fit, or one that the mask is computed from lacks.
    """
    if callable(variant) and not isinstance(variant, Variant):
        variant, parameters = variant_of(variant, **parameters), {}
    whole = as_variant(variant)
    if parameters:
        whole = whole.bind(**parameters)
    if scheme != "auto" and scheme not in SCHEMES:
        raise InvalidArgumentError(
            f"the scheme is {scheme!r}, it must be 'auto', {', '.join(map(repr, SCHEMES))}"
        )
    rank = None
    if ranks is None:
        if not dist.is_initialized():
            raise InvalidArgumentError(
                "there is no process group: call torch.distributed.init_process_group before, or "
                "pass ranks= for a plan that is only printed"
            )
        ranks, rank = dist.get_world_size(group), dist.get_rank(group)
        if rank < 0:
            raise InvalidArgumentError(
                "this process is not in the group: call plan only on the group's ranks"
            )
    elif group is not None:
        raise InvalidArgumentError("both group and ranks are given: pass one of them")
    if ranks < 1 or length < 0:
        raise InvalidArgumentError(
            f"length is {length} and ranks is {ranks}: ranks must be at least 1, and length at "
            "least 0"
        )
    found = extents(whole, whole.bound, B=batch, H=heads, Hkv=kv_heads, Sq=length, Sk=length)
    sizes = Sizes(**{name: found[name] for name in Sizes._fields})
    shape = Shape(
        sizes.B,
        *((sizes.H, sizes.Hkv) if found["H"] > 1 or heads is not None else (32, 8)),
        *(head_dim, head_dim_v or head_dim, dtype.itemsize),
    )
    machine = machine or Machine()
    cell = cell or cell_size(length, ranks)
    mask = cell_mask(whole, whole._arguments({})[1], cell)
    placed(whole).check_captures(whole.bound, sizes)
    host = {name: on_host(value) for name, value in whole.bound.items() if name in mask.deciding}
    counts = mask.count(host, sizes)
    if isinstance(layout, str):
        owners, told = _owners(layout, counts, ranks, cell, sizes, shape, machine, mask.full)
        ranges = layouts.ranges_of(owners, cell, length, ranks)
    else:
        ranges, told = layouts.checked(layout, length, ranks), "given ranges"
    decided = _deciding(whole, mask)
    host = {name: host.get(name, value) for name, value in decided.items()}
    return Plan(
        whole, sizes, ranges, told, mask, counts, decided, host, rank, group, machine, shape, scheme
    )


def _owners(
    layout: str,
    counts: Counts,
    ranks: int,
    cell: int,
    sizes: Sizes,
    shape: Shape,
    machine: Machine,
    full: int,
) -> tuple[list[int], str]:
    """The rank of each cell, and how it was found."""
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
        return _native.deal_cells(counts.work, cells, ranks, _SLACK), layout
    if layout == "balanced" or cells == 0:
        return layouts.balanced(work, ranks), layout
    bandwidth = (
        machine.node_bandwidth if ranks <= machine.ranks_per_node else machine.network_bandwidth
    )
    scale = shape.batch * shape.heads / max(sizes.B * sizes.H, 1)
    seconds_of_pair = 2 * (shape.head_dim + shape.head_dim_v) * scale / machine.flops
    seconds_of_work = cell**2 * seconds_of_pair / full
    seconds_of_key = cell * shape.key_bytes / bandwidth
    best: tuple[float, float, str, list[int]] | None = None
    candidates: dict[str, Callable[[], list[int]]] = {
        "contiguous": lambda: layouts.contiguous(cells, ranks),
        "zigzag": lambda: layouts.zigzag(cells, ranks),
        "near": lambda: _native.deal_cells(counts.work, cells, ranks, _SLACK),
        "balanced": lambda: layouts.balanced(work, ranks),
        "striped": lambda: layouts.striped(cells, ranks),
    }
    for name, make in candidates.items():
        if name in ("balanced", "striped") and best is not None and best[0] == 1:
            break  # they send more than those before, and are there for masks that defeat these
        owners = make()
        split = _native.split_cells(counts.work, owners, ranks)
        # Of a ring most of the sending runs beside the kernels.
        seconds = max(
            max(load * seconds_of_work, keys * seconds_of_key) + ranges * machine.launch
            for load, keys, ranges in split
        )
        loads = [load for load, _, _ in split]
        uneven = max(loads) * ranks / max(sum(loads), 1)
        uneven = uneven if uneven > _EVEN else 1.0
        if best is None or (uneven, seconds) < (best[0], best[1] * _MUCH_BETTER):
            best = uneven, seconds, name, owners
    assert best is not None
    return best[3], f"{best[2]} (found by search)"


def _deciding(whole: Variant, mask: CellMask) -> dict[str, Any]:
    """The values that decide the mask, defaults too."""
    defaults = {each.name: each.default for each in whole.parameters}
    return {name: whole.bound.get(name, defaults[name]) for name in mask.deciding}


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
