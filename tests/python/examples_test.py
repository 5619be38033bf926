# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python examples run unchanged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the examples need PyTorch")
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_new_mask(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / "new_mask.py"), "300"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "attention notebook(window: i32, page: i32, heading: i32)" in ran.stdout
    error = re.search(r"largest difference to PyTorch: (\S+)", ran.stdout)
    assert error is not None and float(error[1]) < 3e-2, ran.stdout
    assert re.search(
        r"Tesela [\d.]+ ms, with a window of 256 [\d.]+; PyTorch [\d.]+ ms", ran.stdout
    )
    assert "<svg" in (tmp_path / "notebook.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_long_context(how: str) -> None:
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", str(EXAMPLES / "long_context.py"), "4", "300", how),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    losses = re.findall(r"step \d: ([\d.]+) by 2 ranks, ([\d.]+) alone", ran.stdout)
    assert len(losses) == 4, ran.stdout
    for split, alone in losses:
        assert abs(float(split) - float(alone)) < 2e-4, ran.stdout
    assert float(losses[-1][0]) < float(losses[0][0])
