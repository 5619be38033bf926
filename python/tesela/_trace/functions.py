# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What PyTorch's, NumPy's and jax.numpy's functions are in Tesela's language.

`TABLE` has each by one name; `ALIASES` has the other names that the frameworks use. Where they give
one name to two things, PyTorch decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeVar

from . import bits
from .error import error
from .graph import F32, I32, Graph, Node, number_of
from .value import ALIASES, TABLE, Array, Traced, Value, operand

_F = TypeVar("_F", bound=Callable[..., Any])


def _named(*names: str) -> Callable[[_F], _F]:
    def enter(function: _F) -> _F:
        TABLE[names[0]] = function
        ALIASES.update((name, names[0]) for name in names[1:])
        return function

    return enter


def _graph(*operands: Any) -> Graph:
    for x in operands:
        if isinstance(x, Traced):
            return x.graph
    raise error("a function of traced values was called without one")


def apply(function: Callable[..., Node], *operands: Any) -> Any:
    """`function(graph, *nodes)` of each element of the operands, as NumPy broadcasts them."""
    graph = _graph(*operands)
    traced = [operand(graph, x) for x in operands]
    if not any(isinstance(x, Array) for x in traced):
        return Value(function(graph, *(x.node for x in traced)))
    ndim = max(x.ndim for x in traced)
    shape = tuple(_extent(graph, traced, axis) for axis in range(-ndim, 0))

    def element(indices: tuple[Node, ...]) -> Node:
        return function(graph, *(_at(x, indices) for x in traced))

    return Array(graph, shape, element)


def _extent(graph: Graph, operands: list[Any], axis: int) -> Node:
    extents = [x.nodes[axis] for x in operands if isinstance(x, Array) and x.ndim >= -axis]
    first = extents[0]
    if all(each is first for each in extents):
        return first
    for each in extents:
        if not _is_one(each):
            return each
    return first


def _is_one(extent: Node) -> bool:
    return Value(extent) == 1 if extent.op != "const" else number_of(extent) == 1


def _at(x: Any, indices: tuple[Node, ...]) -> Node:
    if isinstance(x, Value):
        return x.node
    own = indices[len(indices) - x.ndim :]
    zero = x.graph.constant(0)
    result: Node = x.element(
        tuple(
            zero if n.op == "const" and number_of(n) == 1 else i
            for i, n in zip(own, x.nodes, strict=True)
        )
    )
    return result


def elementwise(function: Callable[..., Node], *names: str, operands: int) -> None:
    """Enters `function(graph, *nodes)` under `names`."""
    if operands == 1:

        def unary(input: Any, **_: Any) -> Any:
            return apply(function, input)

        _named(*names)(unary)
    else:

        def binary(input: Any, other: Any, **_: Any) -> Any:
            return apply(function, input, other)

        _named(*names)(binary)


def _f32(graph: Graph, value: float) -> Node:
    return graph.constant(float(value))


# Arithmetic


def _op(op: str) -> Callable[..., Node]:
    return lambda graph, a, b: graph.arithmetic(op, a, b)


def _floor_divide(graph: Graph, a: Node, b: Node) -> Node:
    a, b = graph.number(a), graph.number(b)
    if a.type == b.type == I32:
        return graph.arithmetic("/", a, b)
    return graph.call("floor", graph.quotient(a, b))


def _remainder(graph: Graph, a: Node, b: Node) -> Node:
    """With the divisor's sign."""
    a, b = graph.number(a), graph.number(b)
    if a.type == b.type == I32:
        return graph.arithmetic("%", a, b)
    return graph.arithmetic("-", a, graph.arithmetic("*", _floor_divide(graph, a, b), b))


def _truncated(graph: Graph, a: Node, b: Node) -> Node:
    """A quotient that is rounded towards zero."""
    a, b = graph.number(a), graph.number(b)
    if not a.type == b.type == I32:
        return _trunc(graph, graph.quotient(a, b))
    size = graph.arithmetic("/", graph.absolute(a), graph.absolute(b))
    zero = graph.constant(0)
    differ = graph.compare("!=", graph.compare("<", a, zero), graph.compare("<", b, zero))
    return graph.select(differ, graph.negative(size), size)


