# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traces functions into a text, and finds the trace of a function that was traced before."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tesela._arguments import without_memory
from tesela._errors import InvalidArgumentError

from . import arrays, bits, conversions, lax, mathematics, special, state  # noqa: F401 - they register functions
from .capture import Rewriter
from .equalities import simplified
from .error import TraceError, error, error_of_definition, error_of_exception
from .frameworks import python_number
from .graph import BOOL, F32, HIGHEST, I32, LOWEST, Graph, Node, in_order
from .known import leaves_of, value_of
from .paths import Path, Walk, item
from .replay import Replay
from .tensors import element_of, is_tensor, rank_of
from .text import Printer, identifier
from .value import Array, Traced, Value

#: The names that arguments of a traced function may have -> the word of the language.
INDICES: Final = {
    **{name: name for name in ("b", "h", "hkv", "q", "k", "B", "H", "Hkv", "Sq", "Sk", "s")},
    **{"batch": "b", "head": "h", "q_idx": "q", "kv_idx": "k", "k_idx": "k", "score": "s"},
    **{"token_q": "q", "token_kv": "k", "q_head": "h", "kv_head": "hkv"},
}
STATEMENTS: Final = ("mask", "score", "sink")
FLEX_MASK: Final = ("b", "h", "q", "k")
FLEX_SCORE: Final = ("s", "b", "h", "q", "k")


class Capture(NamedTuple):
    """A number or a tensor that a function uses and that is not an index."""

    path: Path | None  # None: a tensor that cannot be found again
    hint: str
    element: str  # the element type in the text; of a number I32 or F32
    rank: int | None  # None: a number
    is_scalar: bool  # a tensor without axes, which is passed as one with one axis
    value: Any  # the tensor, if it cannot be found again


class ChangedError(Exception):
    """A trace is not valid for a function any more."""


