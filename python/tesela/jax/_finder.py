# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The function that XLA's handler calls for a kernel that it does not know yet."""

from __future__ import annotations

import os
import re

from tesela import _native
from tesela._errors import InvalidVariantError, UnsupportedError
from tesela._variant import Variant
from tesela.jax._rewrite import program_of, with_captured_scalars

_found: list[_native.Kernel] = []
"""Kernels are kept forever: programs of XLA may call them as long as the process lives."""


def constants_text(constants: tuple[tuple[str, float], ...]) -> str:
    """The values of const parameters as text, for an attribute of the operation."""
    return ",".join(f"{name}={value!r}" for name, value in constants)


def _constants(text: str) -> tuple[tuple[str, float], ...]:
    pairs = (each.partition("=") for each in text.split(",") if each)
    return tuple((name, float(value)) for name, _, value in pairs)


def _wants_same_bits() -> bool:
    """Whether a flag asks XLA for the same results in each run."""
    flags = r"--xla_gpu_(deterministic_ops|exclude_nondeterministic_ops)(=true|=1)?(\s|$)"
    return re.search(flags, os.environ.get("XLA_FLAGS", "")) is not None


def find(
    text: str,
    constants: str,
    scalars: str,
    input_type: int,
    head_dim_qk: int,
    head_dim_v: int,
    device: int,
    queries: int,
    keys: int,
    algorithm: str,
    drops: bool,
) -> int:
    """The ``tesela_kernel *`` for calls of these attributes, types and lengths.

    Args:
        text: the text of the variant.
        constants: the result of ``constants_text``.
        input_type: the type of q, k and v, numbered as in ``_native``.
        head_dim_qk: the last extent of q and k.
        head_dim_v: the last extent of v.
        scalars: the names of scalars whose values are in GPU memory, ``"name,..."``. The kernel
            reads them as captured tensors.
        device: the host's number, or CUDA's ordinal.
        queries: Sq.
        keys: Sk.
        algorithm: "forward" or "backward". For the latter the library's fastest algorithm is taken,
            unless XLA is asked for the same bits in each run.
        drops: whether the calls have dropout.
    """
    if scalars:
        try:
            text = with_captured_scalars(text, tuple(scalars.split(",")))
            program_of(text)
        except InvalidVariantError as error:
            raise UnsupportedError(
                f"the values of {scalars} are arrays of JAX in a GPU's memory, and this variant "
                f"cannot read them there: pass plain numbers. {error}"
            ) from error
    variant = Variant(program_of(text), {})
    if drops:
        variant = variant._dropping({})
    kernel = variant._kernel(
        *(input_type, head_dim_qk, head_dim_v, device, _constants(constants)),
        "backward_fast" if algorithm == "backward" and not _wants_same_bits() else algorithm,
    )
    address = kernel.address(queries, keys)
    _found.append(kernel)
    return address