def _fmod(graph: Graph, a: Node, b: Node) -> Node:
    """With the dividend's sign."""
    return graph.arithmetic("-", a, graph.arithmetic("*", _truncated(graph, a, b), b))


def _trunc(graph: Graph, a: Node) -> Node:
    if a.type != F32:
        return graph.number(a)
    return graph.select(graph.compare("<", a, _f32(graph, 0)), _ceil(graph, a), _floor(graph, a))


def _floor(graph: Graph, a: Node) -> Node:
    return graph.call("floor", a) if a.type == F32 else graph.number(a)


def _ceil(graph: Graph, a: Node) -> Node:
    if a.type != F32:
        return graph.number(a)
    return graph.negative(graph.call("floor", graph.negative(a)))


def _round(graph: Graph, a: Node) -> Node:
    """To the nearest, a half to the even one."""
    if a.type != F32:
        return graph.number(a)
    low = graph.call("floor", a)
    rest = graph.arithmetic("-", a, low)
    half, one = _f32(graph, 0.5), _f32(graph, 1)
    odd = graph.compare("!=", _remainder(graph, low, _f32(graph, 2)), _f32(graph, 0))
    up = graph.either(
        graph.compare(">", rest, half), graph.both(graph.compare("==", rest, half), odd)
    )
    return graph.select(up, graph.arithmetic("+", low, one), low)


def _power(graph: Graph, a: Node, b: Node) -> Node:
    a, b = graph.number(a), graph.number(b)
    if b.op == "const":
        exponent = number_of(b)
        if exponent == 0.5:
            return graph.call("sqrt", a)
        if float(exponent).is_integer() and 0 <= abs(exponent) <= 64:
            if b.type == F32:
                a = graph.floating(a)
            result = _product(graph, a, int(abs(exponent)))
            return graph.quotient(graph.constant(1), result) if exponent < 0 else result
    if a.op == "const":
        base = number_of(a)
        if isinstance(base, int) and b.type == I32:
            return bits.power(graph, base, b)
        if base > 0:
            return graph.call("exp", graph.arithmetic("*", b, _f32(graph, math.log(base))))
    if a.type == b.type == I32:
        raise error(
            "an integer to a power that is traced cannot be traced unless the base is a number; "
            "write torch.exp(y * torch.log(x)), or a table"
        )
    return graph.call("exp", graph.arithmetic("*", b, graph.call("log", a)))


def _product(graph: Graph, a: Node, count: int) -> Node:
    result = _f32(graph, 1) if a.type == F32 else graph.constant(1)
    first = True
    while count:
        if count & 1:
            result = a if first else graph.arithmetic("*", result, a)
            first = False
        count >>= 1
        if count:
            a = graph.arithmetic("*", a, a)
    return result


def _sign(graph: Graph, a: Node) -> Node:
    a = graph.number(a)
    zero, one = graph.constant(0), graph.constant(1)
    sign = graph.select(
        graph.compare(">", a, zero),
        one,
        graph.select(graph.compare("<", a, zero), graph.constant(-1), zero),
    )
    return graph.floating(sign) if a.type == F32 else sign


elementwise(_op("*"), "mul", "multiply", "rmul", operands=2)
elementwise(_remainder, "remainder", "mod", operands=2)
elementwise(_fmod, "fmod", "rem", operands=2)
elementwise(_power, "pow", "power", "float_power", operands=2)
elementwise(lambda graph, a: graph.negative(a), "neg", "negative", operands=1)
elementwise(lambda graph, a: graph.number(a), "positive", "pos", operands=1)
elementwise(lambda graph, a: graph.absolute(a), "abs", "absolute", "fabs", operands=1)
elementwise(_floor, "floor", operands=1)
elementwise(_ceil, "ceil", operands=1)
elementwise(_trunc, "trunc", "fix", operands=1)
elementwise(_sign, "sign", "sgn", operands=1)
elementwise(lambda graph, a: graph.arithmetic("*", a, a), "square", operands=1)
elementwise(lambda graph, a: graph.quotient(_f32(graph, 1), a), "reciprocal", operands=1)


