# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The examples of docs/pytorch.md run, one after the other, and print what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

PAGE = Path(__file__).parents[2] / "docs" / "pytorch.md"


def test_examples(capsys: Any) -> None:
    page = PAGE.read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) >= 7
    torch.compiler.reset()
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
        out = names["out"]
        assert out.isfinite().all()
    printed = capsys.readouterr().out.strip().splitlines()
    assert printed, "the last example prints"
    for line in printed:
        assert f"    {line}\n" in page, f"the page does not have {line!r}"
