# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prepares kernels before they are needed: compiles them in the background, and tunes them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from tesela import _native
from tesela._arguments import MOST_LENGTH, MOST_WHOLE, seconds_of, whole
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
    """The library's number for "bfloat16", torch.bfloat16, numpy.float16, ..."""
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
        dtype: the type of q, k and v: "bfloat16", "float16" or "float32", or a framework's dtype.
        head_dim: the head dimension of queries and keys.
        head_dim_v: the head dimension of values; None: head_dim.
        length: the number of queries of launches. A kernel is for 1 query, for 2 to 32, 33 to 64,
            65 to 512, 513 to 2048, or more.
        kv_length: the number of keys; None: length. With more than 512 queries, a kernel is for
            fewer than 2048 keys, for 2048 to 8191, or more.
        device: "host", "cuda" or "cuda:1", or a ``torch.device``; None: the first GPU, or the host
            without one.
        gradients: whether the kernel of the gradients is needed, too, for training.
        deterministic: whether the gradients must have the same bits in each launch, as with
            PyTorch's ``torch.use_deterministic_algorithms(True)``.
    """

    variant: Variant | str | Any
    dtype: Any = "bfloat16"
    head_dim: int = 128
    head_dim_v: int | None = None
    length: int = 4096
    kv_length: int | None = None
    device: Any = None
    gradients: bool = False
    deterministic: bool = False


class Preparation:
    """Kernels that are being compiled in the background."""

    def __init__(self, made: list[_native.Preparation]) -> None:
        self._made = made

    @property
    def done(self) -> bool:
        """Whether all kernels are compiled."""
        return all(each.wait(0) for each in self._made)

    @property
    def best(self) -> bool:
        """Whether all kernels have their best schedules, also after ``fast_start``.

        Raises:
            Error: why the best schedule of a kernel could not be compiled (the first such kernel).
        """
        return self.done and all(each.best(0) for each in self._made)

    def wait(self, progress: bool = False, best: bool = False) -> None:
        """Waits until all kernels are compiled.

        Args:
            progress: whether to show a bar; needs tqdm.
            best: whether to wait also for the best schedules of kernels that began with simple
                ones.

        Raises:
            Error: why a kernel could not be compiled (the first such kernel).
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
        """Cancels the kernels that are not compiled yet."""
        for each in self._made:
            each.cancel()


def _size(name: str, value: Any) -> int:
    return whole(name, value, 0, MOST_LENGTH, "pass the number of the launches to come")


def prepare(
    requests: Iterable[Request | Variant | str | Any],
    *,
    seconds: float = 0,
    progress: bool = False,
    fast_start: bool = False,
    **common: Any,
) -> Preparation:
    """Compiles kernels in the background, so that no launch waits for the compiler.

        tesela.prepare(["causal", window], head_dim=64, length=8192)
        tesela.prepare([tesela.Request("alibi", length=1), ...]).wait()

    Args:
        requests: :class:`Request` objects, or variants to which ``common`` applies.
        seconds: the time limit; 0: no limit.
        progress: whether to wait and show a bar; needs tqdm.
        fast_start: compile a simple schedule first, which takes a fraction of the time. The best
            schedule follows in the background. It replaces the simple one at a call, but never in a
            graph that is being captured. Results of the two differ in the last bits. If the best
            schedule does not compile, a call warns (RuntimeWarning).
        common: the other attributes of :class:`Request`.

    Returns:
        A :class:`Preparation`, immediately; with ``progress`` when all kernels are compiled.

    Raises:
        InvalidArgumentError: an argument is not accepted. Errors of the compiler are raised by
            :meth:`Preparation.wait`.
    """
    if isinstance(requests, (str, Variant, Request)):  # a text would be read letter by letter
        raise InvalidArgumentError(
            f"the requests are {requests!r}, they must be a list: pass [{requests!r}]"
        )
    limit = seconds_of(seconds, "0 means no limit")
    milliseconds = min(ceil(limit * 1000), MOST_WHOLE)
    made = []
    for request in requests:
        if not isinstance(request, Request):
            request = Request(request, **common)
        variant = as_variant(request.variant)
        _, constants = variant._arguments({})
        length, head_dim = _size("length", request.length), _size("head_dim", request.head_dim)
        keys = length if request.kv_length is None else _size("kv_length", request.kv_length)
        device = device_number(request.device)
        asks = request.deterministic and device != HOST
        backward = "backward" if asks else "backward_fast"
        for algorithm in ("forward", backward)[: 1 + request.gradients]:
            kernel = variant._kernel(
                input_type(request.dtype),
                head_dim,
                _size("head_dim_v", request.head_dim_v) if request.head_dim_v else head_dim,
                device,
                constants,
                algorithm,
            )
            made.append(kernel.prepare(length, keys, milliseconds, fast_start))
    preparation = Preparation(made)
    if progress:
        preparation.wait(progress=True)
    return preparation


@dataclass(frozen=True)
class Trial:
    """A schedule that the tuner considered.

    Attributes:
        schedule: all choices of the schedule.
        milliseconds: the median time; 0 if it was never timed.
        speedup: how many times as fast as the heuristic's schedule.
        launches: the number of timed launches.
        is_heuristic: whether this is the heuristic's schedule.
        dropped: why the schedule left the race; "" for finalists.
    """

    schedule: str
    milliseconds: float
    speedup: float
    launches: int
    is_heuristic: bool
    dropped: str


@dataclass(frozen=True)
class Tuning:
    """The result of a tuning.

    Attributes:
        schedule: the chosen schedule: the heuristic's, unless another one is surely faster.
        is_heuristic: whether this is the heuristic's schedule.
        milliseconds: the time of a launch.
        speedup: how many times as fast as the heuristic's schedule.
        confidence: the confidence that the choice is faster than the heuristic's, 0 to 1.
        seconds: the duration of the tuning.
        time_up: whether the time was over before the result was certain.
        record: the file that stores the choice; "" if it is not stored.
        trials: all schedules, the fastest first.
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
    """B, H, Hkv, Sq and Sk: the given ones; the others follow from shapes of captured tensors."""
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
    """Measures which schedule is fastest for launches of these sizes, and keeps the choice.

    From now on launches of such sizes run it, in this process and in later ones.

    Args:
        variant: a :class:`tesela.Variant`, or what :func:`tesela.variant` takes.
        length: the number of queries.
        kv_length: the number of keys; None: length.
        batch: the number of sequences.
        heads: the number of query heads.
        kv_heads: the number of key/value heads; None: heads.
        dtype: the type of q, k and v.
        head_dim: the head dimension of queries and keys.
        head_dim_v: the head dimension of values; None: head_dim.
        device: "host", "cuda" or "cuda:1"; None: the first GPU, or the host without one.
        seconds: the time limit.
        exhaustive: whether to time every schedule fully, without the time limit.
        keep: whether to store the choice in the cache.
        progress: whether to show a bar; needs tqdm.
        parameters: values of the variant's parameters; captured tensors must be in host memory.
            Those that are not given are random, except that the ones that a mask reads must be
            given.
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
    # Kernels that are compiled from now on use the choice.
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
