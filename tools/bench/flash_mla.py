# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# FlashMLA's library: which file it is, how to load it, and the arguments of its decoding operator.
#
# PyTorch does not contain FlashMLA. vLLM's wheels contain it as vllm/_flashmla_C.abi3.so: 1.8 MB, without its Python
# part. The file needs the version of PyTorch that the wheel asks for, and uses that PyTorch's CUDA runtime: vLLM 0.26.0
# is the last wheel for PyTorch 2.11, and is built for CUDA 13.

import os
from collections.abc import Callable
from typing import Any

LIBRARY = "_flashmla_C.abi3.so"
SOURCE = (
    f"a folder with {LIBRARY} (vllm/{LIBRARY} of the wheel vllm 0.26.0 from PyPI, for PyTorch 2.11)"
)
PAGE, DIM, VALUE_DIM = 64, 576, 512  # the page size and head dimensions of its dense decoding kernels, on sm_90


def load(folder: str) -> Any:
    """FlashMLA's operators. Raises OSError if the library does not load."""
    import torch

    torch.ops.load_library(os.path.join(os.path.abspath(folder), LIBRARY))
    return torch.ops._flashmla_C


def decode(
    operators: Any, q: Any, cache: Any, table: Any, lengths: Any, is_causal: bool
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Two functions that compute attention of q [B, queries, heads, 576] over a cache of pages [pages, 64, 1, 576].
    Both give [B, queries, heads, 512]. The first uses a work plan that was made before, as all layers of a model but
    the first do. The second makes the plan, too."""

    def call(plan: tuple[Any, Any]) -> tuple[Any, ...]:
        where = (lengths, table, DIM**-0.5, is_causal)
        return operators.dense_decode_fwd(q, cache, VALUE_DIM, *where, *plan, None)

    plan = call((None, None))[2:4]
    return lambda: call(plan)[0], lambda: call((None, None))[0]
