# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over JAX's arrays: under jit, grad, vmap and shard_map, on the CPU and on CUDA.

import tesela.jax

@jax.jit
def layer(q, k, v):
    return tesela.jax.attention(q, k, v, "sliding_window", window=512)
"""

from __future__ import annotations

from typing import Any

from tesela._attention import Layout
from tesela._attention import attention as _attention
from tesela._errors import InvalidArgumentError
from tesela._variant import Variant

try:
    import jax as _jax
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "tesela.jax needs JAX 0.8 or later: pip install 'tesela[jax]'"
    ) from error

# Programs that were exported need XLA's handler, which it registers.
from tesela.jax import _operation as _operation

__all__ = ["attention"]


def attention(
    q: _jax.typing.ArrayLike,
    k: _jax.typing.ArrayLike,
    v: _jax.typing.ArrayLike,
    variant: Variant | str | Any = "full",
    *,
    scale: float | None = None,
    return_lse: bool = False,
    layout: Layout = "bhsd",
    dropout_p: float = 0.0,
    seed: _jax.Array | None = None,
    **parameters: Any,
) -> Any:
    """Attention by a variant: ``softmax(score(scale q k^T) where mask) v``.

    The same as :func:`tesela.attention`, which also takes JAX's arrays; this function takes NumPy's
    too, and gives JAX's in any case.

    Args:
        q: queries, ``[B, H, Sq, Dqk]``, or ``[B, Sq, H, Dqk]`` with ``layout="bshd"``; float16 or
            bfloat16, on the CPU also float32. All of q, k and v may be without the batch axis.
        k: keys, ``[B, Hkv, Sk, Dqk]`` in the same type. H is a multiple of Hkv: query head h reads
            the key head ``h // (H // Hkv)``.
        v: values, ``[B, Hkv, Sk, Dv]``. Dqk and Dv are multiples of 8 up to 256.
        variant: a :class:`tesela.Variant`, or what :func:`tesela.variant` takes.
        scale: of ``q k^T``, finite and positive, no array of JAX; None: ``1/sqrt(Dqk)``.
        return_lse: also give the natural logarithm of each row's sum.
        layout: the order of the axes of q, k, v and the result.
        dropout_p: the probability with which a pair of a query and a key is dropped, a number in
            [0, 1]; the others are divided by ``1 - dropout_p``.
        seed: a key of ``jax.random``, which may be traced and needs to be there with dropout: it
            decides which pairs are dropped, in the result and in its gradients. Not mapped by
            ``jax.vmap``, where each batch drops pairs of its own.
        parameters: values of the variant's parameters. A captured tensor is an array of JAX or
            NumPy: float32, float16, bfloat16, int32, int64, bool or uint8. A scalar is a number,
            which becomes part of the program that XLA compiles, or an array of JAX without axes,
            which may be traced, and whose value compiles nothing. On CUDA the kernel then reads it
            from the device's memory, and looks there for the tiles that it may skip. A ``const``
            parameter is a number, which is compiled into the kernel.

    Returns:
        The result, ``[B, H, Sq, Dv]`` in q's type (``[B, Sq, H, Dv]`` with ``layout="bshd"``); with
        ``return_lse`` a pair of it and the logarithms, ``[B, H, Sq]`` in float32. Without the batch
        axis where q has none. A row whose keys are all masked is 0, and its logarithm -inf.

    Raises:
        InvalidArgumentError: a shape or value does not fit; the sentence says which, and what
            to do.
        InvalidVariantError: the variant's text has errors.
        UnsupportedError: a type of elements; a gradient of a parameter's value or of the
            logarithms; a variant that ``jax.vmap`` cannot map.
        jax.errors.JaxRuntimeError: what only the launch can know does not fit, such as the extents
            of a captured tensor, or the device cannot do it; it has the library's sentence.
    """
    if "out" in parameters:
        raise InvalidArgumentError("JAX arrays cannot be written: omit the argument out")
    return _attention(
        _jax.numpy.asarray(q),
        k,
        v,
        variant,
        scale=scale,
        return_lse=return_lse,
        layout=layout,
        dropout_p=dropout_p,
        seed=seed,
        **parameters,
    )
