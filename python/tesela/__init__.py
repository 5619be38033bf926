# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tesela compiles attention variants while the program runs.

    import tesela

    window = tesela.variant("sliding_window", window=1024)
    out = tesela.attention(q, k, v, window)

A mask or a score is a text, a Python function or the name of a library variant. Tesela compiles a
kernel for it when it is first needed, and keeps the kernel on disk. See :func:`variant` and
:func:`attention`.
"""

import sys

from tesela import _attention, _native, cache
from tesela._attention import attention
from tesela._cascade import attention_cascade, query_rows
from tesela._devices import Device, devices
from tesela._errors import (
    CancelledError,
    DeadlineExceededError,
    DefectError,
    DriverError,
    Error,
    InputOutputError,
    InvalidArgumentError,
    InvalidVariantError,
    NotFoundError,
    OutOfMemoryError,
    UnsupportedError,
)
from tesela._explain import Explanation, HeadTiles
from tesela._prepare import Preparation, Request, Trial, Tuning, prepare, tune
from tesela._serving import attention_paged, attention_ragged, merge_partials
from tesela._trace import TraceError
from tesela._variant import Parameter, Variant, library, variant
from tesela._write_pages import write_pages
from tesela.flex import (
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)

__version__ = _native.version

# If the program has imported PyTorch, this import happens now. It would add some 20 ms to the first
# call. If it fails, the first call raises the exception.
if "torch" in sys.modules:
    _attention.load_ahead("torch")

__all__ = [
    "BlockMask",
    "CancelledError",
    "DeadlineExceededError",
    "DefectError",
    "Device",
    "DriverError",
    "Error",
    "Explanation",
    "HeadTiles",
    "InputOutputError",
    "InvalidArgumentError",
    "InvalidVariantError",
    "NotFoundError",
    "OutOfMemoryError",
    "Parameter",
    "Preparation",
    "Request",
    "TraceError",
    "Trial",
    "Tuning",
    "UnsupportedError",
    "Variant",
    "and_masks",
    "attention",
    "attention_cascade",
    "attention_paged",
    "attention_ragged",
    "cache",
    "create_block_mask",
    "create_mask",
    "devices",
    "flex_attention",
    "library",
    "merge_partials",
    "noop_mask",
    "or_masks",
    "prepare",
    "query_rows",
    "tune",
    "variant",
    "write_pages",
]
