# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ptxas that came with the package's extra: ``pip install tesela[ptxas]``."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def find() -> str | None:
    """The program of PyPI's nvidia-cuda-nvcc, the newest of several; None where there is none."""
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
    """13 of nvidia/cu13/bin/ptxas; what names none is older."""
    name = program.parent.parent.name
    return int(name[2:]) if name[2:].isdecimal() else 0
