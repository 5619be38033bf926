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

# Exported programs need XLA's handler; this module registers it.
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
    """Computes attention with a variant: ``softmax(score(scale q k^T) where mask) v``.

    :func:`tesela.attention` does the same for JAX's arrays. This function also takes NumPy's
    arrays, and always returns JAX's.

    Args:
        q: queries, ``[B, H, Sq, Dqk]``, or ``[B, Sq, H, Dqk]`` with ``layout="bshd"``; float16 or
            bfloat16, or on the CPU also float32. q, k and v may all lack the batch axis.
        k: keys, ``[B, Hkv, Sk, Dqk]``, in q's type. H is a multiple of Hkv: query head h reads the
            key head ``h // (H // Hkv)``.
        v: values, ``[B, Hkv, Sk, Dv]``. Dqk and Dv are multiples of 8, up to 256. Without gradients
            and dropout Dqk may be up to 576 and Dv up to 512.
        variant: a :class:`tesela.Variant`, or what :func:`tesela.variant` takes.
        scale: the factor of ``q k^T``: a finite positive number, not a JAX array; None:
            ``1/sqrt(Dqk)``.
        return_lse: also return the natural logarithm of each row's sum.
        layout: the order of the axes of q, k, v and the result.
        dropout_p: the probability with which a pair of a query and a key is dropped, a number in
            [0, 1], not a traced value. The other pairs are divided by ``1 - dropout_p``.
        seed: one key of ``jax.random``, required with dropout; it may be traced. It decides which
            pairs are dropped, in the result and in its gradients. ``jax.vmap`` must not map it;
            each batch then drops other pairs.
        parameters: values of the variant's parameters. A captured tensor is an array of JAX or
            NumPy with elements as the variant declares them (for i32 also int64, for bool also
            uint8). A scalar is a number, which becomes part of the program that XLA compiles, or a
            JAX array without axes. Such an array may be traced, and another value needs no
            compilation. On CUDA the kernel then reads the value from device memory, and finds the
            tiles to skip from it. A ``const`` parameter is a number, which is compiled into the
            kernel.

    Returns:
        The result, ``[B, H, Sq, Dv]`` in q's type (``[B, Sq, H, Dv]`` with ``layout="bshd"``). With
        ``return_lse`` a pair: the result, and the logarithms, ``[B, H, Sq]`` in float32. Without a
        batch axis if q has none. If all keys of a row are masked, its result is 0 and its logarithm
        is -inf.

    Raises:
        InvalidArgumentError: a shape or value is not accepted. The message says which, and what to
            do.
        InvalidVariantError: the variant's text has errors.
        UnsupportedError: an element type of q, k or v; a head dimension; a gradient of a
            parameter's value; or a variant that ``jax.vmap`` cannot map.
        jax.errors.JaxRuntimeError: the launch failed, because of something that is only known
            then, such as the extents of a captured tensor, or because the device cannot do it.
            It has the library's message.
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
