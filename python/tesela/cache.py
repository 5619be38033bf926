# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels on disk, and limits for them.

Every device of a process uses one folder: $TESELA_CACHE_DIR, or $XDG_CACHE_HOME/tesela, or
~/.cache/tesela. Several processes and machines may share it. A kernel is compiled if it is neither
in memory nor in the folder.

    for kernel in tesela.cache.kernels():
        print(kernel.variant, kernel.target, kernel.bytes)
    tesela.cache.prune(most_bytes=100_000_000)
    tesela.cache.clear()
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import NamedTuple

from tesela import _contexts, _native
from tesela._arguments import MOST_WHOLE, whole

__all__ = ["CachedKernel", "Removal", "clear", "folder", "kernels", "limits", "prune"]


@dataclass(frozen=True)
class CachedKernel:
    """A kernel on disk.

    Attributes:
        variant: the variant's name.
        target: "host" or "sm_90".
        input_type: "bf16", "f16" or "f32".
        head_dim_qk: the head dimension of queries and keys.
        head_dim_v: the head dimension of values.
        schedule: the schedule that was chosen.
        bytes: the size of the file.
        made: when the kernel was compiled.
        used: when it was last stored or loaded, to the minute.
        path: the path of the file.
        key: 64 hexadecimal digits.
        damage: why the kernel is not used; "" if it is intact. Of a damaged kernel only path,
            bytes, used and key are known. It is compiled again when it is needed.
    """

    variant: str
    target: str
    input_type: str
    head_dim_qk: int
    head_dim_v: int
    schedule: str
    bytes: int
    made: datetime
    used: datetime
    path: str
    key: str
    damage: str


class Removal(NamedTuple):
    """The result of a removal: what was removed, and what is left."""

    kernels: int
    bytes: int
    bytes_left: int


def _limit(name: str, value: int, zero: str) -> int:
    """A limit, for which 0 means ``zero``."""
    return whole(name, value, 0, MOST_WHOLE, f"0 means {zero}")


def _path(name: str | os.PathLike[str] | None) -> str | None:
    if name is None:
        return _contexts.settings.cache_folder
    return os.fspath(name)


def folder() -> str:
    """The folder of this process."""
    return _native.cache_folder(_path(None))


def kernels(
    folder: str | os.PathLike[str] | None = None, *, verify: bool = False
) -> list[CachedKernel]:
    """The kernels in a folder, most recently used first.

    Args:
        folder: None: the folder of this process.
        verify: whether to read each file completely and check it.

    Raises:
        InputOutputError: the folder cannot be read. A folder that does not exist has no kernels.
    """
    listed = _native.cache_list(_path(folder), verify)
    for each in listed:
        each["made"] = datetime.fromtimestamp(each["made"], timezone.utc)
        each["used"] = datetime.fromtimestamp(each["used"], timezone.utc)
    return [CachedKernel(**each) for each in listed]


def prune(
    folder: str | os.PathLike[str] | None = None,
    *,
    most_bytes: int = 0,
    most_seconds_old: int = 0,
) -> Removal:
    """Removes the least recently used kernels.

    Args:
        folder: None: the folder of this process.
        most_bytes: the largest size of all kernels together; 0: no limit.
        most_seconds_old: the longest time since a kernel's last use; 0: no limit.

    Raises:
        InvalidArgumentError: a limit is negative or not a whole number.
    """
    keep = (
        _limit("most_bytes", most_bytes, "no limit"),
        _limit("most_seconds_old", most_seconds_old, "no limit"),
    )
    return Removal(*_native.cache_prune(_path(folder), *keep))


def clear(folder: str | os.PathLike[str] | None = None) -> Removal:
    """Removes all kernels. Other files and folders stay."""
    return Removal(*_native.cache_prune(_path(folder), -1, -1))


def limits(
    *,
    folder: str | os.PathLike[str] | None = None,
    most_bytes: int = 0,
    most_kernels: int = 0,
    disk: bool = True,
) -> None:
    """Sets how this process keeps kernels. Call it before the first kernel is needed.

    Args:
        folder: the folder of the kernels; None: from the environment.
        most_bytes: the largest size of the folder; beyond it the least recently used kernels are
            removed. 0: 1 GiB.
        most_kernels: the most kernels in memory; 0: 1024.
        disk: False: nothing is read from disk or written to it.

    Raises:
        InvalidArgumentError: a kernel was used before this call, or a limit is negative or not a
            whole number.
    """
    _contexts.set_cache(
        None if folder is None else os.fspath(folder),
        _limit("most_bytes", most_bytes, "1 GiB"),
        _limit("most_kernels", most_kernels, "1024"),
        disk,
    )
