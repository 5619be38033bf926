# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# FlashAttention-3's library: which files it needs, how they are loaded, what its operators get.
#
# PyTorch does not have FlashAttention-3. The wheel xformers 0.0.34 has it compiled, as
# xformers/flash_attn_3/_C.so, against CUDA 12's runtime, which PyTorch for CUDA 13 does not bring:
# libcudart.so.12 of the wheel nvidia-cuda-runtime-cu12.

import contextlib
import ctypes
import lzma
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from cases import Case

LIBRARY, RUNTIME = "_C.so", "libcudart.so.12"
SOURCE = (
    f"a folder with {LIBRARY} or {LIBRARY}.xz (xformers/flash_attn_3/_C.so of the wheel xformers "
    f"0.0.34) and {RUNTIME} (of the wheel nvidia-cuda-runtime-cu12), both from PyPI"
)
CAPABILITY = (9, 0)  # its only kernels are those of sm_90a; elsewhere it ends the process
CHUNK_BYTES = 1 << 24


def missing(folder: str) -> str | None:
    """Which file `folder` lacks; None where it has all."""
    paths = [os.path.join(folder, name) for name in (LIBRARY, f"{LIBRARY}.xz", RUNTIME)]
    library, packed, runtime = map(os.path.isfile, paths)
    if not library and not packed:
        return LIBRARY
    return None if runtime else RUNTIME


@contextlib.contextmanager
def unpacked(folder: str) -> Iterator[str]:
    """The library's path: in `folder`, or a temporary file of what is packed there."""
    path = os.path.join(folder, LIBRARY)
    if os.path.isfile(path):
        yield path
        return
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        try:
            with lzma.open(f"{path}.xz") as packed:
                shutil.copyfileobj(packed, file, CHUNK_BYTES)
        except (lzma.LZMAError, EOFError) as error:
            raise OSError(f"{path}.xz is damaged: {error}") from error
        file.flush()
        yield file.name


def load(folder: str) -> Any:
    """FlashAttention-3's operators, `fwd` and `bwd`. OSError where a library does not load."""
    import torch

    folder = os.path.abspath(folder)
    ctypes.CDLL(os.path.join(folder, RUNTIME), mode=ctypes.RTLD_GLOBAL)
    with unpacked(folder) as path:  # what is loaded stays when its file is removed
        torch.ops.load_library(path)
    return torch.ops.flash_attn_3


def mask(case: Case) -> dict[str, Any] | None:
    """The operators' arguments for the case's mask; None where it has no such mask or score."""
    variant = case.variant
    if variant.plain == "full":
        return {"is_causal": False, "window_size_left": -1, "window_size_right": -1}
    # With fewer queries than keys its last query, not its first, stands at the last key.
    if case.queries != case.length:
        return None
    if variant.plain == "causal":
        return {"is_causal": True, "window_size_left": -1, "window_size_right": -1}
    if variant.window:
        # How many keys before the query's own are seen, and how many behind it.
        left = variant.window - 1
        return {"is_causal": False, "window_size_left": left, "window_size_right": 0}
    return None


def splits(case: Case) -> int:
    """Into how many parts the keys are split: one, or for decoding 0, as many as it chooses. These
    are the defaults of its own Python functions for training and for decoding."""
    return 1 if case.queries == case.length else 0
