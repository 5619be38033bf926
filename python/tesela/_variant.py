# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Variants: how attention is computed, as a text of Tesela's language."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import copy
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any, NamedTuple

from tesela import _native
from tesela._arguments import MOST_LENGTH, whole
from tesela._contexts import HOST, context
from tesela._devices import devices
from tesela._errors import Error, InvalidArgumentError, NotFoundError
from tesela._explain import Explanation

_FOLDER = Path(__file__).parent / "share" / "tesela" / "variants"
_TYPE_NAMES = ("f32", "f16", "bf16", "i32", "bool")


class Parameter(NamedTuple):
    """A parameter that a variant's text declares.

    Attributes:
        name: the name.
        type: "f32", "f16", "bf16", "i32" or "bool".
        shape: the extents of a captured tensor as the text has them, ``("H", "2*Sk+1")``; None for
            a scalar.
        constant: whether its value is compiled into the kernel (``const``).
        default: the default of a scalar; None if it has none.
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
"""The parameters of dropout, as in tesela/c/kernel.h. The state may be left out."""


def _extent_text(name: str, coefficient: int, offset: int) -> str:
    if coefficient == 0:
        return str(offset)
    text = name if coefficient == 1 else f"{coefficient}*{name}"
    return f"{text}{offset:+}" if offset else text


class _Program:
    """A checked text with its kernels. Variants with the same text and other values share it.

    ``dropping`` is the same text with kernels for dropout, whose launches have the parameters of
    ``_DROPOUT``, too.
    """

    __slots__ = (
        "constants",
        "dropping",
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
        # PyTorch's compiler writes operators' arguments into a one-line comment of the code that it
        # generates. A text with several lines would be a syntax error there.
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
        # Made here, because code that torch.compile follows must not change this object.
        self.dropping = copy(self)
        self.dropping._set_slots(self.slots + tuple(each.name for each in _DROPOUT), True)
        self.dropping.dropping = self.dropping

    def _set_slots(self, slots: tuple[str, ...], drops: bool) -> None:
        self.slots = slots
        self.place = {name: slot for slot, name in enumerate(slots)}
        self.drops = drops
        self.kernels: dict[tuple[Any, ...], _native.Kernel] = {}


class Variant:
    """A variant of attention, with values for some of its parameters.

    Made by :func:`tesela.variant`. It is immutable, and several threads may use it at once.
    """

    __slots__ = ("_constants", "_for_launch", "_program", "_values", "bound")

    def __init__(self, program: _Program, values: Mapping[str, Any]) -> None:
        known = program.slots + program.constants
        for name in values:
            if name not in known:
                raise InvalidArgumentError(_unknown(program, name))
        self._program = program
        self.bound = dict(values)
        # In the order of slots; None for a parameter without a value.
        self._values = tuple(values.get(name) for name in program.slots)
        self._constants = tuple(
            (name, float(values[name])) for name in program.constants if name in values
        )
        # A tuple that python/src/Eager.cpp reads.
        self._for_launch = (
            self.bound,
            self._values,
            self._constants,
            program.kernels,
            program.place,
        )

    @property
    def name(self) -> str:
        """The variant's name in the text."""
        return self._program.native.name

    @property
    def text(self) -> str:
        """The text in Tesela's language."""
        return self._program.native.text

    @property
    def warnings(self) -> str:
        """The compiler's warnings about the text, with line, column and caret; "" if none."""
        return self._program.native.warnings

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters that the text declares, in its order."""
        return self._program.parameters

    def bind(self, /, **values: Any) -> Variant:
        """The same variant with these values for parameters. A call may still replace them.

        Both variants share their kernels.

        Raises:
            InvalidArgumentError: there is no parameter of that name.
        """
        return Variant(self._program, {**self.bound, **values})

    def explain(
        self,
        /,
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
        """Explains which tiles of the score matrix a kernel computes. Needs no GPU.

        Args:
            length: the number of queries.
            kv_length: the number of keys; None: length.
            batch: the number of sequences; None: from the shapes of captured tensors, or 1.
            heads: the number of query heads; None: from the shapes of captured tensors, or 1.
            kv_heads: the number of key/value heads; None: heads.
            dtype: the type of q, k and v.
            head_dim: the head dimension of queries and keys.
            head_dim_v: the head dimension of values; None: head_dim.
            target: the target of the kernel, "host" or "sm_90"; None: the first GPU, or the host.
            parameters: values of parameters; captured tensors must be in host memory.

        Returns:
            A :class:`tesela.Explanation`: ``str()`` of it is a report; a notebook shows the
            picture.
        """
        from tesela._prepare import extents, input_type

        length = whole("length", length, 0, MOST_LENGTH, "pass the number of queries")
        if kv_length is not None:
            kv_length = whole("kv_length", kv_length, 0, MOST_LENGTH, "pass the number of keys")
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

    # The interface for the modules of the frameworks (docs/python.md).

    def _dropping(self, values: Mapping[str, Any]) -> Variant:
        """The same variant with dropout and the values of its parameters (``_DROPOUT``)."""
        return Variant(self._program.dropping, {**self.bound, **values})

    def _arguments(
        self, parameters: Mapping[str, Any], function: Callable[..., Any] | None = None
    ) -> tuple[tuple[Any, ...], tuple[tuple[str, float], ...]]:
        """The values of a launch by slot, and the constants. A call's parameters count first.

        Args:
            parameters: the call's keyword arguments that its function does not have.
            function: if it has a similar argument, the error about an unknown parameter names it.
        """
        if not parameters:
            return self._values, self._constants
        place = self._program.place
        values = list(self._values)
        has_constants = False
        for name, value in parameters.items():
            slot = place.get(name)
            if slot is not None:
                values[slot] = value
            elif name in self._program.constants:
                has_constants = True
            else:
                raise InvalidArgumentError(_unknown(self._program, name, function))
        constants = self.bind(**parameters)._constants if has_constants else self._constants
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
        """The kernel for all launches with these values. It is compiled at the first launch."""
        key = (input_type, head_dim_qk, head_dim_v, device, constants, algorithm, *bindings)
        found = self._program.kernels.get(key)
        if found is not None:
            return found
        given = {name for name, _ in constants}
        for each in self.parameters:
            if each.constant and each.default is None and each.name not in given:
                raise InvalidArgumentError(
                    f"the constant '{each.name}' of the variant '{self.name}' has no value: pass "
                    f"{each.name}=... in the call, or to tesela.variant"
                )
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
        """Starts to compile a kernel in the background, when it is first asked for.

        Args:
            queries: the number of queries of the next launch.
            keys: the number of keys of the next launch.
            which: the arguments of _kernel except the last one.
            bindings: the last argument of _kernel.
        """
        if (*which, *bindings) not in self._program.kernels:
            with suppress(Error):  # the launch will report the error
                self._kernel(*which, bindings).prepare(queries, keys, 0, False)


_CAUSAL = "for a causal mask pass the variant 'causal', as in attention(q, k, v, 'causal')"

_FOREIGN = {
    "causal": _CAUSAL,
    "is_causal": _CAUSAL,
    "softmax_scale": "pass it as scale",
    "window_size": "for a window pass the variant 'sliding_window' and its parameter window",
}
"""What to write for an argument that the attention of other packages has."""


def _near(name: str, names: Iterable[str]) -> str:
    """The most similar one of the names, or an empty text."""
    from difflib import get_close_matches  # only here: it takes a millisecond to import

    return next(iter(get_close_matches(name, names, 1, 0.7)), "")


def _near_argument(name: str, function: Callable[..., Any]) -> str:
    """The end of a message about a keyword argument that may be a misspelled one of a function."""
    from inspect import getfullargspec  # only here, as above

    has = getfullargspec(function)
    near = _near(name, [*has.args, *has.kwonlyargs])
    return f": did you mean the argument '{near}' of {function.__name__}?" if near else ""


def _unknown(program: _Program, name: str, function: Callable[..., Any] | None = None) -> str:
    known = ", ".join(each.name for each in program.parameters)
    variant = program.native.name
    said = f"the variant '{variant}' has no parameter '{name}'; " + (
        f"it has {known}" if known else "it has none"
    )
    if name not in _FOREIGN:
        return said + ("" if function is None else _near_argument(name, function))
    if variant == "causal" and _FOREIGN[name] is _CAUSAL:
        return f"{said}: leave '{name}' out, the variant is causal"
    return f"{said}: {_FOREIGN[name]}"


_programs: dict[str, _Program] = {}
"""By text, so that a function that is traced again finds its kernels."""


def _program_of(text: str, file: str) -> _Program:
    found = _programs.get(text)
    if found is None:
        found = _programs.setdefault(text, _Program(text, file))
        _programs.setdefault(found.line, found)
    return found


_known = SimpleNamespace()
"""Variants made from strings, without values, in a form that torch.compile can follow."""

_places: dict[str, str] = {}
"""The variant's attribute in ``_known``, by library name, text or path."""

