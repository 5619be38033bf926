# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention as an operation of XLA."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from tesela import _native
from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela._variant import _DROPOUT, Parameter, Variant, as_variant
from tesela.jax._finder import constants_text, find
from tesela.jax._rewrite import program_of, with_batch_axis, with_named_axes
from tesela.jax._sharding import divisible

_TARGET = "tesela_attention"
_MOST_HEAD_DIM = 256
_WIDEST_QK, _WIDEST_V = 576, 512
"""The widest heads of a forward pass without dropout, for multi-head latent attention."""
_INPUT_TYPES = ("float32", "float16", "bfloat16")
_SCALAR_TYPES = {"i32": "int32", "f32": "float32", "bool": "bool"}
_CAPTURED_TYPES = {
    "f32": ("float32",),
    "f16": ("float16",),
    "bf16": ("bfloat16",),
    "i32": ("int32", "int64"),
    "bool": ("bool", "uint8"),
}
_LARGEST = float.fromhex("0x1.ffffffp127")
"""Finite numbers from here on round to infinity in f32."""

_host, _cuda = _native.xla_handlers(find)
jax.ffi.register_ffi_target(_TARGET, _host, platform="cpu")
jax.ffi.register_ffi_target(_TARGET, _cuda, platform="CUDA")


class _Operation(NamedTuple):
    """The parts of a call that are not arrays. Calls with equal ones share a program of XLA."""

    text: str
    constants: tuple[tuple[str, float], ...]
    operands: tuple[str, ...]
    """The names of the parameters whose values are arrays."""
    numbers: tuple[tuple[str, float], ...]
    """The names and values of the other parameters."""
    scale: float
    is_bshd: bool
    return_lse: bool
    algorithm: str = "forward"
    has_dlse: bool = False
    """Whether a gradient of lse follows that of o; for the algorithm "backward"."""

    @property
    def leading(self) -> int:
        """The number of arrays before the operands: q, k, v; for gradients o, lse, do, dlse too."""
        return 6 + self.has_dlse if self.algorithm == "backward" else 3

    @property
    def result_count(self) -> int:
        """The number of results: o and perhaps lse, or dq, dk and dv."""
        return 3 if self.algorithm == "backward" else 1 + self.return_lse


def dropout(_: Any, seed: Any) -> dict[str, Any]:
    """The parameters of dropout other than the probability: four words from the key."""
    is_typed = isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key)
    if not is_typed and not (isinstance(seed, jax.Array) and seed.dtype == jnp.uint32):
        raise InvalidArgumentError(
            f"the seed of dropout is a {type(seed)}, it must be a key of JAX: "
            "seed=jax.random.key(0), another one in each step, as jax.random.split gives them"
        )
    if seed.ndim != (0 if is_typed else 1):
        raise InvalidArgumentError(
            f"the seed of dropout is an array of the shape {seed.shape}, it must be one key: pass "
            "one of them, as seed=keys[0]"
        )
    words = jax.random.bits(seed, (4,), jnp.uint32)
    return {
        "dropout.seed": 0,
        "dropout.state": jax.lax.bitcast_convert_type(words, jnp.int32),
    }


def attention(
    q: Any,
    k: Any,
    v: Any,
    variant: Variant | str | os.PathLike[str],
    scale: float | None,
    return_lse: bool,
    is_bshd: bool,
    out: Any,
    parameters: Mapping[str, Any],
) -> Any:
    """See :func:`tesela.jax.attention`."""
    if out is not None:
        raise InvalidArgumentError("JAX arrays cannot be written: omit the argument out")
    q, k, v = (each if isinstance(each, jax.Array) else jnp.asarray(each) for each in (q, k, v))
    has_batch = not q.ndim == k.ndim == v.ndim == 3
    if not has_batch:
        q, k, v = (jnp.expand_dims(each, 0) for each in (q, k, v))
    _check(q, k, v, is_bshd)
    variant = as_variant(variant)
    _check_head_dims(q, v, " with dropout" if variant._program.drops else "")
    operands, numbers, constants = _values(variant, parameters)
    operation = _Operation(
        variant.text,
        constants,
        tuple(operands),
        tuple(numbers.items()),
        _scale(scale),
        is_bshd,
        return_lse,
    )
    results = _jitted(operation, q, k, v, *operands.values())
    if not has_batch:
        results = [jnp.squeeze(each, 0) for each in results]
    return tuple(results) if return_lse else results[0]


