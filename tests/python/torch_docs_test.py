# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The examples of the pages about PyTorch run, and print what the pages say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("name", "least"),
    [("first-mask.md", 5), ("pytorch.md", 8), ("training.md", 1), ("serving.md", 7)],
)
def test_examples(capsys: Any, name: str, least: int) -> None:
    page = (DOCS / name).read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) >= least
    torch.compiler.reset()
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, name, "exec"), names)
        if (out := names.get("out")) is not None:
            assert out.isfinite().all()
    assert "out" in names
    printed = capsys.readouterr().out.strip().splitlines()
    assert printed, "the last example prints"
    for line in printed:
        assert f"    {line}\n" in page, f"the page does not have {line!r}"


def test_readme(capsys: Any) -> None:
    page = (DOCS.parent / "README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["out"].shape == (2, 8, 1024, 64)
    assert names["q"].grad.isfinite().all()
    assert "skipped" in capsys.readouterr().out
