# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Variants: what is computed of scores, as a text of Tesela's language."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any, NamedTuple

from tesela import _native
from tesela._contexts import HOST, context
from tesela._devices import devices
from tesela._errors import Error, InvalidArgumentError, NotFoundError
from tesela._explain import Explanation

_FOLDER = Path(__file__).parent / "share" / "tesela" / "variants"
_TYPE_NAMES = ("f32", "f16", "bf16", "i32", "bool")


class Parameter(NamedTuple):
    """A parameter that a variant's text declares.

    Attributes:
        name: its name.
        type: "f32", "f16", "bf16", "i32" or "bool".
        shape: of a captured tensor its extents as the text has them, ``("H", "2*Sk+1")``; of a
            scalar None.
        constant: whether its value is compiled into the kernel (``const``).
        default: of a scalar, None where it has none.
    """

    name: str
    type: str
    shape: tuple[str, ...] | None
    constant: bool
    default: float | None


_DROPOUT = (
    Parameter("dropout.p", "f32", None, False, None),
    Parameter("dropout.seed", "i32", None, False, None),
    Parameter("dropout.seed_high", "i32", None, False, 0),
    Parameter("dropout.offset", "i32", None, False, 0),
    Parameter("dropout.offset_high", "i32", None, False, 0),
    Parameter("dropout.first_q", "i32", None, False, 0),
    Parameter("dropout.first_k", "i32", None, False, 0),
    Parameter("dropout.state", "i32", ("4",), False, None),
)
"""Those of launches with dropout, as tesela/c/kernel.h has them; the state may be left out."""


def _extent_text(name: str, coefficient: int, offset: int) -> str:
    if coefficient == 0:
        return str(offset)
    text = name if coefficient == 1 else f"{coefficient}*{name}"
    return f"{text}{offset:+}" if offset else text


class _Program:
    """A checked text and its kernels, which variants with other values share."""

    __slots__ = (
        "_dropping",
        "constants",
        "drops",
        "kernels",
        "line",
        "native",
        "parameters",
        "place",
        "slots",
    )

    def __init__(self, text: str, file: str) -> None:
        self.native = _native.Variant(text, file)
        # PyTorch's compiler writes the arguments of operators into comments of the code that it
        # makes, where a text of several lines is a syntax error.
        self.line = " ".join(" ".join(line.split("//")[0] for line in text.splitlines()).split())
        self.parameters = tuple(
            Parameter(
                name,
                _TYPE_NAMES[kind],
                tuple(_extent_text(*extent) for extent in extents) if is_capture else None,
                constant,
                default,
            )
            for name, kind, is_capture, constant, default, extents in self.native.parameters
        )
        self.constants = tuple(each.name for each in self.parameters if each.constant)
        self._set_slots(tuple(each.name for each in self.parameters if not each.constant), False)

    def _set_slots(self, slots: tuple[str, ...], drops: bool) -> None:
        self.slots = slots
        self.place = {name: slot for slot, name in enumerate(slots)}
        self.drops = drops
        self.kernels: dict[tuple[Any, ...], _native.Kernel] = {}
        self._dropping: _Program | None = None

    def dropping(self) -> _Program:
        """The text's kernels with dropout, whose launches have its parameters besides."""
        if self.drops:
            return self
        if self._dropping is None:
            made = copy(self)
            made._set_slots(self.slots + tuple(each.name for each in _DROPOUT), True)
            self._dropping = made  # another thread's, which came first, has kernels of its own
        return self._dropping