def number(name: str, value: Any) -> Any:
    """A value for an argument that must be a number, unless it is traced."""
    if isinstance(value, jax.core.Tracer):
        remedy = ", or multiply q by it and pass scale=1" if name == "scale" else ""
        raise InvalidArgumentError(
            f"{name} is a traced value of JAX, it must be a number: make it a static argument "
            f"of jax.jit{remedy}"
        )
    return value


def _scale(scale: Any) -> float:
    """The scale as the handler takes it: 0 means 1/sqrt(Dqk)."""
    if scale is None:
        return 0.0
    scale = number("scale", scale)
    if not 0 < float(scale) < math.inf:
        raise InvalidArgumentError(
            f"the scale is {float(scale)}, it must be finite and positive: for equal weights pass "
            "q of zeros"
        )
    return float(scale)


def _check(q: jax.Array, k: jax.Array, v: jax.Array, is_bshd: bool) -> None:
    """Checks what JAX knows before a launch. The library checks this and the rest again."""
    heads, length = (2, 1) if is_bshd else (1, 2)
    axes = (
        "[batch, length, heads, head dimension]"
        if is_bshd
        else ("[batch, heads, length, head dimension]")
    )
    if not q.ndim == k.ndim == v.ndim == 4:
        raise InvalidArgumentError(
            f"the shapes are q {q.shape}, k {k.shape} and v {v.shape}: each must have the axes "
            f"{axes}, or all three the same without the batch"
        )
    if q.dtype.name not in _INPUT_TYPES or not q.dtype == k.dtype == v.dtype:
        raise UnsupportedError(
            f"the elements are {q.dtype} in q, {k.dtype} in k and {v.dtype} in v, they must be all "
            "float32, all float16 or all bfloat16: convert them"
        )
    fits = (
        k.shape[0] == q.shape[0]
        and k.shape[:3] == v.shape[:3]
        and k.shape[3] == q.shape[3]
        and (q.shape[heads] % k.shape[heads] == 0 if k.shape[heads] else q.shape[heads] == 0)
    )
    if not fits:
        raise InvalidArgumentError(
            f"the shapes q {q.shape}, k {k.shape} and v {v.shape} do not fit, {axes}: the batch of "
            "all three, the head dimension of q and k, and the heads and the length of k and v are "
            f"equal, and the heads of q (axis {heads}) are a multiple of those of k; axis {length} "
            "is the length"
        )


def _check_head_dims(q: jax.Array, v: jax.Array, what: str) -> None:
    """Raises UnsupportedError for head dimensions without a kernel.

    Args:
        q: the queries.
        v: the values.
        what: what limits them, in words; "" for the plain forward pass.
    """
    limits = (_MOST_HEAD_DIM, _MOST_HEAD_DIM) if what else (_WIDEST_QK, _WIDEST_V)
    for name, array, limit in (("q and k", q, limits[0]), ("v", v, limits[1])):
        head_dim = array.shape[3]
        if not 0 < head_dim <= limit or head_dim % 8 != 0:
            remedy = "use narrower heads" if head_dim > limit else "pad the arrays with zeros"
            raise UnsupportedError(
                f"the head dimension of {name} is {head_dim}, it must be a multiple of 8 up to "
                f"{limit}{what}: {remedy}"
            )


def _values(
    variant: Variant, parameters: Mapping[str, Any]
) -> tuple[dict[str, jax.Array], dict[str, float], tuple[tuple[str, float], ...]]:
    """(values that are arrays, values that are numbers) by name, and the constants."""
    program = variant._program
    for name in program.constants:
        if isinstance(parameters.get(name), jax.core.Tracer):
            raise InvalidArgumentError(
                f"the parameter '{name}' is a traced value of JAX, but it is const, compiled into "
                "the kernel: make it a static argument of jax.jit"
            )
    values, constants = variant._arguments(parameters)
    given = dict(zip(program.slots, values, strict=True))
    operands: dict[str, jax.Array] = {}
    numbers: dict[str, float] = {}
    compiled = dict(constants)
    for parameter in (*program.parameters, *(_DROPOUT if program.drops else ())):
        if parameter.name in compiled:
            _number(parameter, compiled[parameter.name])
        value = given.get(parameter.name)
        if parameter.constant or (value is None and parameter.default is not None):
            continue
        if value is None:
            raise InvalidArgumentError(
                f"the parameter '{parameter.name}' has no value and no default: pass "
                f"{parameter.name}=..."
            )
        if parameter.shape is not None:
            operands[parameter.name] = _captured(parameter, value)
        elif isinstance(value, jax.Array):
            operands[parameter.name] = _scalar(parameter, value)
        else:
            numbers[parameter.name] = _number(parameter, value)
    return operands, numbers, constants


