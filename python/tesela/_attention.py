# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over the tensors of any framework."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Literal

from tesela._arguments import without_memory
from tesela._dropout import probability_of
from tesela._errors import InvalidArgumentError
from tesela._variant import Variant, as_variant
from tesela._variant import variant as variant_of

Layout = Literal["bhsd", "bshd"]

_MODULES = {
    "numpy": "_numpy",
    "torch": "torch",
    "jax": "jax._operation",
    "jaxlib": "jax._operation",
}
"""The first word of a tensor type's module -> the module of this package for the framework."""


_known = SimpleNamespace()
"""The framework's name -> its ``attention``, for the frameworks that were used."""

_known_dropout = SimpleNamespace()
"""The framework's name -> the function that draws the pairs that a call drops."""

_known_number = SimpleNamespace()
"""The framework's name -> the function that takes the number from an argument's tensor."""

_frameworks: dict[type, str] = {}
"""A tensor's type -> the framework's name."""


_failures: dict[str, Exception] = {}
"""Exceptions of load_ahead, by module. Importing again would fail in another way, because what
the first import registered with the framework remains."""


def load_ahead(module: str) -> None:
    """Imports the module for a framework. If that fails, the first call raises the exception."""
    try:
        importlib.import_module(f"tesela.{module}")
    except Exception as failure:
        _failures[module] = failure


def _same(_: str, value: Any) -> Any:
    """``number`` of a framework whose tensors are numbers of Python, if they have one element."""
    return value


def _framework(type_of_q: type) -> str:
    """The name under which ``_known`` has the function for tensors of this type."""
    found = _frameworks.get(type_of_q)
    if found is not None:
        return found
    for base in type_of_q.__mro__:
        module = _MODULES.get(base.__module__.partition(".")[0])
        if module is not None:
            if module in _failures:
                raise _failures[module]
            functions = importlib.import_module(f"tesela.{module}")
            setattr(_known, module, functions.attention)
            setattr(_known_dropout, module, functions.dropout)
            setattr(_known_number, module, getattr(functions, "number", _same))
            return _frameworks.setdefault(type_of_q, module)
    raise InvalidArgumentError(
        f"q is of the type {type_of_q}, but must be a tensor of NumPy, PyTorch or JAX: convert it"
    )


# torch.compile calls this function while it traces, and does not trace into it.
_framework._dynamo_marked_constant = True  # type: ignore[attr-defined]


