# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over the tensors of any framework."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any, Literal

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
"""The module that serves a framework's tensors, by the first word of their type's module."""


_known = SimpleNamespace()
"""``attention`` of the frameworks that were met, by the framework's name."""

_known_dropout = SimpleNamespace()
"""Likewise what draws the pairs that a call drops."""

_frameworks: dict[type, str] = {}
"""The framework's name by a tensor's type."""


_failures: dict[str, Exception] = {}
"""Why a module could not be loaded ahead. A second import would fail for another reason: what the
first one registered with the framework stays."""


def load_ahead(module: str) -> None:
    """Imports what serves a framework's tensors. Where that fails, the first call raises it."""
    try:
        importlib.import_module(f"tesela.{module}")
    except Exception as failure:
        _failures[module] = failure


def _framework(type_of_q: type) -> str:
    """Where ``_known`` has the function for tensors of this type."""
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
            return _frameworks.setdefault(type_of_q, module)
    raise InvalidArgumentError(
        f"q is of the type {type_of_q}, it must be a tensor of NumPy, PyTorch or JAX: convert it"
    )


# torch.compile calls it while it traces, and does not look inside.
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
    dropout_p: float = 0,  # torch.compile makes a symbol of 0.0, and then a second graph
    seed: Any = None,
    **parameters: Any,
) -> Any:
    """Attention by a variant: ``softmax(score(scale q k^T) where mask) v``.

    Args:
        q: queries, ``[B, H, Sq, Dqk]``, or ``[B, Sq, H, Dqk]`` with ``layout="bshd"``. Of NumPy,
            PyTorch or JAX; float16 or bfloat16, on the host also float32. The last stride is 1; on
            a GPU the address and the other strides are multiples of 16 bytes. Nothing is copied.
        k: keys, ``[B, Hkv, Sk, Dqk]``, in the same type, on the same device. H is a multiple of
            Hkv: query head h reads the key head ``h // (H // Hkv)``.
        v: values, ``[B, Hkv, Sk, Dv]``. Dqk and Dv are multiples of 8 up to 256; without gradients
            and dropout up to 576 and 512.
        variant: a :class:`tesela.Variant`, or what :func:`tesela.variant` takes.
        scale: the factor of ``q k^T``, finite and positive. None means ``1/sqrt(Dqk)``.
        return_lse: True: also return the natural logarithm of each row's sum.
        layout: the order of the axes of q, k, v and the result.
        out: the tensor that receives the result, of its shape and type. None makes a new tensor.
        dropout_p: the probability with which a pair of a query and a key is dropped, in [0, 1]. The
            other pairs are divided by ``1 - dropout_p``. 0: no dropout.
        seed: decides, together with b, h, q and k, which pairs are dropped. The same seed drops the
            same pairs in both passes and on every device. None: others in each call. NumPy: a whole
            number of 64 bits, or None. PyTorch: such a number, a ``torch.Generator``, or a tensor
            of four int32 on the device; None draws from PyTorch's generator. JAX: a key of
            ``jax.random``, which must be given.
        parameters: values of the variant's parameters: numbers for scalars, tensors on the same
            device for captured tensors. int64 is read as int32 and wraps. They replace values that
            the variant is bound to. Use ``Variant.bind`` for a parameter that has the name of an
            argument of this function.

    Returns:
        The result, ``[B, H, Sq, Dv]`` in q's type (``[B, Sq, H, Dv]`` with ``layout="bshd"``). With
        ``return_lse`` a pair: the result, and the logarithms ``[B, H, Sq]`` in float32. A row whose
        keys are all masked is 0, and its logarithm is -inf.

    Raises:
        InvalidArgumentError: a shape, stride, type or value does not fit; the sentence says which,
            and what to do.
        InvalidVariantError: the variant's text has errors.
        UnsupportedError: the device cannot do it, or a gradient does not exist. q, k and v have
            gradients in PyTorch and JAX, captured floating-point tensors and f32 scalars in
            PyTorch.
    """
    function = getattr(_known, _framework(type(q)))
    if layout != "bhsd" and layout != "bshd":
        raise InvalidArgumentError(f"the layout is {layout!r}, it must be 'bhsd' or 'bshd'")
    if callable(variant):  # the parameters are arguments of the function
        variant, parameters = variant_of(variant, **parameters), {}
    if dropout_p != 0:
        draw = getattr(_known_dropout, _framework(type(q)))
        variant = as_variant(variant)._dropping({"dropout.p": dropout_p, **draw(q, seed)})
    return function(q, k, v, variant, scale, return_lse, layout == "bshd", out, parameters)
