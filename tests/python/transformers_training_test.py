# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""With Tesela, models of transformers train as with PyTorch's attention, on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the transformers layer need PyTorch")
pytest.importorskip("transformers", reason="the tests of the transformers layer need transformers")

import tesela.transformers  # noqa: E402
import transformers_tools as tools  # noqa: E402
from torch_tools import poisoned  # noqa: E402

LENGTHS = [21, 13, 9]

tesela.transformers.register()


def gradients(model: Any, implementation: str, mask: Any) -> dict[str, Any]:
    """The gradients of the loss of the next tokens, by parameter."""
    ids = tools.tokens(len(LENGTHS), max(LENGTHS))
    model.set_attn_implementation(implementation)
    model.zero_grad()
    with poisoned():
        # The first token is predicted from padding, by a query without keys.
        labels = ids if mask is None else ids.masked_fill(mask.roll(1, 1) * mask == 0, -100)
        model(ids, attention_mask=mask, labels=labels, use_cache=False).loss.backward()
    return {name: each.grad for name, each in model.named_parameters() if each.grad is not None}


@pytest.mark.parametrize("side", [None, "left"])
@pytest.mark.parametrize("name", ["Llama", "Mistral", "Gemma 2", "Qwen3", "GPT-OSS"])
def test_gradients_of_all_parameters(name: str, side: str | None) -> None:
    model = tools.made(tools.DECODERS[name])
    mask = None if side is None else tools.padding(LENGTHS, side)
    wanted = gradients(model, "eager", mask)
    actual = gradients(model, "tesela", mask)
    assert actual.keys() == wanted.keys()
    for parameter, exact in wanted.items():
        largest = exact.abs().max().item()
        error = (actual[parameter] - exact).abs().max().item()
        assert error <= 1e-4 * largest + 1e-7, f"{parameter}: {error} of {largest}"


def losses(implementation: str, is_compiled: bool = False, checkpointing: bool = False) -> Any:
    """The losses of six steps from the same weights, on the same tokens."""
    model = tools.made(tools.DECODERS["Llama"]).train()
    model.set_attn_implementation(implementation)
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    step = torch.compile(model, backend="aot_eager") if is_compiled else model
    ids = tools.tokens(2, 21)
    found = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = step(ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize(
    "way", [{}, {"is_compiled": True}, {"checkpointing": True}], ids=["eager", "compiled", "again"]
)
def test_losses_are_those_of_sdpa(way: dict[str, bool]) -> None:
    wanted = losses("sdpa")
    assert wanted[-1] < wanted[0] - 0.1  # the model learns
    torch.compiler.reset()
    torch.testing.assert_close(losses("tesela", **way), wanted, rtol=1e-4, atol=1e-4)
