# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One context for each device: its kernels, in memory and on disk."""

from __future__ import annotations

import threading

from tesela import _native

HOST = -1
"""The host's number among devices; a GPU's is CUDA's ordinal."""

_contexts: dict[int, _native.Context] = {}
_lock = threading.Lock()


def context(device: int) -> _native.Context:
    """The context of the host (``HOST``) or of a GPU, made when it is first asked for."""
    found = _contexts.get(device)
    if found is not None:
        return found
    with _lock:
        if device not in _contexts:
            name = "host" if device == HOST else f"cuda:{device}"
            _contexts[device] = _native.Context(name, None, False, 0, 0, 0)
        return _contexts[device]
