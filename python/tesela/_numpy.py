# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over NumPy's arrays, on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tesela import _native
from tesela._contexts import HOST
from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela._variant import Variant

_TYPES = {"float32": _native.F32, "float16": _native.F16, "bfloat16": _native.BF16}


def attention(
    q: np.ndarray[Any, Any],
    k: Any,
    v: Any,
    variant: Variant,
    scale: float | None,
    return_lse: bool,
    is_bshd: bool,
    out: np.ndarray[Any, Any] | None,
    parameters: Mapping[str, Any],
) -> Any:
    """See :func:`tesela.attention`."""
    if q.ndim != 4 or getattr(v, "ndim", None) != 4:
        raise InvalidArgumentError(
            f"q has the shape {q.shape} and v {getattr(v, 'shape', None)}: each must have four "
            "axes, [batch, heads, length, head dimension], or the order that layout names"
        )
    input_type = _TYPES.get(str(q.dtype))
    if input_type is None:
        raise UnsupportedError(
            f"q's elements are {q.dtype}, they must be float32, float16 or bfloat16 (of "
            "ml_dtypes): convert them"
        )
    values, constants = variant._arguments(parameters)
    head_dim_v = v.shape[3]
    kernel = variant._kernel(input_type, q.shape[3], head_dim_v, HOST, constants)
    heads, queries = (2, 1) if is_bshd else (1, 2)
    if out is None:
        out = np.empty((*q.shape[:3], head_dim_v), q.dtype)
    if not return_lse:
        kernel.launch(q, k, v, out, None, scale, values, is_bshd, 0, None)
        return out
    lse = np.empty((q.shape[0], q.shape[heads], q.shape[queries]), np.float32)
    kernel.launch(q, k, v, out, lse, scale, values, is_bshd, 0, None)
    return out, lse
