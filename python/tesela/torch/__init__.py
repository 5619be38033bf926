# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tesela for PyTorch.

:func:`tesela.attention` takes tensors of PyTorch, on the CPU and on CUDA. This module has
additional functions for PyTorch: :func:`scaled_dot_product_attention`, with the signature and the
meaning of PyTorch's function; :func:`replace_sdpa`, which replaces PyTorch's function by it; and
:func:`sdpa_log`, which records which kernels each call ran.

The operators are ``torch.ops.tesela.attention``, ``torch.ops.tesela.attention_into`` and
``torch.ops.tesela.attention_backward``.
"""

from tesela.torch import _gradients as _gradients
from tesela.torch import _vmap as _vmap
from tesela.torch._dispatch import attention
from tesela.torch._dropout import dropout as dropout
from tesela.torch._numbers import number as number
from tesela.torch._replace import replace_sdpa
from tesela.torch._sdpa import scaled_dot_product_attention
from tesela.torch._sdpa_log import SdpaCall, sdpa_log

__all__ = [
    "SdpaCall",
    "attention",
    "replace_sdpa",
    "scaled_dot_product_attention",
    "sdpa_log",
]