def _times(value: Any, factor: Any) -> Any:
    return value if isinstance(factor, int) and factor == 1 else value * factor


@_named("add", "radd", "iadd")
def _add(input: Any, other: Any, *, alpha: Any = 1, **_: Any) -> Any:
    return apply(_op("+"), input, _times(other, alpha))


@_named("sub", "subtract", "isub")
def _subtract(input: Any, other: Any, *, alpha: Any = 1, **_: Any) -> Any:
    return apply(_op("-"), input, _times(other, alpha))


@_named("rsub")
def _rsub(input: Any, other: Any, **_: Any) -> Any:
    return apply(_op("-"), other, input)


@_named("div", "divide", "true_divide", "truediv")
def _divide(input: Any, other: Any, *, rounding_mode: str | None = None, **_: Any) -> Any:
    by_mode = {None: Graph.quotient, "floor": _floor_divide, "trunc": _truncated}
    return apply(by_mode[rounding_mode], input, other)


@_named("rdiv", "rtruediv")
def _rdivide(input: Any, other: Any) -> Any:
    return _divide(other, input)


elementwise(_floor_divide, "floor_divide", "floordiv", operands=2)


@_named("rfloordiv", "rfloor_divide")
def _rfloordiv(input: Any, other: Any) -> Any:
    return apply(_floor_divide, other, input)


@_named("rmod", "rremainder")
def _rmod(input: Any, other: Any) -> Any:
    return apply(_remainder, other, input)


@_named("rpow")
def _rpow(input: Any, other: Any) -> Any:
    return apply(_power, other, input)


@_named("round", "rint", "around")
def _rounded(input: Any, decimals: int = 0, **_: Any) -> Any:
    if decimals:
        raise error("round() to decimals cannot be traced; scale the value instead")
    return apply(_round, input)


# Truth and bits


def _comparison(op: str) -> Callable[..., Node]:
    return lambda graph, a, b: graph.compare(op, a, b)


elementwise(_comparison("=="), "eq", "equal", operands=2)
elementwise(_comparison("!="), "ne", "not_equal", operands=2)
elementwise(_comparison("<"), "lt", "less", operands=2)
elementwise(_comparison("<="), "le", "less_equal", operands=2)
elementwise(_comparison(">"), "gt", "greater", operands=2)
elementwise(_comparison(">="), "ge", "greater_equal", operands=2)
elementwise(bits.both, "bitwise_and", "and", "rand", "iand", operands=2)
elementwise(bits.either, "bitwise_or", "or", "ror", "ior", operands=2)
elementwise(bits.differing, "bitwise_xor", "xor", "rxor", "ixor", operands=2)
elementwise(bits.inverted, "bitwise_not", "invert", "bitwise_invert", operands=1)
elementwise(bits.shift_left, "bitwise_left_shift", "lshift", "left_shift", operands=2)
elementwise(bits.shift_right, "bitwise_right_shift", "rshift", "right_shift", operands=2)
elementwise(lambda graph, a, b: graph.both(a, b), "logical_and", operands=2)
elementwise(lambda graph, a, b: graph.either(a, b), "logical_or", operands=2)
elementwise(
    lambda graph, a, b: graph.compare("!=", graph.boolean(a), graph.boolean(b)),
    "logical_xor",
    operands=2,
)
elementwise(lambda graph, a: graph.negation(a), "logical_not", operands=1)


def _is_nan(graph: Graph, a: Node) -> Node:
    return graph.compare("!=", a, a) if a.type == F32 else graph.false


def _is_infinite(graph: Graph, a: Node) -> Node:
    return graph.compare("==", graph.absolute(graph.floating(a)), _f32(graph, math.inf))


