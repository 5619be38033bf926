# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Variants: sources, parameters, pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import tesela
from tesela import _variant

TEXT = """attention mine(w: i32 = 3, t: f32[H, 2*Sk+1], const c: i32) {
  mask = q - k < w
  score = s + t[h, k + c]
}"""


def test_text() -> None:
    variant = tesela.variant(TEXT, w=4)
    assert variant.name == "mine"
    assert variant.text == TEXT
    assert variant.bound == {"w": 4}
    assert variant.warnings == ""
    w, t, c = variant.parameters
    assert w == ("w", "i32", None, False, 3.0)
    assert t == ("t", "f32", ("H", "2*Sk+1"), False, None)
    assert c == ("c", "i32", None, True, None)


def test_library() -> None:
    names = tesela.library()
    assert len(names) == 51
    assert list(names) == sorted(names)
    for name in names:
        assert tesela.variant(name).name == name


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.attn"
    path.write_text(TEXT)
    assert tesela.variant(path).text == TEXT
    assert tesela.variant(str(path)).text == TEXT
    with pytest.raises(tesela.NotFoundError, match="cannot be read: No such file"):
        tesela.variant(tmp_path / "other.attn")


def test_the_same_text_has_the_same_kernels() -> None:
    first, second = tesela.variant(TEXT), tesela.variant(TEXT, w=5)
    assert first._program is second._program
    assert tesela.variant(first) is first


def test_mistakes() -> None:
    with pytest.raises(tesela.InvalidVariantError, match=r"variant:1:28: error") as raised:
        tesela.variant("attention x() { mask = q > p }")
    assert isinstance(raised.value, ValueError)
    assert "^" in str(raised.value)
    with pytest.raises(
        tesela.NotFoundError, match="'casual' in the library; did you mean 'causal'"
    ):
        tesela.variant("casual")
    with pytest.raises(tesela.NotFoundError, match="no variant 'nothing' in the library: tesela"):
        tesela.variant("nothing")
    with pytest.raises(tesela.InvalidArgumentError, match="no parameter 'windw'; it has window"):
        tesela.variant("sliding_window", windw=3)
    with pytest.raises(tesela.InvalidArgumentError, match="no parameter 'w'; it has none"):
        tesela.variant("causal").bind(w=3)
    with pytest.raises(tesela.InvalidArgumentError, match="a variant is a name"):
        tesela.variant(3)  # type: ignore[arg-type]


def test_parameters_with_names_of_arguments() -> None:
    """They can only be bound to the variant."""
    q = np.ones((1, 2, 8, 16), np.float32)
    text = "attention tempered(scale: f32, layout: f32[H]) { score = s * scale + layout[h] }"
    layout = np.ones(2, np.float32)
    with pytest.raises(
        tesela.InvalidArgumentError, match=r"'scale'.*variant\(text, scale=\.\.\.\)"
    ):
        tesela.attention(q, q, q, text, scale=2.0)
    bound = tesela.variant(text, scale=2.0)
    with pytest.raises(tesela.InvalidArgumentError, match=r"'layout'.*text, layout=\.\.\.\)"):
        tesela.attention(q, q, q, bound)
    tesela.attention(q, q, q, bound.bind(layout=layout), scale=0.5)
    with pytest.raises(tesela.InvalidArgumentError, match=r"'layout'.*text, layout=\.\.\.\)"):
        tesela.attention(q, q, q, bound, layout=layout)  # type: ignore[arg-type]


def test_explain() -> None:
    told = tesela.variant("causal").explain(length=1024, heads=4, head_dim=64, target="host")
    (head,) = told.heads
    assert (told.rows, told.columns) == (-(-1024 // told.block_m), -(-1024 // told.block_n))
    assert head.empty + head.partial + head.full == told.rows * told.columns == len(head.kinds)
    assert head.kept_pairs == 1024 * 1025 // 2
    assert (head.batch, head.head) == (None, None)
    assert [head.kinds.count(kind) for kind in range(3)] == [head.empty, head.partial, head.full]
    assert told.form == "key ranges"
    assert told.lost_proofs == ""
    assert "causal" in str(told) and "tiles" in repr(told)
    root = ET.fromstring(told._repr_svg_())
    assert root.tag.endswith("svg") and root.get("width")


def test_explain_with_captured_tensors() -> None:
    documents = np.repeat(np.arange(4, dtype=np.int64), 256)[None]
    variant = tesela.variant("attention d(doc: i32[B, Sk]) { mask = doc[b, q] == doc[b, k] }")
    told = variant.explain(length=1024, doc=documents, target="host")
    assert sum(each.kept_pairs or 0 for each in told.heads) == 4 * 256 * 256
    assert ET.fromstring(told.svg).tag.endswith("svg")
    with pytest.raises(tesela.InvalidArgumentError, match="doc"):
        variant.explain(length=1024, target="host")


def test_explain_for_a_gpu_that_is_not_there() -> None:
    told = tesela.variant("sliding_window", window=512).explain(length=8192, target="sm_90")
    assert told.target == "sm_90"
    assert told.heads[0].empty > told.heads[0].full > 0


def test_a_text_in_one_line_is_the_same_variant() -> None:
    text = """// a comment { before
    attention near(w: i32 = 3) { // and one behind
      mask = q >= k && // in the middle
             q - k < w
    }"""
    line = tesela.variant(text)._program.line
    assert line == "attention near(w: i32 = 3) { mask = q >= k && q - k < w }"
    again = tesela.variant(line)
    assert again.parameters == tesela.variant(text).parameters
    q = np.random.default_rng(1).standard_normal((1, 2, 9, 16)).astype(np.float32)
    assert (tesela.attention(q, q, q, line) == tesela.attention(q, q, q, text)).all()


def test_two_threads_load_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both threads find that the text is not known. One text must not get the other's place."""
    texts = [f"attention loaded_{name} {{ mask = q >= k }}" for name in ("first", "second")]
    both = Barrier(2)
    read = _variant._read

    def waiting(source: Any) -> tuple[str, str]:
        if source == texts[0]:
            both.wait(20)
        return read(source)

    monkeypatch.setattr(_variant, "_read", waiting)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(tesela.variant, [texts[0]] * 2))
    assert [tesela.variant(text).text for text in (texts[1], texts[0])] == [texts[1], texts[0]]
