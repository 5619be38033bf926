# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The objects that a traced function computes with.

A value is one number or truth value, in place of a 0-dimensional tensor. An array is a tensor,
which is never computed as a whole.

All operators, methods and functions of PyTorch, NumPy and JAX are looked up by name in the table of
`functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

from . import state
from .error import TraceAttributeError, error
from .graph import BOOL, F32, I32, Graph, Node, is_natural, number_of
from .known import leaves_of

#: The table of `functions`. That module fills it, because its functions need the classes below.
TABLE: Final[dict[str, Callable[..., Any]]] = {}

#: A framework's name for a function -> its name in `TABLE`.
ALIASES: Final[dict[str, str]] = {}

_DTYPES: Final = {I32: "int32", F32: "float32", BOOL: "bool"}


def find(name: str) -> Callable[..., Any] | None:
    """The function in the table for a framework's name: `torch.clip`, `Tensor.__rsub__`."""
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
    return TABLE.get(ALIASES.get(name, name))


def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], framework: str = "") -> Any:
    """Calls the function with a framework's name."""
    function = find(name)
    if function is None:
        from difflib import get_close_matches

        near = get_close_matches(name.strip("_"), [*TABLE, *ALIASES], 1, 0.8)
        raise error(
            f"the function '{framework}{name}' cannot be traced"
            + (f"; did you mean '{near[0]}'?" if near and framework != "math." else "")
            + "; write it with operators, where, minimum, maximum, clamp, abs, floor, exp, log, "
            "sqrt, tanh, sin and cos"
        )
    _leave_out(name, args, kwargs, framework)
    try:
        return function(*args, **kwargs)
    except TypeError as wrong:
        if wrong.__traceback__ is None or wrong.__traceback__.tb_next is not None:
            raise
        raise error(
            f"'{framework}{name}' was called in a way that cannot be traced: {wrong}"
        ) from None


#: Keywords that say how a framework computes or stores a result, and not what it is.
_WITHOUT_EFFECT: Final = frozenset(
    (
        *("assume_unique", "casting", "copy", "device", "kind", "layout"),
        *("memory_format", "method", "non_blocking", "order", "out_int32", "pin_memory"),
        *("precision", "promote_integers", "requires_grad", "subok"),
    )
)


def _leave_out(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], framework: str) -> None:
    """Removes the keywords that have no effect on a traced value."""
    for each in _WITHOUT_EFFECT & kwargs.keys():
        del kwargs[each]
    if kwargs.get("where") is True:
        del kwargs["where"]
    out = kwargs.pop("out", None)
    out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    # NumPy's `a += b` for an array of its own has out=(a,).
    is_own = bool(args) and out is args[0] and not isinstance(out, Traced)
    if kwargs.pop("inplace", False):
        raise error(f"'{framework}{name}' cannot change its argument; leave 'inplace' out")
    if out is not None and not is_own:
        raise error(
            f"the result of '{framework}{name}' cannot be written to a tensor; leave 'out' out, "
            "and use what the function returns"
        )


class Traced:
    """The common part of values and arrays: operators, methods, protocols of the frameworks."""

    __slots__ = ()
    graph: Graph

    # Operators

    def __add__(self, other: Any) -> Any:
        return TABLE["add"](self, other)

    def __radd__(self, other: Any) -> Any:
        return TABLE["add"](other, self)

    def __sub__(self, other: Any) -> Any:
        return TABLE["sub"](self, other)

    def __rsub__(self, other: Any) -> Any:
        return TABLE["sub"](other, self)

    def __mul__(self, other: Any) -> Any:
        return TABLE["mul"](self, other)

    def __rmul__(self, other: Any) -> Any:
        return TABLE["mul"](other, self)

    def __truediv__(self, other: Any) -> Any:
        return TABLE["div"](self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return TABLE["div"](other, self)

    def __floordiv__(self, other: Any) -> Any:
        return TABLE["floor_divide"](self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return TABLE["floor_divide"](other, self)

    def __mod__(self, other: Any) -> Any:
        return TABLE["remainder"](self, other)

    def __rmod__(self, other: Any) -> Any:
        return TABLE["remainder"](other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any) -> Any:
        return TABLE["pow"](self, other)

    def __rpow__(self, other: Any) -> Any:
        return TABLE["pow"](other, self)

    def __matmul__(self, other: Any) -> Any:
        return TABLE["matmul"](self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return TABLE["matmul"](other, self)

    def __and__(self, other: Any) -> Any:
        return TABLE["bitwise_and"](self, other)

    def __rand__(self, other: Any) -> Any:
        return TABLE["bitwise_and"](other, self)

    def __or__(self, other: Any) -> Any:
        return TABLE["bitwise_or"](self, other)

    def __ror__(self, other: Any) -> Any:
        return TABLE["bitwise_or"](other, self)

    def __xor__(self, other: Any) -> Any:
        return TABLE["bitwise_xor"](self, other)

    def __rxor__(self, other: Any) -> Any:
        return TABLE["bitwise_xor"](other, self)

    def __lshift__(self, other: Any) -> Any:
        return TABLE["bitwise_left_shift"](self, other)

    def __rlshift__(self, other: Any) -> Any:
        return TABLE["bitwise_left_shift"](other, self)

    def __rshift__(self, other: Any) -> Any:
        return TABLE["bitwise_right_shift"](self, other)

    def __rrshift__(self, other: Any) -> Any:
        return TABLE["bitwise_right_shift"](other, self)

    def __lt__(self, other: Any) -> Any:
        return TABLE["lt"](self, other)

    def __le__(self, other: Any) -> Any:
        return TABLE["le"](self, other)

    def __gt__(self, other: Any) -> Any:
        return TABLE["gt"](self, other)

    def __ge__(self, other: Any) -> Any:
        return TABLE["ge"](self, other)

    def __eq__(self, other: Any) -> Any:
        return False if _is_no_operand(other) else TABLE["eq"](self, other)

    def __ne__(self, other: Any) -> Any:
        return True if _is_no_operand(other) else TABLE["ne"](self, other)

    def __neg__(self) -> Any:
        return TABLE["neg"](self)

    def __pos__(self) -> Any:
        return self

    def __invert__(self) -> Any:
        return TABLE["bitwise_not"](self)

    def __abs__(self) -> Any:
        return TABLE["abs"](self)

    def __round__(self, digits: Any = None) -> Any:
        return self._whole("round", digits)

    def __floor__(self) -> Any:
        return self._whole("floor", None)

    def __ceil__(self) -> Any:
        return self._whole("ceil", None)

    def __trunc__(self) -> Any:
        return self._whole("trunc", None)

    def _whole(self, name: str, digits: Any) -> Any:
        """For Python's rounding functions, which give an integer."""
        if digits is not None:
            raise error("round() to a number of digits cannot be traced; scale the value instead")
        return TABLE["int"](TABLE[name](self))

    # Methods and attributes

    def __getattr__(self, name: str) -> Any:
        function = None if name.startswith("__") else find(name)
        if function is None or name.endswith("_"):
            hint = "; a traced value cannot be changed in place" if name.endswith("_") else ""
            raise error(
                f"a traced value has no attribute '.{name}'{hint}; it has operators and the "
                "elementwise methods of a tensor",
                TraceAttributeError,
            )

        def method(*args: Any, **kwargs: Any) -> Any:
            return call(name, (self, *args), kwargs, ".")

        return method

    @property
    def dtype(self) -> Any:
        """PyTorch's dtype if PyTorch is loaded, otherwise NumPy's."""
        name = _DTYPES[self.element_type()]
        framework = state.framework("torch") or state.framework("numpy")
        return name if framework is None else getattr(framework, name)

    @property
    def device(self) -> Any:
        """PyTorch's device of the host, because what is made from it is a constant."""
        torch = state.framework("torch")
        return "cpu" if torch is None else torch.device("cpu")

    def element_type(self) -> str:
        """The element's type in the language."""
        raise NotImplementedError

    # Operations that need a number now

    def __hash__(self) -> NoReturn:
        raise error(
            "a traced value was looked for in a set or as the key of a dictionary; "
            "compare it with '==' or 'in (...)', or index a tensor with it"
        )

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise error("a traced function cannot change a tensor; use where(condition, value, other)")

    # Protocols of the frameworks

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return call(function.__name__, args, dict(kwargs or {}), "torch.")

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            raise error(
                f"'numpy.{ufunc.__name__}.{method}' cannot be traced; write operators one by one"
            )
        return call(ufunc.__name__, args, kwargs, "numpy.")

    def __array_function__(
        self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        return call(function.__name__, args, dict(kwargs), "numpy.")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise error(
            "a NumPy array cannot be made of a traced value; write the value itself in place of "
            "np.array(value), and its functions one by one"
        )

    def __jax_array__(self) -> NoReturn:
        raise error(
            "jax.numpy met a traced value in a way that cannot be traced; call functions as "
            "jnp.name(...), or use operators and tesela.where, minimum, maximum"
        )


def _is_no_operand(other: Any) -> bool:
    return other is None or isinstance(other, (str, bytes, type))


class Value(Traced):
    """One number or truth value: `node` of the graph."""

    __slots__ = ("graph", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.graph = node.graph

    def element_type(self) -> str:
        return self.node.type

    def __repr__(self) -> str:
        from .text import expression

        return f"<traced {self.node.type}: {expression(self.node)}>"

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def ndim(self) -> int:
        return 0

    def __bool__(self) -> bool:
        node = self.graph.boolean(self.node)
        if node.op == "const":
            return bool(node.payload)
        return state.current().decide(node)

    def __index__(self) -> int:
        value = self._known(
            "was used where Python needs an integer, such as range() or the index of a list or "
            "NumPy array that the function made itself; make a tensor outside of the function and "
            "index that, or write a condition"
        )
        if not isinstance(value, int):
            raise TypeError(f"the index is the float {value}, it must be an integer")
        return value

    def __int__(self) -> int:
        return int(self._known("was given to int(); write x.int() or torch.floor(x)"))

    def __float__(self) -> float:
        return float(
            self._known(
                "was given to a function of Python's numbers; use the function of torch, NumPy "
                "or jax.numpy"
            )
        )

    def item(self) -> Any:
        """The number, if it is known while the function is traced."""
        return self._known("was asked for its number; leave '.item()' out")

    def _known(self, otherwise: str) -> Any:
        if self.node.op == "const":
            return number_of(self.node) if self.node.type != BOOL else self.node.payload
        if self.node.uniform:
            return state.current().number(self.node)
        raise error(f"a value that differs from pair to pair {otherwise}")

    def __len__(self) -> NoReturn:
        raise error(
            "a traced value has no length, and no tensor can be made of it; write the value itself "
            "in place of torch.tensor(value)"
        )

    def __iter__(self) -> NoReturn:
        raise error("a traced value is one number, it cannot be unpacked or iterated")

    def __getitem__(self, index: Any) -> Any:
        if index in ((), ...):
            return self
        return Array(self.graph, (), lambda _: self.node)[index]


class Array(Traced):
    """A tensor whose elements are read one by one.

    It is a captured tensor, or it is computed from such.

    `shape` are its extents. `element` gives the element at the same number of indices.
    """

    __slots__ = ("_type", "element", "graph", "nodes")

    def __init__(
        self,
        graph: Graph,
        shape: tuple[Node, ...],
        element: Callable[[tuple[Node, ...]], Node],
        type_: str | None = None,
    ) -> None:
        self.graph = graph
        self.nodes = shape
        self.element = element
        self._type = type_

    def element_type(self) -> str:
        if self._type is None:
            zero = self.graph.constant(0)
            self._type = self.element((zero,) * len(self.nodes)).type
        return self._type

    def __repr__(self) -> str:
        return f"<traced array of {self.ndim} axes>"

    @property
    def shape(self) -> tuple[Value, ...]:
        return tuple(Value(n) for n in self.nodes)

    @property
    def ndim(self) -> int:
        return len(self.nodes)

    @property
    def T(self) -> Array:  # noqa: N802
        """The array with its axes reversed."""
        return self.transposed(tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> Array:  # noqa: N802
        """The array with its last two axes exchanged."""
        if self.ndim < 2:
            raise error(f"'.mT' needs two axes, but the tensor has {self.ndim}; leave it out")
        order = list(range(self.ndim))
        order[-2:] = order[-1], order[-2]
        return self.transposed(tuple(order))

    def transposed(self, axes: tuple[int, ...]) -> Array:
        """An array whose axis i is the axis `axes[i]` of this one."""
        shape = tuple(self.nodes[axis] for axis in axes)
        old = self.element

        def element(indices: tuple[Node, ...]) -> Node:
            return old(tuple(indices[axes.index(axis)] for axis in range(len(axes))))

        return Array(self.graph, shape, element, self._type)

    def __len__(self) -> int:
        return Value(self.nodes[0]).__index__()

    def __iter__(self) -> Iterator[Any]:
        for i in range(len(self)):
            yield self[i]

    def __bool__(self) -> bool:
        raise error("a whole tensor is not a condition; index it, or use .any() or .all()")

    def __index__(self) -> int:
        raise error("a whole tensor is not an integer; index it")

    def __getitem__(self, index: Any) -> Any:
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) == len(self.nodes) and all(type(i) is Value for i in indices):
            places = (position(self.graph, i, n) for i, n in zip(indices, self.nodes, strict=True))
            return Value(self.element(tuple(places)))
        from .slices import indexed

        return indexed(self, indices)


def position(graph: Graph, index: Any, extent: Node) -> Node:
    """The index of one axis. A constant or a captured number below 0 counts from the end."""
    if isinstance(index, (list, tuple)):
        raise error(
            "a tensor was indexed with a list; make a tensor of it outside of the function, and "
            "index that one first, as in t[i[q]]"
        )
    index = operand(graph, index)
    if isinstance(index, Array):
        raise error("a tensor was indexed with a whole tensor; index that one first, as in t[i[q]]")
    node: Node = index.node
    if node.type != I32:
        raise error(
            f"an index must be an integer, this one is {'bool' if node.type == BOOL else 'f32'}; "
            "write x.int() to convert it"
        )
    if node.op == "const" and number_of(node) < 0:
        return graph.arithmetic("+", extent, node)
    if node.uniform and any(isinstance(leaf, int) for leaf in leaves_of(node)):
        return from_end(graph, node, extent)
    return node


def from_end(graph: Graph, node: Node, extent: Node) -> Node:
    """An index that counts from the end if it is below 0."""
    if is_natural(node):
        return node
    is_negative = graph.compare("<", node, graph.constant(0))
    return graph.select(is_negative, graph.arithmetic("+", extent, node), node)


def operand(graph: Graph, x: Any) -> Any:
    """An operand of a traced value (a number or a tensor) as a traced value."""
    if isinstance(x, Traced):
        return x
    if isinstance(x, (bool, int, float)):
        return Value(graph.constant(x))
    return state.current().foreign(x)
