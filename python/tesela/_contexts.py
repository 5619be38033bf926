# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One context for each device, with its kernels in memory and on disk."""

from __future__ import annotations

import threading
from typing import NamedTuple

from tesela import _native, _ptxas
from tesela._errors import InvalidArgumentError

HOST = -1
"""The number of the host among the devices. A GPU has CUDA's ordinal."""


class Settings(NamedTuple):
    """The options of new contexts; 0 means the library's default."""

    cache_folder: str | None = None
    no_disk_cache: bool = False
    cache_bytes: int = 0
    most_kernels: int = 0


settings = Settings()
_contexts: dict[int, _native.Context] = {}
_lock = threading.Lock()


def context(device: int) -> _native.Context:
    """The context of the host (``HOST``) or of a GPU. It is made when it is first asked for."""
    found = _contexts.get(device)
    if found is not None:
        return found
    with _lock:
        if device not in _contexts:
            name = "host" if device == HOST else f"cuda:{device}"
            program = None if device == HOST else _ptxas.find()
            if program is not None:
                _native.use_ptxas(program)
            _contexts[device] = _native.Context(name, *settings, 0)
        return _contexts[device]


def set_cache(folder: str | None, most_bytes: int, most_kernels: int, disk: bool) -> None:
    """See :func:`tesela.cache.limits`."""
    global settings
    with _lock:
        if _contexts:
            raise InvalidArgumentError(
                "the cache's limits cannot change after the first kernel was requested: call "
                "tesela.cache.limits(...) before the first call"
            )
        settings = Settings(folder, not disk, most_bytes, most_kernels)
