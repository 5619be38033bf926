# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The element type and the number of axes of a tensor of PyTorch, NumPy or JAX."""

from __future__ import annotations

from typing import Any, Final

from . import state
from .error import error
from .graph import BOOL, F32, I32

#: dtype -> (the element type in the text, the type of an element that is read).
_ELEMENTS: Final = {
    "float32": ("f32", F32),
    "float16": ("f16", F32),
    "bfloat16": ("bf16", F32),
    "int32": ("i32", I32),
    "int64": ("i32", I32),
    "bool": ("bool", BOOL),
}


_known: dict[Any, tuple[str, str]] = {}


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor of a framework."""
    for name, kind in (("torch", "Tensor"), ("numpy", "ndarray")):
        framework = state.framework(name)
        if framework is not None and isinstance(value, getattr(framework, kind)):
            return True
    is_jax = type(value).__module__.partition(".")[0] in ("jax", "jaxlib")
    return is_jax and hasattr(value, "shape") and hasattr(value, "dtype")


def element_of(value: Any, name: str) -> tuple[str, str]:
    """(the element type in the text, the type of an element that is read)."""
    known = _known.get(value.dtype)
    if known is not None:
        return known
    dtype = str(value.dtype).rpartition(".")[2]
    found = _ELEMENTS.get(dtype)
    if found is None:
        remedy = {"float64": "float32"}.get(dtype, "int32" if "int" in dtype else "float32")
        raise error(
            f"the elements of the tensor '{name}' are {dtype}; they must be float32, float16, "
            f"bfloat16, int32, int64 or bool: convert it to {remedy}"
        )
    _known[value.dtype] = found
    return found


def rank_of(value: Any) -> int:
    """The number of axes."""
    return len(value.shape)
