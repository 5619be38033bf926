# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measurements in processes of their own, whose caches on disk are empty."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import Any

CACHES = ("TESELA_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def measured(command: list[str], seconds: float) -> tuple[Any, str]:
    """(the JSON of the last line that ``command`` prints, ""). If the command fails or takes
    more than ``seconds``: (a sentence, what it wrote to stderr if it failed)."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **{name: os.path.join(folder, name) for name in CACHES}}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return f"cut after {seconds:g} seconds", ""
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["no message"])[-1][:160], done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1]), ""
