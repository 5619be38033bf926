# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the code of docs/jax.md in its order."""

import re
from pathlib import Path

from jax_support import expected, jax, np, positions

PAGE = Path(__file__).parents[2] / "docs" / "jax.md"


def blocks():
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_page():
    names = {}
    results = []
    for block in blocks():
        names.pop("out", None)
        exec(compile(block, str(PAGE), "exec"), names)
        results.append(names.get("out"))
    first, tilted, mapped, sharded, *_ = results
    q, k, v = names["q"], names["k"], names["v"]
    rows, columns = positions(512, 512)

    def check(actual, mask, score=lambda s: s):
        wanted = expected(q, k, v, mask, score)[0]
        np.testing.assert_allclose(np.asarray(actual), wanted, atol=2e-5)

    causal = rows >= columns
    check(first, causal & (rows - columns < 128))
    slopes = np.asarray(names["slopes"])[None, :, None, None]
    check(tilted, causal & (rows - columns < 256), lambda s: s + slopes * (columns - rows))
    windows = np.asarray([64, 256])[:, None, None, None]
    check(mapped, causal & (rows - columns < windows))
    check(sharded, causal)
    for name in "qkv":
        gradient = names[f"d{name}"]
        assert gradient.shape == names[name].shape and np.isfinite(gradient).all()
        assert gradient.any()
    assert names["tilted"]._cache_size() == 1
    assert isinstance(sharded, jax.Array)
    assert names["program"].platforms == ("cpu",)
