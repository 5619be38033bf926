# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The examples of docs/hugging-face.md run in order, and print what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the transformers layer need PyTorch")
pytest.importorskip("transformers", reason="the tests of the transformers layer need transformers")

PAGE = Path(__file__).parents[2] / "docs" / "hugging-face.md"


def test_examples(capsys: Any) -> None:
    page = PAGE.read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) >= 3
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    assert names["out"].isfinite().all()
    assert names["text"].shape == (2, 208)
    tiles = names["report"].heads[0]
    assert tiles.empty > 0.9 * (tiles.empty + tiles.partial + tiles.full)
    printed = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert len(printed) == 4
    for line in printed:
        assert f"    {line}\n" in page, f"the page does not have {line!r}"