class Variant:
    """A variant of attention, with values for some of its parameters.

    Made by :func:`tesela.variant`. It is immutable, and may be used by several threads at once.
    """

    __slots__ = ("_constants", "_for_launch", "_program", "_values", "bound")

    def __init__(self, program: _Program, values: Mapping[str, Any]) -> None:
        known = program.slots + program.constants
        for name in values:
            if name not in known:
                raise InvalidArgumentError(_unknown(program, name))
        self._program = program
        self.bound = dict(values)
        # By slot; None where there is no value.
        self._values = tuple(values.get(name) for name in program.slots)
        self._constants = tuple(
            (name, float(values[name])) for name in program.constants if name in values
        )
        # What python/src/Eager.cpp reads, at once.
        self._for_launch = (
            self.bound,
            self._values,
            self._constants,
            program.kernels,
            program.place,
        )

    @property
    def name(self) -> str:
        """The name that the text gives it."""
        return self._program.native.name

    @property
    def text(self) -> str:
        """The text in Tesela's language."""
        return self._program.native.text

    @property
    def warnings(self) -> str:
        """What the compiler warns of in the text, with line, column and caret; "" if nothing."""
        return self._program.native.warnings

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What the text declares, in its order."""
        return self._program.parameters

    def bind(self, **values: Any) -> Variant:
        """The same variant with these values for parameters, which a call may still replace.

        Both share their kernels.

        Raises:
            InvalidArgumentError: there is no parameter of such a name.
        """
        return Variant(self._program, {**self.bound, **values})

    def explain(
        self,
        *,
        length: int,
        kv_length: int | None = None,
        batch: int | None = None,
        heads: int | None = None,
        kv_heads: int | None = None,
        dtype: Any = "bfloat16",
        head_dim: int = 128,
        head_dim_v: int | None = None,
        target: str | None = None,
        **parameters: Any,
    ) -> Explanation:
        """Which tiles of the score matrix a kernel computes. Needs no GPU.

        Args:
            length: queries.
            kv_length: keys; None: as length.
            batch: sequences; None: what the shapes of captured tensors tell, else 1.
            heads: of queries; None likewise.
            kv_heads: of keys and values; None: as heads.
            dtype: of q, k and v.
            head_dim: of queries and keys.
            head_dim_v: of values; None: as head_dim.
            target: what the kernel is for, "host" or "sm_90"; None: the first GPU, else the host.
            parameters: values of parameters; captured tensors in the host's memory.

        Returns:
            An :class:`tesela.Explanation`: printed it is a report, a notebook shows the picture.
        """
        from tesela._prepare import extents, input_type

        values, constants = self._arguments(parameters)
        e = extents(
            self,
            {**self.bound, **parameters},
            B=batch,
            H=heads,
            Hkv=kv_heads,
            Sq=length,
            Sk=length if kv_length is None else kv_length,
        )
        kernel = self._kernel(input_type(dtype), head_dim, head_dim_v or head_dim, HOST, constants)
        sizes = (e["B"], e["H"], e["Hkv"], e["Sq"], e["Sk"])
        return Explanation(kernel.explain(sizes, target or devices()[0].target, values))

    def __repr__(self) -> str:
        values = "".join(f", {name}=..." for name in self.bound)
        return f"<tesela.Variant {self.name}{values}>"

    # What the layers over a framework call; /docs/python.md has a page on it.

    def _dropping(self, values: Mapping[str, Any]) -> Variant:
        """The same variant with dropout, and values of its parameters (``_DROPOUT``)."""
        return Variant(self._program.dropping(), {**self.bound, **values})

    def _arguments(
        self, parameters: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[tuple[str, float], ...]]:
        """The values of a launch by slot, and the constants, with a call's own parameters."""
        if not parameters:
            return self._values, self._constants
        place = self._program.place
        values = list(self._values)
        constants = self._constants
        for name, value in parameters.items():
            slot = place.get(name)
            if slot is not None:
                values[slot] = value
            else:  # a constant, or nothing that there is
                constants = self.bind(**parameters)._constants
        return tuple(values), constants

    def _kernel(
        self,
        input_type: int,
        head_dim_qk: int,
        head_dim_v: int,
        device: int,
        constants: tuple[tuple[str, float], ...],
        algorithm: str = "forward",
        bindings: tuple[str, ...] = (),
    ) -> _native.Kernel:
        """The kernel for all launches of these plain values. Compiles nothing: a launch does."""
        key = (input_type, head_dim_qk, head_dim_v, device, constants, algorithm, *bindings)
        found = self._program.kernels.get(key)
        if found is not None:
            return found
        made = _native.Kernel(
            context(device),
            self._program.native,
            input_type,
            head_dim_qk,
            head_dim_v,
            constants,
            "",
            algorithm,
            bindings,
            self._program.drops,
        )
        return self._program.kernels.setdefault(key, made)

    def _begin(
        self,
        queries: int,
        keys: int,
        which: tuple[int, int, int, int, tuple[tuple[str, float], ...], str],
        bindings: tuple[str, ...] = (),
    ) -> None:
        """Has a kernel made in the background, the first time that it is asked for.

        Args:
            queries: how many the next launch has.
            keys: see queries.
            which: the arguments of _kernel before the last one.
            bindings: the last one.
        """
        if (*which, *bindings) not in self._program.kernels:
            with suppress(Error):  # a launch will say what is wrong
                self._kernel(*which, bindings).prepare(queries, keys, 0, False)