def _captured(parameter: Parameter, value: Any) -> jax.Array:
    try:
        array = jnp.asarray(value)
    except TypeError as error:
        raise InvalidArgumentError(
            f"the captured tensor '{parameter.name}' is a {type(value)}, it must be an array "
            "of JAX or NumPy: convert it"
        ) from error
    types = _CAPTURED_TYPES[parameter.type]
    if array.dtype.name not in types:
        raise InvalidArgumentError(
            f"the elements of the captured tensor '{parameter.name}' are {array.dtype}, they must "
            f"be {' or '.join(types)}, because the variant declares {parameter.type}: convert them "
            f"with astype({types[0]!r})"
        )
    assert parameter.shape is not None
    if array.ndim != len(parameter.shape):
        raise InvalidArgumentError(
            f"the captured tensor '{parameter.name}' has the shape {array.shape}, it must have "
            f"{len(parameter.shape)} axes, [{', '.join(parameter.shape)}]"
        )
    return array


def _scalar(parameter: Parameter, value: jax.Array) -> jax.Array:
    """Checks a scalar whose value only the device knows."""
    if value.ndim != 0:
        raise InvalidArgumentError(
            f"the parameter '{parameter.name}' has the shape {value.shape}, it must be a number or "
            "an array without axes: the variant declares a scalar"
        )
    wanted = jnp.dtype(_SCALAR_TYPES[parameter.type])
    if wanted.kind != "f" and jnp.issubdtype(value.dtype, jnp.floating):
        raise InvalidArgumentError(
            f"the parameter '{parameter.name}' is a {value.dtype}, it must be a whole number: the "
            f"variant declares it {parameter.type}; convert it with astype({wanted.name!r})"
        )
    return value.astype(wanted)


def _number(parameter: Parameter, value: Any) -> float:
    """A scalar as the handler takes it, if the launch will accept it."""
    try:
        converted = float(value)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"the parameter '{parameter.name}' is a {type(value)}, it must be a number: the "
            "variant declares a scalar"
        ) from error
    if parameter.type == "i32" and not (-(2**31) <= converted < 2**31 and converted.is_integer()):
        raise InvalidArgumentError(
            f"the parameter '{parameter.name}' is {value}, it must be a whole number that fits 32 "
            "bits: the variant declares it i32"
        )
    if math.isfinite(converted) and abs(converted) >= _LARGEST:
        raise InvalidArgumentError(
            f"the parameter '{parameter.name}' is {value}, it must fit f32: pass at most "
            "3.4028235e38, or infinity itself"
        )
    return converted


def _refuse_second_gradient(*_: Any) -> NoReturn:
    raise UnsupportedError(
        "the gradients of tesela.attention have no gradients of their own (jax.grad of jax.grad, "
        "jax.hessian): differentiate once, or compute this attention with jax.numpy"
    )