elementwise(_is_nan, "isnan", operands=1)
elementwise(_is_infinite, "isinf", operands=1)
elementwise(
    lambda graph, a: graph.compare("<", graph.absolute(graph.floating(a)), _f32(graph, math.inf)),
    "isfinite",
    operands=1,
)
elementwise(lambda graph, a: graph.compare("==", a, _f32(graph, -math.inf)), "isneginf", operands=1)
elementwise(lambda graph, a: graph.compare("==", a, _f32(graph, math.inf)), "isposinf", operands=1)


@_named("where", "select")
def _where(condition: Any, input: Any = None, other: Any = None, **named: Any) -> Any:
    input, other = named.get("x", input), named.get("y", other)
    if input is None or other is None:
        raise error("where() with a condition only gives indices, which cannot be traced")
    if not isinstance(condition, Traced):
        return input if bool(condition) else other
    return apply(Graph.select, condition, input, other)


@_named("masked_fill")
def _masked_fill(input: Any, mask: Any, value: Any) -> Any:
    return apply(Graph.select, mask, value, input)


# Bounds


def _extreme(name: str) -> Callable[..., Node]:
    return lambda graph, a, b: graph.extreme(name, a, b)


elementwise(_extreme("min"), "minimum", "fmin", operands=2)
elementwise(_extreme("max"), "maximum", "fmax", operands=2)


@_named("min", "amin")
def _min(input: Any, other: Any = None, **_: Any) -> Any:
    return _extreme_of("min", input, other)


@_named("max", "amax")
def _max(input: Any, other: Any = None, **_: Any) -> Any:
    return _extreme_of("max", input, other)


def _extreme_of(name: str, input: Any, other: Any) -> Any:
    if other is None:
        raise error(f"the {name} of a whole tensor cannot be traced; compute it before")
    return apply(_extreme(name), input, other)


@_named("clamp", "clip")
def _clamp(input: Any, min: Any = None, max: Any = None, **named: Any) -> Any:
    low, high = named.get("a_min", min), named.get("a_max", max)
    if low is not None and high is not None:
        return apply(_clamped, input, low, high)
    if low is not None:
        return apply(_extreme("max"), input, low)
    return input if high is None else apply(_extreme("min"), input, high)


def _clamped(graph: Graph, x: Node, low: Node, high: Node) -> Node:
    x, low, high = graph.number(x), graph.number(low), graph.number(high)
    type_ = I32 if x.type == low.type == high.type == I32 else F32
    if x.op == "float" and F32 in (low.type, high.type):
        x = x.args[0]
    return graph.node("call", type_, "clamp", (x, low, high))


@_named("clamp_min")
def _clamp_min(input: Any, min: Any) -> Any:
    return _clamp(input, min)


@_named("clamp_max")
def _clamp_max(input: Any, max: Any) -> Any:
    return _clamp(input, None, max)


