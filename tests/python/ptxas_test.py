# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which ptxas the package uses. tests/package/wheel_test.py tests it with NVIDIA's own package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tesela

FIND = "from tesela import _ptxas; print(_ptxas.find())"


def program(*folders: Path | str) -> Path:
    """A ptxas that writes its own path to the file in TOLD, and fails."""
    path = Path(*folders) / "ptxas"
    path.parent.mkdir(parents=True)
    path.write_text('#!/bin/sh\necho "$0" >>"$TOLD"\necho "ptxas fatal : no" >&2\nexit 1\n')
    path.chmod(0o755)
    return path


def run(tmp_path: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A Python that only sees packages of NVIDIA in tmp_path/site and tmp_path/other."""
    package = Path(tesela.__file__).parent.parent
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join(map(str, (tmp_path / "site", tmp_path / "other", package))),
        "TOLD": str(tmp_path / "told"),
        **variables,
    }
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def found(tmp_path: Path) -> str:
    ran = run(tmp_path, "-c", FIND)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_without_the_package(tmp_path: Path) -> None:
    assert found(tmp_path) == "None"
    (tmp_path / "site" / "nvidia" / "cublas").mkdir(parents=True)
    assert found(tmp_path) == "None"


@pytest.mark.parametrize("folder", ["cu13", "cuda_nvcc"])
def test_each_layout(tmp_path: Path, folder: str) -> None:
    path = program(tmp_path, "site", "nvidia", folder, "bin")
    assert found(tmp_path) == str(path)


def test_the_newest_of_several(tmp_path: Path) -> None:
    for folder in ("cuda_nvcc", "cu12", "cu100"):
        path = program(tmp_path, "other", "nvidia", folder, "bin")
        assert found(tmp_path) == str(path)
    program(tmp_path, "site", "nvidia", "cu13", "bin")
    assert found(tmp_path) == str(path)


def test_it_is_preferred(tmp_path: Path) -> None:
    """Before those of the PATH, CUDA_HOME and /usr/local/cuda; also in the command."""
    path = program(tmp_path, "site", "nvidia", "cu13", "bin")
    home = program(tmp_path, "home", "bin").parent
    command = ("-m", "tesela", "compile", "causal", "--target", "sm_90", "--emit", "cubin")
    ran = run(tmp_path, *command, PATH=f"{home}:/usr/bin:/bin", CUDA_HOME=str(home.parent))
    assert ran.returncode != 0
    assert "ptxas" in ran.stderr
    assert set((tmp_path / "told").read_text().split()) == {str(path)}