def attention(
    q: Any,
    k: Any,
    v: Any,
    variant: Variant | str | Any = "full",
    *,
    scale: float | None = None,
    return_lse: bool = False,
    layout: Layout = "bhsd",
    out: Any = None,
    dropout_p: float = 0,  # torch.compile makes a symbol of 0.0, and a second graph
    seed: Any = None,
    **parameters: Any,
) -> Any:
    """Computes attention with a variant: ``softmax(score(scale q k^T) where mask) v``.

    Args:
        q: queries, ``[B, H, Sq, Dqk]``, or ``[B, Sq, H, Dqk]`` with ``layout="bshd"``: a tensor of
            NumPy, PyTorch or JAX in float16 or bfloat16, or on the host also float32. The last
            stride must be 1. On a GPU the address and the other strides must be multiples of 16
            bytes. No tensor is copied.
        k: keys, ``[B, Hkv, Sk, Dqk]``, in q's type, on q's device. H is a multiple of Hkv: query
            head h reads the key head ``h // (H // Hkv)``.
        v: values, ``[B, Hkv, Sk, Dv]``. Dqk and Dv are multiples of 8, up to 256. Without gradients
            and dropout Dqk may be up to 576 and Dv up to 512.
        variant: a :class:`tesela.Variant`, or what :func:`tesela.variant` takes.
        scale: the factor of ``q k^T``, a finite and positive number. None means ``1/sqrt(Dqk)``. It
            has no gradient: for a trained factor declare an f32 parameter that the score is
            multiplied by, and pass ``scale=1``.
        return_lse: whether to also return the natural logarithm of each row's sum.
        layout: the order of the axes of q, k, v and the result.
        out: the tensor that receives the result, of its shape and type. None makes a new tensor.
        dropout_p: the probability with which a pair of a query and a key is dropped, a number in
            [0, 1]. The other pairs are divided by ``1 - dropout_p``. 0 means no dropout.
        seed: decides, together with b, h, q and k, which pairs are dropped. The same seed drops the
            same pairs in both passes and on every device. None drops other pairs in each call.
            NumPy takes a 64-bit integer, or None. PyTorch takes a 64-bit integer, a
            ``torch.Generator``, or a tensor of four int32 on the device; None draws from PyTorch's
            generator. JAX requires a key of ``jax.random``.
        parameters: values of the variant's parameters: numbers for scalars, tensors on the same
            device for captured tensors. int64 is read as int32 and wraps. These values replace
            values that are bound to the variant. If a parameter has the name of an argument of this
            function, as ``scale``, give its value by ``tesela.variant(text, scale=...)``.

    Returns:
        The result, ``[B, H, Sq, Dv]`` in q's type (``[B, Sq, H, Dv]`` with ``layout="bshd"``). With
        ``return_lse`` a pair: the result, and the logarithms ``[B, H, Sq]`` in float32. If all keys
        of a row are masked, its result is 0 and its logarithm is -inf.

    Raises:
        InvalidArgumentError: a shape, stride, type or value is not accepted. The message says
            which, and what to do.
        InvalidVariantError: the variant's text has errors.
        UnsupportedError: the device cannot do it, or a gradient does not exist. PyTorch and JAX
            have gradients of q, k and v; PyTorch also has those of captured floating-point tensors
            and f32 scalars.
    """
    function = getattr(_known, _framework(type(q)))
    if callable(variant):  # the parameters are the function's arguments
        variant, parameters = variant_of(variant, **parameters), {}
    if not isinstance(dropout_p, (int, float)) or dropout_p != 0:
        framework = _framework(type(q))
        p = probability_of(getattr(_known_number, framework)("dropout_p", dropout_p))
        if p != 0:
            draw = getattr(_known_dropout, framework)
            variant = as_variant(variant)._dropping({"dropout.p": p, **draw(q, seed)})
    try:
        if not isinstance(layout, str) or layout not in ("bhsd", "bshd"):
            raise InvalidArgumentError(f"the layout is {layout!r}, but it must be 'bhsd' or 'bshd'")
        return function(q, k, v, variant, scale, return_lse, layout == "bshd", out, parameters)
    except InvalidArgumentError as error:
        _explain_missing(as_variant(variant), error)
        _explain_types(q, k, v, error)
        raise
    except (RuntimeError, BufferError) as error:
        _explain_memory({**as_variant(variant).bound, **parameters}, error)
        raise


_ARGUMENTS = frozenset(attention.__annotations__) - {"parameters", "return"}


def _explain_missing(variant: Variant, error: InvalidArgumentError) -> None:
    """Raises another error if a parameter has no value because an argument has its name."""
    for each in variant.parameters:
        if each.name in _ARGUMENTS and each.default is None and each.name not in variant.bound:
            raise InvalidArgumentError(
                f"the parameter '{each.name}' of the variant '{variant.name}' has no value, and "
                f"{each.name}=... in a call is the call's own argument: give the value by "
                f"tesela.variant(text, {each.name}=...), or rename the parameter"
            ) from error


def _explain_types(q: Any, k: Any, v: Any, error: InvalidArgumentError) -> None:
    """Raises another error if a kernel of q's type got k or v in another type."""
    if "the kernel was compiled for" not in str(error):
        return
    types = [str(each.dtype).rpartition(".")[2] for each in (q, k, v)]
    for name, own in zip("kv", types[1:], strict=True):
        if own != types[0]:
            raise InvalidArgumentError(
                f"q's elements are {types[0]}, k's are {types[1]} and v's are {types[2]}, they "
                f"must have one type: convert {name} to {types[0]}"
            ) from error


def _explain_memory(values: Mapping[str, Any], error: Exception) -> None:
    """Raises another error if PyTorch has no memory for a captured tensor."""
    for name, value in values.items():
        missing = without_memory(value)
        if missing is not None:
            raise InvalidArgumentError(f"the tensor '{name}' {missing}") from error
