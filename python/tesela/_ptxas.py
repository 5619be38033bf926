# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ptxas of the package's extra: ``pip install tesela[ptxas]``."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def find() -> str | None:
    """The ptxas of PyPI's nvidia-cuda-nvcc (the newest, if there are several), or None."""
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations if spec else None
    found = [
        program
        for folder in folders or ()
        for pattern in ("cu[0-9]*/bin/ptxas", "cuda_nvcc/bin/ptxas")
        for program in Path(folder).glob(pattern)
    ]
    return str(max(found, key=_release)) if found else None


def _release(program: Path) -> int:
    """The CUDA version in the path: 13 for nvidia/cu13/bin/ptxas. A path without one is older."""
    name = program.parent.parent.name
    return int(name[2:]) if name[2:].isdecimal() else 0
