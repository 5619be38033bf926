# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# FlashAttention-3's library: the files that it needs, how to load them, and the arguments of its
# operators.
#
# PyTorch does not contain FlashAttention-3. The wheel xformers 0.0.34 contains it as
# xformers/flash_attn_3/_C.so. That file needs the runtime of CUDA 12, which PyTorch for CUDA 13
# does not bring: libcudart.so.12 of the wheel nvidia-cuda-runtime-cu12.

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
CAPABILITY = (9, 0)  # it only has kernels for sm_90a; on other GPUs it ends the process
CHUNK_BYTES = 1 << 24


def missing(folder: str) -> str | None:
    """The file that `folder` lacks; None if all files are there."""
    paths = [os.path.join(folder, name) for name in (LIBRARY, f"{LIBRARY}.xz", RUNTIME)]
    library, packed, runtime = map(os.path.isfile, paths)
    if not library and not packed:
        return LIBRARY
    return None if runtime else RUNTIME


@contextlib.contextmanager
def unpacked(folder: str) -> Iterator[str]:
    """The library's path: the file in `folder`, or a temporary file with the unpacked library."""
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
    """FlashAttention-3's operators, `fwd` and `bwd`. Raises OSError if a library does not load."""
    import torch

    folder = os.path.abspath(folder)
    ctypes.CDLL(os.path.join(folder, RUNTIME), mode=ctypes.RTLD_GLOBAL)
    with unpacked(folder) as path:  # a loaded library stays after its file is removed
        torch.ops.load_library(path)
    return torch.ops.flash_attn_3


def mask(case: Case) -> dict[str, Any] | None:
    """The operators' arguments for the case's mask; None if they do not support the mask or the
    score."""
    variant = case.variant
    if variant.plain == "full":
        return {"is_causal": False, "window_size_left": -1, "window_size_right": -1}
    # With fewer queries than keys, its causal mask is aligned to the last query, not to the first.
    if case.queries != case.length:
        return None
    if variant.plain == "causal":
        return {"is_causal": True, "window_size_left": -1, "window_size_right": -1}
    if variant.window:
        # Keys before the query's own position, and keys after it.
        left = variant.window - 1
        return {"is_causal": False, "window_size_left": left, "window_size_right": 0}
    return None


def splits(case: Case) -> int:
    """Into how many parts the keys are split: 1, or for decoding 0, which lets the library
    choose. These are the defaults of its own Python functions for training and for decoding."""
    return 1 if case.queries == case.length else 0
