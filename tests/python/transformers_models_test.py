# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""With Tesela, models of transformers give the same results as with eager attention."""

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


def check(eager: Any, ours: Any) -> None:
    assert not ours.isnan().any()
    largest = eager.abs().max().item()
    assert largest > 0.05
    error = (eager - ours).abs().max().item()
    assert error <= 2e-5 * max(largest, 1), f"the largest error is {error}, of {largest}"


def differs(one: Any, other: Any) -> None:
    """A control: the tested feature changes results by more than the tolerance."""
    assert (one - other).abs().max() > 1e-2


@pytest.fixture(params=tools.DECODERS)
def decoder(request: Any) -> Any:
    return tools.made(tools.DECODERS[request.param])


@pytest.fixture(params=tools.ENCODERS)
def encoder(request: Any) -> Any:
    return tools.made(tools.ENCODERS[request.param])


def logits(model: Any, side: str | None) -> None:
    ids = tools.tokens(len(LENGTHS), max(LENGTHS))
    mask = None if side is None else tools.padding(LENGTHS, side)
    with poisoned():
        eager, ours = tools.both(model, lambda: model(ids, attention_mask=mask).logits)
    if mask is None:
        check(eager, ours)
        return
    kept = mask.bool()
    check(eager[kept], ours[kept])
    if side == "left":
        without, _ = tools.both(model, lambda: model(ids).logits)
        differs(eager[kept], without[kept])


@pytest.mark.parametrize("side", [None, "left", "right"])
def test_logits_of_decoder(decoder: Any, side: str | None) -> None:
    logits(decoder, side)


@pytest.mark.parametrize("side", [None, "left", "right"])
def test_logits_of_encoder(encoder: Any, side: str | None) -> None:
    logits(encoder, side)


# GPT-OSS does not tell its mask functions where sequences begin.
@pytest.mark.parametrize("name", [name for name in tools.DECODERS if name != "GPT-OSS"])
def test_packed_sequences(name: str) -> None:
    decoder = tools.made(tools.DECODERS[name])
    ids = tools.tokens(1, sum(LENGTHS))
    positions = torch.cat([torch.arange(n) for n in LENGTHS])[None]

    def packed() -> Any:
        return decoder(ids, position_ids=positions, use_cache=False).logits

    eager, ours = tools.both(decoder, packed)
    check(eager, ours)
    with torch.no_grad():
        decoder.set_attn_implementation("eager")
        alone = [decoder(each, use_cache=False).logits for each in ids.split(LENGTHS, 1)]
        together = decoder(ids, use_cache=False).logits
    check(torch.cat(alone, 1), ours)
    differs(eager, together)


def generate(model: Any, lengths: list[int], cache: str) -> None:
    ids, mask = tools.tokens(len(lengths), max(lengths)), tools.padding(lengths, "left")
    settings = {
        "max_new_tokens": 12,
        "do_sample": False,
        "disable_compile": True,
        "output_logits": True,
        "return_dict_in_generate": True,
    }
    if cache != "dynamic":
        settings["cache_implementation"] = cache

    def text() -> Any:
        given = model.generate(ids, attention_mask=mask, **settings)
        return given.sequences, torch.stack(given.logits)

    eager, ours = tools.both(model, text)
    assert torch.equal(eager[0], ours[0])
    check(eager[1], ours[1])


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generate(decoder: Any, cache: str) -> None:
    generate(decoder, [13, 9, 6], cache)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["Mistral", "Gemma 2", "Llama 4"])
def test_generate_until_the_window_is_full(name: str, cache: str) -> None:
    generate(tools.made(tools.DECODERS[name]), [5, 3], cache)


def test_chunks_of_a_prompt(decoder: Any) -> None:
    """Several queries after a cache with keys."""
    ids = tools.tokens(2, 21)

    def chunked() -> Any:
        first = decoder(ids[:, :9], use_cache=True)
        second = decoder(ids[:, 9:], past_key_values=first.past_key_values)
        return torch.cat([first.logits, second.logits], 1)

    eager, ours = tools.both(decoder, chunked)
    check(eager, ours)


def test_t5() -> None:
    model = tools.made(tools.t5)
    ids, mask = tools.tokens(3, 21), tools.padding(LENGTHS, "right")
    target = tools.tokens(3, 11)
    eager, ours = tools.both(
        model, lambda: model(ids, attention_mask=mask, decoder_input_ids=target).logits
    )
    check(eager, ours)
    for cache in ({}, {"cache_implementation": "static"}):
        eager, ours = tools.both(
            model,
            lambda cache=cache: model.generate(
                ids,
                attention_mask=mask,
                max_new_tokens=9,
                do_sample=False,
                disable_compile=True,
                **cache,
            ),
        )
        assert torch.equal(eager, ours)


def test_whisper() -> None:
    model = tools.made(tools.whisper)
    sound = torch.randn(2, 16, 60, generator=torch.Generator().manual_seed(1))
    target = tools.tokens(2, 11)
    eager, ours = tools.both(model, lambda: model(sound, decoder_input_ids=target).logits)
    check(eager, ours)
    for cache in ({}, {"cache_implementation": "static"}):
        eager, ours = tools.both(
            model,
            lambda cache=cache: model.generate(
                sound, max_new_tokens=9, do_sample=False, disable_compile=True, **cache
            ),
        )
        assert torch.equal(eager, ours)


def test_vision() -> None:
    model = tools.made(tools.siglip)
    image = torch.randn(2, 3, 48, 48, generator=torch.Generator().manual_seed(1))
    eager, ours = tools.both(model, lambda: model(image).last_hidden_state)
    check(eager, ours)