def _call(operation: _Operation, *arrays: jax.Array) -> Sequence[jax.Array]:
    """The operation with its rules for JAX's transformations."""

    @jax.custom_vjp
    def differentiable(*arrays: jax.Array) -> Sequence[jax.Array]:
        return _mappable(operation, *arrays)

    def forward(*primals: Any) -> Any:
        for name, primal in zip(operation.operands, primals[3:], strict=True):
            if primal.perturbed:
                kind = f"{primal.value.dtype}{list(primal.value.shape)}"
                raise UnsupportedError(
                    f"the value of the parameter '{name}', {kind}, is differentiated, and Tesela "
                    "computes gradients of q, k and v only: wrap the array in "
                    "jax.lax.stop_gradient, where it is passed or where a function captures it"
                )
        arrays = [each.value for each in primals]
        _check_head_dims(arrays[0], arrays[2], " with gradients")
        o, lse = _mappable(operation._replace(return_lse=True), *arrays)
        return [o, lse][: operation.result_count], (arrays, o, lse)

    def backward(kept: Any, cotangents: Sequence[Any]) -> tuple[Any, ...]:
        arrays, o, lse = kept
        do, *others = cotangents
        dlse = [each for each in others if not isinstance(each, _Zero)]
        none = (None,) * len(arrays)
        if isinstance(do, _Zero):
            if not dlse:
                return none
            do = jnp.zeros_like(o)
        gradients = _mappable(
            operation._replace(algorithm="backward", has_dlse=bool(dlse)),
            *_alike((*arrays[:3], o, lse, do, *dlse, *arrays[3:])),
        )
        return (*gradients, *none[3:])

    differentiable.defvjp(forward, backward, symbolic_zeros=True)
    results: Sequence[jax.Array] = differentiable(*_alike(arrays))
    return results


_jitted = jax.jit(_call, static_argnums=0)
_Zero: Any = jax.custom_derivatives.SymbolicZero


def _mappable(operation: _Operation, *arrays: jax.Array) -> Sequence[jax.Array]:
    """The operation with all rules except that of jax.grad."""

    @jax.custom_jvp
    def differentiable(*arrays: jax.Array) -> Sequence[jax.Array]:
        mapped: Sequence[jax.Array] = mappable(*arrays)
        return mapped

    @jax.custom_batching.custom_vmap
    def mappable(*arrays: jax.Array) -> Sequence[jax.Array]:
        launch = _launch_backward if operation.algorithm == "backward" else _launch
        return divisible(
            functools.partial(launch, operation),
            operation.text,
            operation.operands,
            operation.is_bshd,
            operation.algorithm,
            operation.result_count,
            arrays,
        )(*arrays)

    differentiable.defjvp(_refuse_second_gradient)
    mappable.def_vmap(functools.partial(_map, operation))
    results: Sequence[jax.Array] = differentiable(*arrays)
    return results


def _launch(operation: _Operation, *arrays: jax.Array) -> Sequence[jax.Array]:
    q, _, v = arrays[:3]
    heads, length = (2, 1) if operation.is_bshd else (1, 2)
    results = [_like(arrays, (*q.shape[:3], v.shape[3]), q.dtype)]
    if operation.return_lse:
        results.append(_like(arrays, (q.shape[0], q.shape[heads], q.shape[length]), jnp.float32))
    return _launched(operation, results, *arrays)


def _launch_backward(operation: _Operation, *arrays: jax.Array) -> Sequence[jax.Array]:
    q, k, v = arrays[:3]
    # One batch of k and v may serve all batches of q. Each of these batches has its own gradient.
    shapes = [(q.shape[0], *each.shape[1:]) for each in (q, k, v)]
    if 0 in q.shape or 0 in k.shape:  # no pair, no gradient
        return [jnp.zeros(shape, q.dtype) for shape in shapes]
    return _launched(operation, [_like(arrays, shape, q.dtype) for shape in shapes], *arrays)


def _launched(
    operation: _Operation, results: Sequence[Any], *arrays: jax.Array
) -> Sequence[jax.Array]:
    launch: Any = jax.ffi.ffi_call(_TARGET, results)
    given: Sequence[jax.Array] = launch(
        *arrays,
        algorithm=operation.algorithm,
        text=operation.text,
        constants=constants_text(operation.constants),
        operands=",".join(operation.operands),
        names=",".join(name for name, _ in operation.numbers),
        numbers=np.array([value for _, value in operation.numbers], np.float64),
        scale=np.float64(operation.scale),
        is_bshd=np.int32(operation.is_bshd),
        has_dlse=np.int32(operation.has_dlse),
    )
    return given


def _varying(array: jax.Array) -> frozenset[Any]:
    """The axes of jax.shard_map's mesh over which an array varies."""
    kind: Any = jax.typeof(array)
    axes: frozenset[Any] = kind.vma if hasattr(kind, "vma") else kind.manual_axis_type.varying
    return axes


