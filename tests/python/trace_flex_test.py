# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""FlexAttention's functions, traced and run by Tesela, compared with PyTorch's vmap of them.

The values are the unit matrix, so each row of the result is the row's probabilities, and masked
pairs are visible. Results start as NaN.
"""

from __future__ import annotations

import sys
import unittest
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="FlexAttention's functions need PyTorch")

import flex_functions  # noqa: E402
import tesela  # noqa: E402
from flex_cases import B, Case, H  # noqa: E402
from tesela._trace import trace_flex  # noqa: E402
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex  # noqa: E402
from torch.nn.attention.flex_attention import _vmap_for_bhqkv  # noqa: E402


def as_numpy(value: Any) -> Any:
    """A captured tensor for the host. int64 and bfloat16 become types that NumPy and Tesela
    share."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype == torch.int64:
        return value.int().numpy()
    return value.float().numpy() if value.dtype == torch.bfloat16 else value.numpy()


def probabilities(text: str, values: dict[str, Any], q: torch.Tensor, k: torch.Tensor) -> Any:
    """Tesela's probabilities, [B, H, queries, keys]."""
    if any(isinstance(v, torch.Tensor) and v.dtype == torch.bfloat16 for v in values.values()):
        text = text.replace("bf16[", "f32[")
    keys = k.shape[2]
    unit = np.zeros((B, H, keys, -(-keys // 8) * 8), np.float32)
    unit[..., range(keys), range(keys)] = 1
    variant = tesela.variant(text, **{name: as_numpy(value) for name, value in values.items()})
    out = np.full((B, H, q.shape[2], unit.shape[3]), np.nan, np.float32)
    tesela.attention(q.numpy(), k.numpy(), unit, variant, scale=1.0, out=out)
    return out[..., :keys]


def reference(case: Case, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The kept pairs and the probabilities, by PyTorch's vmap."""
    places = [torch.arange(n) for n in scores.shape]
    kept = torch.ones(scores.shape, dtype=torch.bool)
    with TransformGetItemToIndex():
        if case.mask is not None:
            kept = _vmap_for_bhqkv(case.mask, ())(*places)
        if case.score is not None:
            scores = _vmap_for_bhqkv(case.score, (0,))(scores, *places)
    kept = kept & (scores != -torch.inf)
    scores = torch.where(kept, scores.double(), -torch.inf)
    return kept, torch.nan_to_num(torch.softmax(scores, -1), nan=0.0)


class FlexFunctions(unittest.TestCase):
    """One test for each function of flex_functions.CASES."""

    def check(self, case: Case) -> None:
        generator = torch.Generator().manual_seed(1)
        q = torch.randn(B, H, case.queries, 16, generator=generator)
        k = torch.randn(B, H, case.keys, 16, generator=generator)
        if case.score is None:
            q.zero_()  # all scores are 0, so all kept pairs have the same share
        kept, expected = reference(case, q @ k.mT)
        self.assertTrue(kept.any())
        text, values = trace_flex(case.mask, case.score)
        again, _ = trace_flex(case.mask, case.score)
        self.assertEqual(text, again)
        actual = probabilities(text, values, q, k)
        self.assertFalse(np.isnan(actual).any(), text)
        if case.score is None:
            np.testing.assert_array_equal(actual > 0, kept.numpy(), text)
        np.testing.assert_allclose(actual, expected, atol=3e-5, err_msg=text)


def _test(name: str) -> Any:
    def test(self: FlexFunctions) -> None:
        self.check(flex_functions.CASES[name]())

    return test


for _name in flex_functions.CASES:
    setattr(FlexFunctions, f"test_{_name}", _test(_name))

if __name__ == "__main__":
    unittest.main(argv=sys.argv)