class Tracer:
    """Makes one trace.

    `arguments`, at the end of `path`, are values for those arguments of functions that are no
    indices.
    """

    def __init__(self, arguments: Mapping[str, Any], path: Path) -> None:
        self.graph = Graph()
        self.captures: list[Capture] = []
        self.conditions: list[tuple[Path, Any]] = []
        self.shared: list[tuple[Path, Path]] = []
        self.decisions: list[tuple[Node, Any]] = []
        self.is_kept = True
        self._rewriter = Rewriter(self)
        self._replay: Replay | None = None
        self._values: dict[object, Any] = {}
        self._tensors: dict[int, tuple[Any, Path | None, Array | Value]] = {}
        self._arguments: dict[str, Any] = {}
        self._given = arguments
        self._given_path = path

    # Methods that the rewriter calls

    def require(self, path: Path, value: Any) -> None:
        """Requires `path` to lead to an object equal to `value`, or else the trace is not valid."""
        self.conditions.append((path, value))

    def captured_number(self, path: Path, value: int | float, hint: str) -> Any:
        """A number as a scalar parameter, or as a constant if it cannot be a parameter."""
        is_int = isinstance(value, int)
        if not LOWEST <= value <= HIGHEST if is_int else not math.isfinite(value):
            self.require(path, value)
            return value
        index = len(self.captures)
        type_ = I32 if is_int else F32
        self.captures.append(Capture(path, hint, type_, None, False, None))
        self._values[index] = value
        return Value(self.graph.node("scalar", type_, index))

    def captured_tensor(self, path: Path | None, value: Any, hint: str) -> Any:
        """A tensor as a captured tensor. A tensor that is found twice is one parameter."""
        known = self._tensors.get(id(value))
        if known is not None:
            if path is not None and known[1] is not None and path is not known[1]:
                self.shared.append((path, known[1]))
            return known[2]
        graph, index = self.graph, len(self.captures)
        missing = without_memory(value)
        if missing is not None:
            raise error(f"the tensor '{hint}' {missing}")
        element, type_ = element_of(value, hint)
        rank = rank_of(value)
        if rank > 8:
            raise error(f"the tensor '{hint}' has {rank} axes; a captured tensor has at most 8")
        self.captures.append(
            Capture(path, hint, element, rank, rank == 0, value if path is None else None)
        )
        shape = tuple(value.shape) or (1,)
        nodes = tuple(graph.node("extent", I32, (index, axis)) for axis in range(len(shape)))
        self._values.update({(index, axis): int(n) for axis, n in enumerate(shape)})

        def read(indices: tuple[Node, ...]) -> Node:
            return graph.node("read", type_, index, indices)

        made: Array | Value
        made = Array(graph, nodes, read, type_) if rank else Value(read((graph.constant(0),)))
        self._tensors[id(value)] = (value, path, made)
        return made

    # Methods that traced values call

    def foreign(self, value: Any) -> Any:
        """A tensor that the function made, or got in an unknown way.

        Such a trace is made again for each call.
        """
        if not is_tensor(value):
            number = python_number(value)
            if number is not None:
                return Value(self.graph.constant(number))
            raise error(
                f"a traced value was combined with {type(value).__name__} {str(value)[:40]!r}; it "
                "can be combined with numbers, tensors and other traced values"
            )
        if rank_of(value) == 0 and str(getattr(value, "device", "cpu")) == "cpu":
            self.is_kept = False
            return Value(self.graph.constant(value.item()))
        self.is_kept = False
        return self.captured_tensor(None, value, "tensor")

    def decide(self, question: Node) -> bool:
        """The answer to a truth value, such as that of an `if`."""
        if question.uniform:
            return bool(self.number(question))
        if self._replay is None:
            raise error("a traced value has no truth value here; write where(), & and |")
        return self._replay.decide(question)

    def number(self, node: Node) -> Any:
        """The value of a uniform node. The trace is valid only while it stays the same."""
        value = value_of(node, self._values)
        if all(node is not known for known, _ in self.decisions):
            self.decisions.append((node, value))
        return value

    def value_of(self, index: int) -> Any:
        """The value of a captured number."""
        return self._values[index]

    # Running the function

    def run(self, function: Any, path: Path, signature: tuple[str, ...] | None) -> Node:
        """What a function returns, as a node."""
        names = _signature(function, signature, self._given)
        before = state.exchange(self)
        try:
            traced = self._rewriter.function(function, path)
            args = [self._argument(name, keyword) for name, keyword in names if not keyword]
            named = {name: self._argument(name, keyword) for name, keyword in names if keyword}
            if signature is not None:
                args = [self._index(name) for name in signature]
                named = {}
            self._replay = Replay(self.graph)
            node = self._replay.result(lambda: self._once(function, traced, args, named))
            if self._replay.is_mixed:
                raise error_of_definition(
                    "the function returns a condition on one path and a number on another; write "
                    "True and False for a mask, and numbers for a score",
                    function,
                )
            return node
        finally:
            self._replay = None
            state.exchange(before)

    def _argument(self, name: str, keyword: bool) -> Any:
        word = INDICES.get(name)
        if word is not None and name not in self._given:
            return self._index(word)
        if name not in self._arguments:
            path = (*self._given_path, item(name))
            self._arguments[name] = self._rewriter.wrapped(self._given[name], path, name)
        return self._arguments[name]

    def _index(self, word: str) -> Value:
        return Value(self.graph.name(word, F32 if word == "s" else I32))

    def _once(self, function: Any, traced: Any, args: list[Any], named: dict[str, Any]) -> Node:
        try:
            result = traced(*args, **named)
        except TraceError:
            raise
        except Exception as exception:
            raise error_of_exception(exception, exception.__traceback__) from exception
        if isinstance(result, Value):
            return result.node
        if isinstance(result, Array):
            return self._single(function, result)
        number = result if isinstance(result, bool) else python_number(result)
        if number is not None:
            return self.graph.constant(number)
        if result is None:
            raise error_of_definition(
                "the function returns nothing; is a 'return' missing?", function
            )
        if isinstance(result, Traced) or is_tensor(result):
            return self._single(function, self.foreign(result))
        raise error_of_definition(
            f"the function returns {type(result).__name__}; a mask must return a condition, and "
            "a score a number",
            function,
        )

    def _single(self, function: Any, array: Any) -> Node:
        if isinstance(array, Value):
            return array.node
        from .functions import is_one

        if all(map(is_one, array.nodes)):
            node: Node = array.element((self.graph.constant(0),) * array.ndim)
            return node
        raise error_of_definition(
            f"the function returns a tensor with {array.ndim} axes; it must return one value for "
            "each query and key",
            function,
        )