def _unknown(program: _Program, name: str) -> str:
    known = ", ".join(each.name for each in program.parameters)
    variant = program.native.name
    return f"the variant '{variant}' has no parameter '{name}'; " + (
        f"it has {known}" if known else "it has none"
    )


_programs: dict[str, _Program] = {}
"""By their text: a function that is traced again finds its kernels."""


def _program_of(text: str, file: str) -> _Program:
    found = _programs.get(text)
    if found is None:
        found = _programs.setdefault(text, _Program(text, file))
        _programs.setdefault(found.line, found)
    return found


_known = SimpleNamespace()
"""Variants that came from strings, without values, where torch.compile can follow."""

_places: dict[str, str] = {}
"""The attribute of ``_known``, by name of the library, text or path."""

known_variants: dict[str, Variant] = {}
"""The same variants by name of the library, text or path, for python/src/Eager.cpp."""

_lock = Lock()


def library() -> tuple[str, ...]:
    """The names of the variants that come with Tesela, sorted; each may stand for a variant."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.attn")))


def _read(source: str | os.PathLike[str]) -> tuple[str, str]:
    """The text of a source, and the name of its file."""
    if isinstance(source, str) and "{" in source:
        return source, "variant"
    path = Path(source)
    if isinstance(source, str) and path.name == source and not path.suffix:
        path = _FOLDER / f"{source}.attn"
        if not path.is_file():
            raise NotFoundError(
                f"there is no variant '{source}' in the library: tesela.library() lists its names; "
                "a text has the form 'attention name(...) { ... }', a file's name ends in .attn"
            )
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except OSError as error:
        raise NotFoundError(
            f"the variant's file {path} cannot be read: {error.strerror}"
        ) from error


def _load(source: str) -> str:
    """Where ``_known`` has the variant of a name of the library, a text or a path."""
    place = _places.get(source)
    if place is None:
        found = Variant(_program_of(*_read(source)), {})
        with _lock:
            place = _places.get(source)  # which another thread may have made meanwhile
            if place is None:
                place = f"variant_{len(_places)}"
                setattr(_known, place, found)
                known_variants[source] = found
                _places[source] = place
    return place


# torch.compile calls it while it traces, and does not look inside.
_load._dynamo_marked_constant = True  # type: ignore[attr-defined]


def as_variant(source: Variant | str | os.PathLike[str] | Callable[..., Any]) -> Variant:
    """``source`` as a variant; a text, a name or a path that was seen before is not read again."""
    if isinstance(source, Variant):
        return source
    if isinstance(source, str):
        found: Variant = getattr(_known, _load(source))
        return found
    if isinstance(source, os.PathLike):
        return Variant(_program_of(*_read(source)), {})
    if callable(source):
        return variant(source)
    raise InvalidArgumentError(
        f"a variant is a name of the library, a text, a path or a function, not a {type(source)}"
    )


def variant(
    source: Variant | str | os.PathLike[str] | Callable[..., Any], /, **values: Any
) -> Variant:
    """A variant of attention, with values for parameters.

    Args:
        source: the name of one of the library's (``"alibi"``, see :func:`library`); a text,
            ``"attention name(...) { ... }"``; a path of a file with a text; a Python function of
            the indices, which is traced; or a variant, whose values stay.
        values: of parameters; numbers for scalars, tensors for captured tensors. A call of
            :func:`tesela.attention` may replace them. Of a function, its arguments that are no
            indices.

    Raises:
        InvalidVariantError: the text has errors; the sentence has all of them.
        InvalidArgumentError: there is no parameter of a name in ``values``.
        NotFoundError: there is no such file, or no such name in the library.
    """
    if callable(source) and not isinstance(source, Variant):
        text, captured = importlib.import_module("tesela._trace").trace(source, values)
        return Variant(_program_of(text, "variant"), captured)
    found = as_variant(source)
    return found.bind(**values) if values else found
