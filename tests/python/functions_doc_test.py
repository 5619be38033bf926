# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the examples of docs/python-functions.md."""

from __future__ import annotations

import importlib.util
import re
import sys
import unittest
from pathlib import Path
from typing import Any

import tesela

PAGE = Path(__file__).parents[2] / "docs" / "python-functions.md"


def blocks() -> list[tuple[str, str]]:
    """The page's code blocks, with their kinds."""
    return re.findall(r"```([\w-]+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def squeezed(text: str) -> str:
    """A text with single spaces, because the page aligns columns."""
    return re.sub(r" +", " ", text.strip())


class Page(unittest.TestCase):
    def test_examples(self) -> None:
        names: dict[str, Any] = {}
        kinds = set()
        for kind, text in blocks():
            kinds.add(kind)
            with self.subTest(kind, text=text):
                if kind == "python":
                    exec(compile(text, PAGE.name, "exec"), names)
                elif kind == "attn":
                    variant = names["variant"] if "variant" in names else names["window"]
                    self.assertEqual(squeezed(variant.text), squeezed(text))
                elif kind == "python-error":
                    exec(compile(text, PAGE.name, "exec"), names)
                    with self.assertRaises(tesela.InvalidVariantError) as caught:
                        tesela.variant(names["mask"])
                    self.assertIn(text.rpartition("# ")[2].strip(), str(caught.exception))
                elif all(map(importlib.util.find_spec, ("torch", "tesela.torch"))):
                    exec(compile(text, PAGE.name, "exec"), names)
                    self.assertEqual(names["out"].shape, (1, 2, 256, 32))
        self.assertEqual(kinds, {"python", "attn", "python-error", "python-torch"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
