# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tesela.prepare(..., fast_start=True)``, on the stub of the driver and with a real ptxas.

A separate process pretends that PyTorch's tensors in host memory are CUDA tensors. Nothing is
computed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tesela

pytest.importorskip("torch", reason="the tensors are PyTorch's")
STUB = Path(tesela.__file__).parents[2] / "tests" / "cuda-stub"
SOURCES = Path(__file__).parents[1] / "cuda-stub"
PTXAS = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"

PROGRAM = r"""
import json, sys, warnings
from pathlib import Path
import torch

sys.path.insert(0, sys.argv[1])
import torch_on_stub

torch_on_stub.show_as_cuda(0, lambda kind, device: None)
import tesela
from tesela import _native

text = "attention started(w: i32 = 100) { mask = q >= k && q - k < w }"
work = tesela.prepare([text], head_dim=64, length=512, device="cuda", fast_start=True)
work.wait()
kernel = tesela.variant(text)._kernel(_native.BF16, 64, 64, 0, ())
q, k, v, o = (torch.zeros(1, 2, 512, 64, dtype=torch.bfloat16) for _ in "qkvo")


def launched():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        kernel.launch(q, k, v, o, None, None, (100,), False, 0, None)
    return [kernel.describe(512, 512)["schedule_origin"], *(str(each.message) for each in told)]


out = {"first": kernel.describe(512, 512)["schedule_origin"], "failure": ""}
try:
    work.wait(best=True)
    out["best"] = work.best
except tesela.Error as error:
    out["failure"] = str(error)
out["launches"] = [launched(), launched()]
if len(sys.argv) > 2:  # what makes ptxas work again
    Path(sys.argv[2]).unlink()
    again = tesela.prepare([text], head_dim=64, length=512, device="cuda", fast_start=True)
    again.wait(best=True)
    out["again"] = [launched(), launched()]
print(json.dumps(out))
"""


def run(tmp_path: Path, path: str, *arguments: str) -> dict[str, Any]:
    environment = {
        **os.environ,
        "PATH": path,
        "LD_LIBRARY_PATH": str(STUB),
        "TESELA_CACHE_DIR": str(tmp_path / "cache"),
        "TESELA_SHIPPED_KERNELS": "",
    }
    command = [sys.executable, "-c", PROGRAM, str(SOURCES), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)  # type: ignore[no-any-return]


pytestmark = [
    pytest.mark.skipif(not STUB.exists(), reason="the driver's stub is not built"),
    pytest.mark.skipif(not os.access(PTXAS, os.X_OK), reason="this machine has no ptxas"),
]


def test_the_best_one_follows(tmp_path: Path) -> None:
    out = run(tmp_path, os.environ["PATH"])
    assert out == {
        "first": "simple",
        "failure": "",
        "best": True,
        "launches": [["heuristic"], ["heuristic"]],
    }


def test_a_call_warns_once_where_it_does_not_compile(tmp_path: Path) -> None:
    """A ptxas that refuses instructions of sm_90a: the simple kernel does not need them. A later
    ``prepare`` tries the best schedule again; by then ptxas accepts it."""
    program = tmp_path / "bin" / "ptxas"
    program.parent.mkdir()
    today = tmp_path / "today"
    today.touch()
    refuses = (
        f"[ -e {today} ] && case \"$*\" in *sm_90a*) echo 'ptxas fatal : not today'; exit 1;; esac"
    )
    program.write_text(f'#!/bin/sh\n{refuses}\nexec {PTXAS} "$@"\n')
    program.chmod(0o755)
    out = run(tmp_path, f"{program.parent}:/usr/bin:/bin", str(today))
    assert out["first"] == "simple"
    assert "not today" in out["failure"]
    (first, warning), second = out["launches"]
    assert first == "simple"
    assert "not today" in warning
    assert "launches continue with the simple one" in warning
    assert second == ["simple"]
    assert out["again"] == [["heuristic"], ["heuristic"]]
