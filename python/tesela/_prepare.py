# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels before they are needed: compiled in the background, and tuned."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tesela import _native
from tesela._contexts import HOST
from tesela._devices import device_number
from tesela._errors import InvalidArgumentError
from tesela._explain import shape_of
from tesela._variant import Variant, as_variant

_TYPES = {
    "float32": _native.F32,
    "float16": _native.F16,
    "bfloat16": _native.BF16,
}


def input_type(dtype: Any) -> int:
    """The library's number of "bfloat16", torch.bfloat16, numpy.float16, ..."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    found = _TYPES.get(name.rpartition(".")[2])
    if found is None:
        raise InvalidArgumentError(
            f"the type is {dtype}, it must be 'bfloat16', 'float16' or 'float32'"
        )
    return found


@dataclass(frozen=True)
class Request:
    """A kernel that will be needed.

    Attributes:
        variant: a :class:`tesela.Variant`, or what :func:`tesela.variant` takes.
        dtype: of q, k and v: "bfloat16", "float16" or "float32", or a framework's own.
        head_dim: of queries and keys.
        head_dim_v: of values; None: as head_dim.
        length: queries that launches will have, about.
        kv_length: keys; None: as length.
        device: "host", "cuda" or "cuda:1"; None: the first GPU, else the host.
        gradients: whether training needs the kernel of the gradients, too.
        deterministic: whether that gives the same bits in each launch, as PyTorch asks for by
            ``torch.use_deterministic_algorithms(True)``.
    """

    variant: Variant | str | Any
    dtype: Any = "bfloat16"
    head_dim: int = 128
    head_dim_v: int | None = None
    length: int = 4096
    kv_length: int | None = None
    device: str | None = None
    gradients: bool = False
    deterministic: bool = False


class Preparation:
    """Kernels that are compiled in the background."""

    def __init__(self, made: list[_native.Preparation]) -> None:
        self._made = made

    @property
    def done(self) -> bool:
        """Whether none is left to compile."""
        return all(each.wait(0) for each in self._made)

    @property
    def best(self) -> bool:
        """Whether all have their best schedules: those of ``fast_start``, too.

        Raises:
            Error: why the best schedule of the first that has none could not be compiled.
        """
        return self.done and all(each.best(0) for each in self._made)

    def wait(self, progress: bool = False, best: bool = False) -> None:
        """Waits for all of them.

        Args:
            progress: show a bar; needs tqdm.
            best: also for the best schedules of those that began with simple ones.

        Raises:
            Error: what went wrong with the first that could not be compiled.
        """
        bar: Callable[[int], object] = lambda _: None  # noqa: E731
        close: Callable[[], object] = lambda: None  # noqa: E731
        if progress:
            shown = importlib.import_module("tqdm.auto").tqdm(
                total=len(self._made), desc="compiling", unit="kernel"
            )
            bar, close = shown.update, shown.close
        try:
            left = list(self._made)
            while left:
                left[0].wait(100)
                waiting = [each for each in left if not each.wait(0)]
                bar(len(left) - len(waiting))
                left = waiting
        finally:
            close()
        for each in self._made:
            each.check()
        for each in self._made if best else ():
            while not each.best(100):
                pass

    def cancel(self) -> None:
        """Takes back what is not done."""
        for each in self._made:
            each.cancel()


def prepare(
    requests: Iterable[Request | Variant | str | Any],
    *,
    seconds: float = 0,
    progress: bool = False,
    fast_start: bool = False,
    **common: Any,
) -> Preparation:
    """Has kernels compiled in the background, so that no launch waits for the compiler.

        tesela.prepare(["causal", window], head_dim=64, length=8192)
        tesela.prepare([tesela.Request("alibi", length=1), ...]).wait()

    Args:
        requests: :class:`Request`, or variants with what ``common`` says.
        seconds: how long it may take; 0: no limit.
        progress: wait, and show a bar meanwhile; needs tqdm.
        fast_start: compile a simple schedule first, which is there in a fraction of the time. The
            best one follows in the background and takes its place at a call, never in a graph that
            is being captured. Results of the two differ in the last bits. Where the best one does
            not compile, a call warns (RuntimeWarning).
        common: the other attributes of :class:`Request`.

    Returns:
        At once, a :class:`Preparation`; with ``progress`` when all are there.
    """
    made = []
    for request in requests:
        if not isinstance(request, Request):
            request = Request(request, **common)
        variant = as_variant(request.variant)
        _, constants = variant._arguments({})
        keys = request.length if request.kv_length is None else request.kv_length
        device = device_number(request.device)
        asks = request.deterministic and device != HOST
        backward = "backward" if asks else "backward_fast"
        for algorithm in ("forward", backward)[: 1 + request.gradients]:
            kernel = variant._kernel(
                input_type(request.dtype),
                request.head_dim,
                request.head_dim_v or request.head_dim,
                device,
                constants,
                algorithm,
            )
            made.append(kernel.prepare(request.length, keys, int(seconds * 1000), fast_start))
    preparation = Preparation(made)
    if progress:
        preparation.wait(progress=True)
    return preparation


@dataclass(frozen=True)
class Trial:
    """A schedule that was looked at.

    Attributes:
        schedule: every choice.
        milliseconds: the median; 0: never timed.
        speedup: over the heuristic's.
        launches: that the median is of.
        is_heuristic: whether it is the heuristic's.
        dropped: why it left the race; "" for finalists.
    """

    schedule: str
    milliseconds: float
    speedup: float
    launches: int
    is_heuristic: bool
    dropped: str


@dataclass(frozen=True)
class Tuning:
    """What came of a tuning.

    Attributes:
        schedule: the choice: the heuristic's where nothing is surely faster.
        is_heuristic: whether it is the heuristic's.
        milliseconds: of a launch.
        speedup: over the heuristic's.
        confidence: how sure the choice is faster than the heuristic's, 0 to 1.
        seconds: that the tuning took.
        time_up: whether the time was over before the choice was sure.
        record: the file that keeps the choice; "" where it is not kept.
        trials: the fastest first.
    """

    schedule: str
    is_heuristic: bool
    milliseconds: float
    speedup: float
    confidence: float
    seconds: float
    time_up: bool
    record: str
    trials: tuple[Trial, ...]


def extents(variant: Variant, values: Mapping[str, Any], **given: int | None) -> dict[str, int]:
    """B, H, Hkv, Sq and Sk: those that are given; else what the shapes of captured tensors tell."""
    found = {name: value for name, value in given.items() if value is not None}
    for parameter in variant.parameters:
        shape = shape_of(values.get(parameter.name))
        if parameter.shape is None or len(shape) != len(parameter.shape):
            continue
        for name, extent in zip(parameter.shape, shape, strict=True):
            if name in ("B", "H", "Hkv", "Sq", "Sk"):
                found.setdefault(name, extent)
    found.setdefault("H", found.get("Hkv", 1))
    found.setdefault("Hkv", found["H"])
    found.setdefault("B", 1)
    return found


def tune(
    variant: Variant | str | Any,
    *,
    length: int,
    kv_length: int | None = None,
    batch: int = 1,
    heads: int = 8,
    kv_heads: int | None = None,
    dtype: Any = "bfloat16",
    head_dim: int = 128,
    head_dim_v: int | None = None,
    device: str | None = None,
    seconds: float = 60,
    exhaustive: bool = False,
    keep: bool = True,
    progress: bool = False,
    **parameters: Any,
) -> Tuning:
    """Finds the fastest schedule for launches of these sizes by measurement, and keeps it.

    Launches of such sizes then run it, in this process from now on and in later ones.

    Args:
        variant: a :class:`tesela.Variant`, or what :func:`tesela.variant` takes.
        length: queries.
        kv_length: keys; None: as length.
        batch: sequences.
        heads: of queries.
        kv_heads: of keys and values; None: as heads.
        dtype: of q, k and v.
        head_dim: of queries and keys.
        head_dim_v: of values; None: as head_dim.
        device: "host", "cuda" or "cuda:1"; None: the first GPU, else the host.
        seconds: how long it may take.
        exhaustive: time every schedule fully, however long that takes.
        keep: write the choice to the cache.
        progress: show a bar; needs tqdm.
        parameters: values of the variant's parameters; captured tensors in the host's memory. Those
            that are not given are random, but what a mask reads must be given.
    """
    chosen = as_variant(variant)
    number = device_number(device)
    values, constants = chosen._arguments(parameters)
    key = (input_type(dtype), head_dim, head_dim_v or head_dim, number, constants)
    bar: Any = None
    if progress:
        bar = importlib.import_module("tqdm.auto").tqdm(desc="tuning", unit="schedule")

    def show(decided: int, total: int, speedup: float, seconds_left: float) -> None:
        bar.total = total
        bar.set_postfix_str(f"{speedup:.2f} x the heuristic's, at most {seconds_left:.0f} s left")
        bar.update(decided - bar.n)

    try:
        known = chosen._kernel(*key).tune(
            (
                batch,
                heads,
                heads if kv_heads is None else kv_heads,
                length,
                length if kv_length is None else kv_length,
            ),
            values,
            seconds,
            exhaustive,
            not keep,
            show if progress else None,
        )
    finally:
        if bar is not None:
            bar.close()
    # Kernels that are compiled from now on know of it.
    chosen._program.kernels.pop(key, None)
    return Tuning(
        known["schedule"],
        bool(known["is_heuristic"]),
        known["milliseconds"],
        known["speedup"],
        known["over_heuristic"],
        known["seconds"],
        bool(known["time_up"]),
        known["record"],
        tuple(
            Trial(schedule, milliseconds, speedup, launches, bool(is_heuristic), dropped)
            for schedule, milliseconds, speedup, launches, is_heuristic, dropped in known["trials"]
        ),
    )