known_variants: dict[str, Variant] = {}
"""The same variants by library name, text or path, for python/src/Eager.cpp."""

_lock = Lock()


def library() -> tuple[str, ...]:
    """The names of the variants that come with Tesela, sorted. Each may be given as a variant."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.attn")))


def _read(source: str | os.PathLike[str]) -> tuple[str, str]:
    """The text of a source, and the name of its file."""
    if isinstance(source, str) and "{" in source:
        return source, "variant"
    path = Path(source)
    if isinstance(source, str) and path.name == source and not path.suffix:
        path = _FOLDER / f"{source}.attn"
        if not path.is_file():
            near = _near(source, library())
            raise NotFoundError(
                f"there is no variant '{source}' in the library"
                + (f"; did you mean '{near}'?" if near else ":")
                + " tesela.library() lists its names; "
                "a text has the form 'attention name(...) { ... }', a file's name ends in .attn"
            )
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except OSError as error:
        raise NotFoundError(
            f"the variant's file {path} cannot be read: {error.strerror}"
        ) from error


def _load(source: str) -> str:
    """The attribute of ``_known`` for a library name, a text or a path."""
    place = _places.get(source)
    if place is None:
        found = Variant(_program_of(*_read(source)), {})
        with _lock:
            place = _places.get(source)  # another thread may have made it meanwhile
            if place is None:
                place = f"variant_{len(_places)}"
                setattr(_known, place, found)
                known_variants[source] = found
                _places[source] = place
    return place


# torch.compile calls this function while it traces, and does not trace into it.
_load._dynamo_marked_constant = True  # type: ignore[attr-defined]


def as_variant(source: Variant | str | os.PathLike[str] | Callable[..., Any]) -> Variant:
    """``source`` as a variant. A known text, name or path is not read again."""
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
    """Makes a variant of attention, with values for parameters.

    Args:
        source: the name of a library variant (``"alibi"``, see :func:`library`); a text,
            ``"attention name(...) { ... }"``; the path of a file with a text; a Python function of
            the indices, which is traced; or a variant, which keeps its values.
        values: values of parameters: numbers for scalars, tensors for captured tensors. A call of
            :func:`tesela.attention` may replace them. For a function, they are those of its
            arguments that are not indices.

    Raises:
        InvalidVariantError: the text has errors. The message has all of them.
        InvalidArgumentError: a name in ``values`` is not a parameter.
        NotFoundError: there is no such file, and no such name in the library.
    """
    if callable(source) and not isinstance(source, Variant):
        text, captured = importlib.import_module("tesela._trace").trace(source, values)
        return Variant(_program_of(text, "variant"), captured)
    found = as_variant(source)
    return found.bind(**values) if values else found