def _alike(arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
    """The arrays, varying over the same axes. JAX sums the gradients of those that did not."""
    axes: frozenset[Any] = frozenset().union(*map(_varying, arrays))

    def cast(array: jax.Array) -> jax.Array:
        missing = tuple(axes - _varying(array))
        if not missing:
            return array
        lax: Any = jax.lax
        is_old = not hasattr(lax, "pcast")  # named pvary in the first versions of jax 0.8
        result: jax.Array = (
            lax.pvary(array, missing) if is_old else lax.pcast(array, missing, to="varying")
        )
        return result

    return [cast(each) for each in arrays]


def _like(arrays: Sequence[jax.Array], shape: tuple[int, ...], dtype: Any) -> Any:
    """The type of a result. Inside jax.shard_map it varies over the axes of all arrays."""
    types: list[Any] = [jax.typeof(each) for each in arrays]
    struct: Any = jax.ShapeDtypeStruct
    is_old = hasattr(types[0], "vma")  # before jax 0.10
    axes: frozenset[Any] = frozenset().union(*map(_varying, arrays))
    if not axes:
        return struct(shape, dtype)
    spec: Any = jax.sharding.PartitionSpec
    place = jax.sharding.NamedSharding(types[0].sharding.mesh, spec())
    if is_old:
        return struct(shape, dtype, sharding=place, vma=axes)
    manual: Any = jax.sharding.ManualAxisType
    return struct(shape, dtype, sharding=place, manual_axis_type=manual(varying=axes))


def _map(
    operation: _Operation,
    axis_size: int,
    is_batched: Sequence[bool],
    *arrays: jax.Array,
) -> tuple[Sequence[jax.Array], Sequence[bool]]:
    """The rule of jax.vmap: one launch, whose batch axis includes the mapped axis."""
    single = [
        each.shape[1:] if is_mapped else each.shape
        for each, is_mapped in zip(arrays, is_batched, strict=True)
    ]
    batch = single[0][0]
    axis = 2 if operation.is_bshd else 1
    leading = operation.leading
    shapes = tuple(zip(operation.operands, single[leading:], strict=True))
    is_backward = operation.algorithm == "backward"
    if is_backward and "dropout.state" in operation.operands and not is_batched[3]:
        raise UnsupportedError(
            "jax.vmap maps the gradients of attention with dropout, but not attention itself (as "
            "jax.jacrev does): its batches would drop other pairs; use jax.lax.map instead"
        )
    text = with_named_axes(operation.text, shapes, batch, single[0][axis], single[1][axis])
    parameters = {each.name: each for each in (*program_of(text).parameters, *_DROPOUT)}

    def fold(array: jax.Array, is_mapped: bool, has_batch: bool = True) -> jax.Array:
        """[axis_size * batch, ...] of an array that may lack one or both of these axes."""
        if not is_mapped:
            array = jnp.expand_dims(array, 0)
        if not has_batch:
            array = jnp.expand_dims(array, 1)
        full = jnp.broadcast_to(array, (axis_size, batch, *array.shape[2:]))
        return jnp.reshape(full, (axis_size * batch, *array.shape[2:]))

    folded = [fold(arrays[0], is_batched[0])]
    for array, is_mapped in zip(arrays[1:3], is_batched[1:3], strict=True):
        # The handler reads a single batch of k or v for all batches, without a copy.
        is_shared = not is_mapped and array.shape[0] == 1
        folded.append(array if is_shared else fold(array, is_mapped))
    folded += map(fold, arrays[3:leading], is_batched[3:leading])
    mapped = []
    for name, array, is_mapped in zip(
        operation.operands, arrays[leading:], is_batched[leading:], strict=True
    ):
        shape = parameters[name].shape
        has_batch = shape is not None and shape[0] == "B"
        if is_mapped and name == "dropout.state":
            raise UnsupportedError(
                "the seed of dropout is mapped by jax.vmap, and one launch has one seed: pass the "
                "same key for all, since each batch drops pairs of its own"
            )
        if is_mapped and not has_batch:
            mapped.append(name)
        folded.append(fold(array, is_mapped, has_batch) if is_mapped or has_batch else array)
    larger = operation._replace(text=with_batch_axis(text, tuple(mapped)))
    results = [
        jnp.reshape(each, (axis_size, batch, *each.shape[1:]))
        for each in _mappable(larger, *folded)
    ]
    return results, [True] * len(results)
