# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels on disk, and how many are kept.

Every device of a process reads and writes one folder: $TESELA_CACHE_DIR, else
$XDG_CACHE_HOME/tesela, else ~/.cache/tesela. Several processes and machines may share it. A kernel
is compiled where it is in neither memory nor the folder.

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

__all__ = ["CachedKernel", "Removal", "clear", "folder", "kernels", "limits", "prune"]


@dataclass(frozen=True)
class CachedKernel:
    """A kernel on disk.

    Attributes:
        variant: the variant's name.
        target: "host", "sm_90".
        input_type: "bf16", "f16" or "f32".
        head_dim_qk: of queries and keys.
        head_dim_v: of values.
        schedule: as it was chosen.
        bytes: of the file.
        made: when it was compiled.
        used: when it was last stored or loaded, to the minute.
        path: the file.
        key: 64 hexadecimal digits.
        damage: why it is not used; "" where it is. Of a damaged kernel only path, bytes, used and
            key are known; it is compiled anew when it is asked for.
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
    """What was removed, and what is left."""

    kernels: int
    bytes: int
    bytes_left: int


def _path(name: str | os.PathLike[str] | None) -> str | None:
    if name is None:
        return _contexts.settings.cache_folder
    return os.fspath(name)


def folder() -> str:
    """The folder that this process uses."""
    return _native.cache_folder(_path(None))


def kernels(
    folder: str | os.PathLike[str] | None = None, *, verify: bool = False
) -> list[CachedKernel]:
    """The kernels in the folder (None: this process's), those used last first.

    Args:
        folder: None: the one that this process uses.
        verify: also read and check each file to its end.

    Raises:
        InputOutputError: the folder cannot be read. One that is not there has no kernels.
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
    """Removes the kernels that were used longest ago.

    Args:
        folder: None: the one that this process uses.
        most_bytes: what all together may have; 0: no limit.
        most_seconds_old: the age since the last use that a kernel may have; 0: no limit.
    """
    return Removal(
        *_native.cache_prune(_path(folder), max(most_bytes, 0), max(most_seconds_old, 0))
    )


def clear(folder: str | os.PathLike[str] | None = None) -> Removal:
    """Removes all kernels. Files and folders that are not the cache's stay."""
    return Removal(*_native.cache_prune(_path(folder), -1, -1))


def limits(
    *,
    folder: str | os.PathLike[str] | None = None,
    most_bytes: int = 0,
    most_kernels: int = 0,
    disk: bool = True,
) -> None:
    """How this process keeps kernels. To be called before the first kernel is asked for.

    Args:
        folder: where they are kept; None: as the environment says.
        most_bytes: of the folder; what was used longest ago is removed beyond that. 0: 1 GiB.
        most_kernels: in memory; 0: 1024.
        disk: False: nothing is read from or written to disk.

    Raises:
        InvalidArgumentError: a kernel was asked for before.
    """
    _contexts.set_cache(
        None if folder is None else os.fspath(folder), most_bytes, most_kernels, disk
    )
