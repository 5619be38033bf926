# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients compared with FlexAttention's, for the functions of tools/bench/flex_functions.py.

Both are compared with PyTorch in float64, and with each other, on a GPU. FlexAttention compiles for
some 20 seconds for each function, so let several processes share the file (TESELA_TEST_SHARDS, see
conftest.py).
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

from torch import Tensor  # noqa: E402
from torch_gradient_tools import leaves  # noqa: E402

_path = Path(__file__).parents[2] / "tools" / "bench" / "flex_functions.py"
_spec = importlib.util.spec_from_file_location("bench_flex_functions", _path)
assert _spec is not None and _spec.loader is not None
bench: Any = importlib.util.module_from_spec(_spec)
sys.modules["bench_flex_functions"] = bench  # dataclasses look up the module there
_spec.loader.exec_module(bench)

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="NO GPU: torch.cuda.is_available() is false"
)

DEVICE, LENGTH = "cuda", 1536
TOLERANCE = 1e-2  # of the norm of a block of rows, as in tools/bench
ROWS = 128


def _exact(given: list[Tensor], grad: Tensor, function: Any) -> list[Tensor]:
    """dq, dk and dv in float64, one sequence after another, because the scores are large."""
    parts = []
    for b in range(given[0].shape[0]):
        q, k, v = (each[b : b + 1].detach().double().requires_grad_() for each in given)
        place = [torch.full((1, 1, 1, 1), b, device=q.device)]
        for axis, extent in ((1, q.shape[1]), (2, q.shape[2]), (3, k.shape[2])):
            shape = [-1 if x == axis else 1 for x in range(4)]
            place.append(torch.arange(extent, device=q.device).view(shape))
        s = q @ k.mT / math.sqrt(q.shape[3])
        if function.score is not None:
            s = function.score(s, *place).double()
        if function.mask is not None:
            s = s.masked_fill(~function.mask(*place).expand_as(s), -math.inf)
        out = s.softmax(-1) @ v
        parts.append(torch.autograd.grad(out, (q, k, v), grad[b : b + 1].double()))
    return [torch.cat(each) for each in zip(*parts, strict=True)]


def _largest(found: Tensor, wanted: Tensor, exact: Tensor) -> float:
    """The norm of the error over that of the exact gradient, for the worst block of rows."""
    worst = 0.0
    usual = exact.norm() / math.sqrt(exact.numel())
    for a, b, c in zip(
        *(each.double().split(ROWS, 2) for each in (found, wanted, exact)), strict=True
    ):
        size = c.norm(dim=(2, 3)).clamp_min(0.1 * usual * math.sqrt(c[0, 0].numel()))
        worst = max(worst, ((a - b).norm(dim=(2, 3)) / size).max().item())
        assert not a.isnan().any()
    return worst


@pytest.fixture(scope="module")
def comparisons() -> Iterator[list[bool]]:
    """Whether each gradient could be compared with FlexAttention's; most must be."""
    made: list[bool] = []
    yield made
    assert 2 * sum(made) > len(made), f"{sum(made)} of {len(made)} gradients were compared"


@pytest.mark.parametrize("name", list(bench.functions(LENGTH, "cpu")))
def test_functions(name: str, comparisons: list[bool]) -> None:
    function = bench.functions(LENGTH, DEVICE)[name]
    given = leaves(*bench.inputs(LENGTH, DEVICE))
    grad = torch.randn_like(given[0])
    exact = _exact(given, grad, function)
    found = {}
    for engine_name in ("tesela", "flex_attention"):
        torch.compiler.reset()
        engine = bench.Engine(engine_name, LENGTH, DEVICE)
        out = engine.call(given, function, engine.mask(function))
        found[engine_name] = torch.autograd.grad(out, given, grad)
    ours, others = found["tesela"], found["flex_attention"]
    for letter, a, b, c in zip("qkv", ours, others, exact, strict=True):
        errors = _largest(a, c, c), _largest(b, c, c), _largest(a, b, c)
        print(f"{name}: d{letter} off by {errors[0]:.1e}, FlexAttention's {errors[1]:.1e}")
        assert errors[0] <= TOLERANCE
        # A wrong gradient says nothing about ours.
        comparisons.append(errors[1] <= TOLERANCE)
        assert errors[2] <= 2 * TOLERANCE or not comparisons[-1]