@_named("nan_to_num")
def _nan_to_num(input: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    most = 3.4028234663852886e38
    posinf = most if posinf is None else posinf
    neginf = -most if neginf is None else neginf
    number = _where(TABLE["isnan"](input), 0.0 if nan is None else nan, input)
    number = _where(TABLE["isposinf"](number), posinf, number)
    return _where(TABLE["isneginf"](number), neginf, number)


# Functions of f32


def _call(name: str) -> Callable[..., Node]:
    return lambda graph, a: graph.call(name, a)


for _name in ("exp", "log", "sqrt", "tanh", "sin", "cos"):
    elementwise(_call(_name), _name, operands=1)


def _scaled(name: str, before: float = 1, after: float = 1) -> Callable[..., Node]:
    """The function `name` of `before` times its argument, times `after`."""

    def function(graph: Graph, a: Node) -> Node:
        if before != 1:
            a = graph.arithmetic("*", a, _f32(graph, before))
        a = graph.call(name, a)
        return a if after == 1 else graph.arithmetic("*", a, _f32(graph, after))

    return function


elementwise(_scaled("exp", before=math.log(2)), "exp2", operands=1)
elementwise(_scaled("log", after=1 / math.log(2)), "log2", operands=1)
elementwise(_scaled("log", after=1 / math.log(10)), "log10", operands=1)
elementwise(
    lambda graph, a: graph.quotient(_f32(graph, 1), graph.call("sqrt", a)), "rsqrt", operands=1
)
elementwise(
    lambda graph, a: graph.quotient(graph.call("sin", a), graph.call("cos", a)), "tan", operands=1
)


def _log1p(graph: Graph, a: Node) -> Node:
    """As Kahan has it: log(u) x / (u - 1) with u = 1 + x, which cancels what u was rounded by."""
    a, one = graph.floating(a), _f32(graph, 1)
    u = graph.arithmetic("+", one, a)
    scaled = graph.quotient(
        graph.arithmetic("*", graph.call("log", u), a), graph.arithmetic("-", u, one)
    )
    plain = graph.either(
        graph.compare("==", u, one), graph.negation(graph.compare("<", u, _f32(graph, math.inf)))
    )
    return graph.select(graph.compare("==", u, one), a, graph.select(plain, u, scaled))


def _expm1(graph: Graph, a: Node) -> Node:
    """As Kahan has it: (u - 1) x / log(u) with u = exp(x)."""
    a, one = graph.floating(a), _f32(graph, 1)
    u = graph.call("exp", a)
    less = graph.arithmetic("-", u, one)
    scaled = graph.quotient(graph.arithmetic("*", less, a), graph.call("log", u))
    ends = graph.either(
        graph.compare("==", less, _f32(graph, -1)), graph.compare("==", u, _f32(graph, math.inf))
    )
    return graph.select(graph.compare("==", u, one), a, graph.select(ends, less, scaled))


def _sigmoid(graph: Graph, a: Node) -> Node:
    one = _f32(graph, 1)
    return graph.quotient(
        one, graph.arithmetic("+", one, graph.call("exp", graph.negative(graph.floating(a))))
    )


def _erf(graph: Graph, a: Node) -> Node:
    """Abramowitz and Stegun, 7.1.26, whose error is at most 1.5e-7."""
    a = graph.floating(a)
    size, one = graph.absolute(a), _f32(graph, 1)
    t = graph.quotient(
        one, graph.arithmetic("+", one, graph.arithmetic("*", size, _f32(graph, 0.3275911)))
    )
    total = _f32(graph, 1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        total = graph.arithmetic("+", graph.arithmetic("*", total, t), _f32(graph, factor))
    total = graph.arithmetic("*", total, t)
    bell = graph.call("exp", graph.negative(graph.arithmetic("*", a, a)))
    result = graph.arithmetic("-", one, graph.arithmetic("*", total, bell))
    return graph.select(graph.compare("<", a, _f32(graph, 0)), graph.negative(result), result)


elementwise(_log1p, "log1p", operands=1)
elementwise(_expm1, "expm1", operands=1)
elementwise(_sigmoid, "sigmoid", "expit", operands=1)
elementwise(_erf, "erf", operands=1)


@_named("sinh")
def _sinh(input: Any, **_: Any) -> Any:
    exp = TABLE["exp"]
    return (exp(input) - exp(-input)) * 0.5


@_named("cosh")
def _cosh(input: Any, **_: Any) -> Any:
    exp = TABLE["exp"]
    return (exp(input) + exp(-input)) * 0.5


# Activations


@_named("relu")
def _relu(input: Any, inplace: bool = False) -> Any:
    return _clamp(input, 0)


@_named("leaky_relu")
def _leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    return _where(input > 0, input, input * negative_slope)


@_named("elu")
def _elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    return _where(input > 0, input, TABLE["expm1"](input) * alpha)


@_named("silu", "swish")
def _silu(input: Any, inplace: bool = False) -> Any:
    return input * TABLE["sigmoid"](input)


@_named("softplus")
def _softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    scaled = input * beta
    return _where(scaled > threshold, input, TABLE["log1p"](TABLE["exp"](scaled)) / beta)


@_named("logsigmoid", "log_sigmoid")
def _logsigmoid(input: Any) -> Any:
    return -_softplus(-input)


@_named("hardtanh")
def _hardtanh(
    input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Any:
    return _clamp(input, min_val, max_val)


@_named("gelu")
def _gelu(input: Any, approximate: Any = "none") -> Any:
    """PyTorch's; JAX's `approximate=True`, which is its default, is 'tanh'."""
    if approximate in ("tanh", True):
        inner = (input + 0.044715 * input * input * input) * math.sqrt(2 / math.pi)
        return input * 0.5 * (1.0 + TABLE["tanh"](inner))
    return input * 0.5 * (1.0 + TABLE["erf"](input * math.sqrt(0.5)))


# Types

_INTEGERS: Final = ("int32", "int64", "int", "long", "i32", "i64")
_FLOATS: Final = ("float32", "float16", "bfloat16", "float", "half")
#: Rounding to a narrower type is left out: what follows is computed in f32.


def converted(input: Any, dtype: Any) -> Any:
    """`input` in the type that a framework, NumPy or Python calls `dtype`."""
    name = getattr(dtype, "__name__", None) or str(getattr(dtype, "name", None) or dtype)
    name = name.rpartition(".")[2]
    if name in _INTEGERS:
        return apply(Graph.integer, input)
    if name in _FLOATS:
        return apply(Graph.floating, input)
    if name in ("bool", "bool_"):
        return apply(Graph.boolean, input)
    if name == "float64" or name == "double":
        raise error("Tesela computes in f32; write torch.float32 or .float() for float64")
    raise error(f"Tesela has i32, f32 and bool; a value was converted to {name}")


@_named("to", "type", "astype", "asarray", "array", "as_tensor", "tensor", "_to_copy")
def _to(input: Any, dtype: Any = None, *rest: Any, **named: Any) -> Any:
    for each in (dtype, *rest, named.get("dtype")):
        if isinstance(each, Traced):
            return converted(input, each.dtype)
        if each is None or isinstance(each, bool) or "device" in type(each).__name__:
            continue
        name = str(each)
        if name.partition(":")[0] in ("cpu", "cuda", "meta", "xla", "mps"):
            continue
        return converted(input, each)
    return input


@_named("type_as")
def _type_as(input: Any, other: Any) -> Any:
    return converted(input, other.dtype)


@_named("result_type")
def _result_type(*inputs: Any) -> Any:
    return (inputs[0] + inputs[-1]).dtype


for _name in ("int", "long", "float", "half", "bfloat16", "bool", "double"):
    TABLE[_name] = lambda input, _type=_name, **_: converted(input, _type)
ALIASES["int32"], ALIASES["int64"], ALIASES["float32"] = "int", "int", "float"


@_named("clone", "detach", "contiguous", "cpu", "cuda", "copy", "identity", "requires_grad_")
@_named("lift_fresh", "lift", "alias", "stop_gradient", "ascontiguousarray", "real", "conj")
def _same(input: Any, *_: Any, **__: Any) -> Any:
    return input


# Making values


def _full(input: Any, value: Any, dtype: Any = None) -> Any:
    graph = _graph(input)
    result = operand(graph, value)
    if dtype is None:
        return converted(result, input.dtype) if isinstance(input, Traced) else result
    return converted(result, dtype)


def _filled(value: float) -> Callable[..., Any]:
    def function(input: Any, *args: Any, dtype: Any = None, size: Any = (), **_: Any) -> Any:
        if any(args) or size:
            raise error("a tensor with axes was made of a traced value; make it outside")
        return _full(input, value, dtype)

    return function


for _name, _value in (("zeros", 0), ("ones", 1)):
    _named(f"{_name}_like", f"new_{_name}")(_filled(_value))


@_named("full_like")
def _full_like(input: Any, fill_value: Any, dtype: Any = None, **_: Any) -> Any:
    return _full(input, fill_value, dtype)


@_named("new_full")
def _new_full(input: Any, size: Any, fill_value: Any, dtype: Any = None, **_: Any) -> Any:
    return _filled(fill_value)(input, size, dtype=dtype)


@_named("new_tensor")
def _new_tensor(input: Any, data: Any, dtype: Any = None, **_: Any) -> Any:
    return _to(operand(_graph(input), data), dtype)