def _signature(
    function: Any, signature: tuple[str, ...] | None, given: Mapping[str, Any]
) -> list[tuple[str, bool]]:
    """The names of a function's arguments, and whether each must be given by name."""
    if signature is not None:
        return []
    function = getattr(function, "_torchdynamo_orig_callable", function)
    code = function.__code__ if isinstance(function, types.FunctionType) else None
    if code is None or code.co_flags & _ANY_ARGUMENTS:
        return _inspected(function, given)
    last = code.co_argcount
    names = code.co_varnames[: last + code.co_kwonlyargcount]
    optional = {
        *names[last - len(function.__defaults__ or ()) : last],
        *(function.__kwdefaults__ or ()),
    }
    return _chosen(function, names, names[last:], optional, given)


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:  # a built-in function
        name = getattr(function, "__name__", function)
        raise TraceError(
            f"the names of the arguments of '{name}' are not known; write a function whose "
            "arguments are indices, as in lambda q, k: q >= k"
        ) from None


def _names(function: Any) -> list[str]:
    """The names of a function's arguments, without those of `*args` and `**kwargs`."""
    parameters = _parameters(function)
    return [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def check_names(functions: Sequence[Any], given: Mapping[str, Any]) -> None:
    """Raises an error unless each given name is an argument of one of the functions."""
    taken = {name for function in functions for name, _ in _signature(function, None, given)}
    for name in given:
        if name not in taken:
            names = {each for function in functions for each in _names(function)}
            own = ", ".join(sorted(names - INDICES.keys()))
            raise InvalidArgumentError(
                f"the function has no argument '{name}': leave it out"
                + (f", or correct its name; it has {own}" if own else "")
            )


_ANY_ARGUMENTS: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def _inspected(function: Any, given: Mapping[str, Any]) -> list[tuple[str, bool]]:
    parameters = _parameters(function)
    names = tuple(p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
    if parameters and not names:
        raise error_of_definition(
            f"the function's only arguments are '{', '.join(map(str, parameters))}', which do not "
            "say which indices it takes; name them, as in def mask(q, k)",
            function,
        )
    only = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    optional = {p.name for p in parameters if p.default is not p.empty}
    return _chosen(function, names, only, optional, given)


def _chosen(
    function: Any,
    names: tuple[str, ...],
    only: tuple[str, ...],
    optional: set[str],
    given: Mapping[str, Any],
) -> list[tuple[str, bool]]:
    chosen = []
    by_name = False
    for name in names:
        is_index = name in INDICES and name not in optional
        if is_index or name in given:
            chosen.append((name, by_name or name in only))
        elif name in optional:
            by_name = True
        else:
            near = [word for word in INDICES if word.lower() == name.lower()]
            raise error_of_definition(
                f"the function's argument '{name}' is not an index and has no value"
                + (f"; did you mean '{near[0]}'?" if near else "")
                + f"; the indices are b, h, hkv, q and k, the score is s; give '{name}' a value: "
                f"tesela.variant(function, {name}=...), or a default",
                function,
            )
    return chosen


class Trace:
    """A text, and where the values of its parameters are."""

    def __init__(self, tracer: Tracer, name: str, statements: list[tuple[str, Node]]) -> None:
        used: set[int] = set()
        order = in_order(node for _, node in statements)
        for node in order:
            if node.op in ("scalar", "read"):
                used.add(node.payload)  # type: ignore[arg-type]
            elif node.op == "extent":
                used.add(node.payload[0])  # type: ignore[index]
        names: dict[object, str] = {}
        taken: list[str] = []
        lines: list[str] = []
        #: The parameters of the text: their names, and where their values are.
        self.parameters: list[tuple[str, Capture]] = []
        for index in sorted(used):
            capture = tracer.captures[index]
            own = identifier(capture.hint, taken)
            taken.append(own)
            names[("scalar", index)] = names[("read", index)] = own
            self.parameters.append((own, capture))
            if capture.rank is None:
                lines.append(f"{own}: {capture.element}")
                continue
            extents = []
            for axis in range(max(capture.rank, 1)):
                extent = identifier(f"{own}_{axis}", taken)
                taken.append(extent)
                names[("extent", (index, axis))] = extent
                extents.append("1" if capture.is_scalar else extent)
            lines.append(f"{own}: {capture.element}[{', '.join(extents)}]")
        body = Printer(names).body(statements, order)
        listed = f"({', '.join(lines)})" if lines else ""
        self.text = f"attention {identifier(name, ())}{listed} {{\n{body}\n}}\n"
        walk = Walk()
        self._walk = walk
        #: (index in the walk, the value that must be there).
        self._equal: list[tuple[int, Any]] = []
        self._same: list[tuple[int, int]] = []
        self.conditions = tracer.conditions
        self.shared = tracer.shared
        for path, expected in tracer.conditions:
            self._equal.append((walk.add(path), expected))
        for path, other in tracer.shared:
            self._same.append((walk.add(path), walk.add(other)))
        self._decisions = tracer.decisions
        needed = set[object]().union(*(leaves_of(node) for node, _ in self._decisions))
        self._parameters = [(name, _Source(c, walk)) for name, c in self.parameters]
        self._needed = [
            (i, _Source(c, walk)) for i, c in enumerate(tracer.captures) if _is_in(i, needed)
        ]
        #: The paths of captured numbers and tensors' shapes on which the text depends.
        self.specialized = [
            (c.path, tracer.value_of(i))
            for i, c in enumerate(tracer.captures)
            if c.path is not None and c.rank is None and _is_in(i, needed)
        ]
        self.is_kept = tracer.is_kept

    def values(self, roots: tuple[Any, ...]) -> dict[str, Any] | None:
        """The present values of the parameters; None if the trace is not valid any more."""
        try:
            ends = self._walk.ends(roots)
            for place, expected in self._equal:
                value = ends[place]
                if value is not expected and (
                    type(value) is not type(expected) or value != expected
                ):
                    return None
            for place, other in self._same:
                if ends[place] is not ends[other]:
                    return None
            if self._needed and not self._decided(ends):
                return None
            return {name: source.value(ends) for name, source in self._parameters}
        except (ChangedError, AttributeError, LookupError, TypeError, ValueError):
            return None

    def _decided(self, ends: list[Any]) -> bool:
        captured: dict[object, Any] = {}
        for index, source in self._needed:
            value = source.value(ends)
            if source.rank is None:
                captured[index] = value
            else:
                captured.update({(index, axis): int(n) for axis, n in enumerate(value.shape)})
        return all(value_of(node, captured) == expected for node, expected in self._decisions)


class _Source:
    """Where the value of one parameter is."""

    __slots__ = ("element", "fixed", "hint", "is_scalar", "place", "rank")

    def __init__(self, capture: Capture, walk: Walk) -> None:
        self.place = None if capture.path is None else walk.add(capture.path)
        self.hint = capture.hint
        self.element = capture.element
        self.rank = capture.rank
        self.is_scalar = capture.is_scalar
        self.fixed = capture.value

    def value(self, ends: list[Any]) -> Any:
        """The present value. Raises ChangedError if it is of another kind."""
        value = self.fixed if self.place is None else ends[self.place]
        if self.rank is not None:
            if self.element != element_of(value, self.hint)[0] or self.rank != rank_of(value):
                raise ChangedError
            return value.reshape(1) if self.is_scalar else value
        kind = type(value)
        if kind is not int and kind is not float:
            value = python_number(value)
            kind = type(value)
        if kind is int:
            if self.element == I32 and LOWEST <= value <= HIGHEST:
                return value
        elif kind is float and self.element == F32 and math.isfinite(value):
            return value
        raise ChangedError


def _is_in(index: int, needed: set[object]) -> bool:
    return index in needed or any(isinstance(n, tuple) and n[0] == index for n in needed)


_traces: dict[tuple[object, ...], tuple[tuple[Any, ...], list[Trace]]] = {}
"""Traces by the code of their functions, the latest first. Neither functions nor values are
kept; the code is kept so that its id stays valid."""

_MOST_TRACES: Final = 16
_MOST_FUNCTIONS: Final = 1024


def traced(
    functions: Mapping[str, Callable[..., Any]],
    arguments: Mapping[str, Any],
    signatures: Mapping[str, tuple[str, ...]],
) -> tuple[str, dict[str, Any]]:
    """The text of functions, and the values of its parameters.

    The keys of `functions` are statements: `mask`, `score`, `sink`, or "" for a mask or a score.
    """
    trace, values = held(functions, arguments, signatures)
    return trace.text, values


def held(
    functions: Mapping[str, Callable[..., Any]],
    arguments: Mapping[str, Any],
    signatures: Mapping[str, tuple[str, ...]],
) -> tuple[Trace, dict[str, Any]]:
    """A valid trace of the functions, known or new, and the values of its parameters."""
    roots = (*functions.values(), arguments)
    codes = tuple(map(_code, functions.values()))
    key = (*functions, *map(id, codes), *arguments)
    known = _traces.get(key)
    if known is not None:
        for trace in known[1]:
            values = trace.values(roots)
            if values is not None:
                return trace, values
    trace = _made(functions, arguments, signatures)
    values = trace.values(roots)
    if values is None:
        raise TraceError("the function changed what it captures while it was traced")
    if trace.is_kept:
        if known is None:
            while len(_traces) >= _MOST_FUNCTIONS:
                _traces.pop(next(iter(_traces)))
            known = _traces.setdefault(key, (codes, []))
        known[1].insert(0, trace)
        del known[1][_MOST_TRACES:]
    return trace, values


def _code(function: Any) -> Any:
    """The code of the innermost wrapped function, or the type of another object."""
    while True:
        inner = getattr(function, "_torchdynamo_orig_callable", None)
        inner = inner or getattr(function, "__wrapped__", None) or getattr(function, "func", None)
        if inner is None:
            return getattr(function, "__code__", None) or type(function)
        function = inner


def _made(
    functions: Mapping[str, Callable[..., Any]],
    arguments: Mapping[str, Any],
    signatures: Mapping[str, tuple[str, ...]],
) -> Trace:
    tracer = Tracer(arguments, (item(len(functions)),))
    statements: list[tuple[str, Node]] = []
    names = []
    for i, (statement, function) in enumerate(functions.items()):
        node = tracer.run(function, (item(i),), signatures.get(statement))
        node = bits.lowered(tracer.graph, simplified(tracer.graph, node))
        statement = statement or ("mask" if node.type == BOOL else "score")
        if any(statement == known for known, _ in statements):
            raise error_of_definition(f"the {statement} is given twice", function)
        if statement == "mask" and node.type != BOOL:
            raise error_of_definition(
                "the mask is a number, it must be a condition: compare it, for example with '!= 0'",
                function,
            )
        if statement == "mask" and node.has_score:
            raise error_of_definition(
                "the mask depends on the score, which differs between devices in its last bits; "
                "return where(condition, score, -inf) from a score instead",
                function,
            )
        statements.append((statement, tracer.graph.number(node) if statement != "mask" else node))
        names.append(getattr(_code(function), "co_name", "function"))
    name = "_".join(name for name in names if name != "<lambda>") or "function"
    return Trace(tracer, name, statements)
