# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Masks of transformers as objects, what a layer may pass, and refusals."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the transformers layer need PyTorch")
pytest.importorskip("transformers", reason="the tests of the transformers layer need transformers")

import tesela  # noqa: E402
import tesela.transformers  # noqa: E402
import transformers_tools as tools  # noqa: E402
from torch_tools import check, expected, inputs, poisoned, random  # noqa: E402
from transformers import CompileConfig, LlamaConfig, LlamaForCausalLM, masking_utils  # noqa: E402

tesela.transformers.register()
Mask = tesela.transformers.Mask


class Layer(torch.nn.Module):
    """A layer with only the attributes that attention reads."""

    is_causal = False
    num_key_value_groups = 3


def forward(*arguments: Any, **named: Any) -> Any:
    with poisoned():
        out, weights = tesela.transformers.attention_forward(Layer(), *arguments, **named)
    assert weights is None
    assert out.is_contiguous()
    return out.transpose(1, 2)


def dense(mask: Any, batch: int, heads: int, queries: int, keys: int) -> Any:
    """A mask's function for all pairs, by indexing."""
    places = (torch.arange(n) for n in (batch, heads, queries, keys))
    b, h, q, k = (
        place.view([-1 if axis == i else 1 for i in range(4)]) for axis, place in enumerate(places)
    )
    return mask.mask_mod(b, h, q, k).expand(batch, heads, queries, keys)


def test_mask_allocates_nothing_of_its_size() -> None:
    length = 1 << 20
    padding = torch.ones(1, length, dtype=torch.bool)
    padding[:, -5:] = False
    mask = tesela.transformers.attention_mask(
        1,
        length,
        length,
        mask_function=masking_utils.sliding_window_causal_mask_function(4096),
        attention_mask=padding,
    )
    assert mask.shape == (1, 1, length, length)
    assert "mask = " in mask.text
    assert mask.values["sliding_window"] == 4096
    tensors = [value for value in mask.values.values() if isinstance(value, torch.Tensor)]
    assert len(tensors) == 1
    assert tensors[0].data_ptr() == padding.data_ptr()


def test_a_mask_without_padding_reads_no_tensor() -> None:
    make = tesela.transformers.attention_mask
    assert make(2, 9, 9, attention_mask=torch.ones(2, 9, dtype=torch.bool)).values == {}
    longer = make(2, 9, 16, attention_mask=torch.ones(2, 9, dtype=torch.bool))
    assert longer.values == {"length": 9}


def test_values_compile_nothing() -> None:
    """A decoding step has the text of the previous step."""
    make = tesela.transformers.attention_mask
    function = masking_utils.sliding_window_causal_mask_function
    one = make(1, 1, 32, 31, 0, function(8))
    other = make(1, 1, 57, 56, 0, function(8))
    assert one.text is other.text
    assert one.values != other.values


def _masks(batch: int, queries: int, keys: int) -> dict[str, Any]:
    """Names and arguments of masks: the function, the offsets, the padding."""
    padding = torch.ones(batch, keys, dtype=torch.bool)
    padding[0, :7] = False
    groups = torch.tensor([[-1] * 20 + [0] * 10 + [-1] * 3 + [1] * 6 + [-1] * (keys - 39)] * batch)
    m = masking_utils
    after = keys - queries
    return {
        "causal": (m.causal_mask_function, after, None),
        "padding": (m.causal_mask_function, after, padding),
        "both directions": (m.bidirectional_mask_function, 0, padding),
        "window": (m.sliding_window_causal_mask_function(9), after, None),
        "window, padding": (m.sliding_window_causal_mask_function(9), after, padding),
        "symmetric window": (m.sliding_window_bidirectional_mask_function(5), after, None),
        "chunks": (m.chunked_causal_mask_function(8, torch.tensor([7, 0])), after, padding),
        "blocks": (m.or_masks(m.causal_mask_function, m.blockwise_overlay(groups)), after, None),
        "an offset in a tensor": (m.causal_mask_function, torch.tensor(after), padding),
    }


@pytest.mark.parametrize("name", _masks(2, 37, 61))
def test_masks(name: str) -> None:
    q, k, v = inputs()
    function, offset, padding = _masks(2, 37, 61)[name]
    mask = tesela.transformers.attention_mask(2, 37, 61, offset, 0, function, padding)
    wanted = masking_utils.sdpa_mask(
        2, 37, 61, offset, 0, function, padding, allow_is_causal_skip=False
    )
    assert not wanted.all()
    assert torch.equal(dense(mask, 2, 1, 37, 61), wanted)
    check(forward(q, k, v, mask), expected(q, k, v, mask=lambda *_: wanted.numpy())[0])


def test_key_offset() -> None:
    """A sliding cache has dropped the first keys, but the padding counts from the first
    position."""
    q, k, v = inputs(queries=5, keys=20)
    padding = torch.ones(2, 60, dtype=torch.bool)
    padding[0, :44] = False
    function = masking_utils.sliding_window_causal_mask_function(16)
    given = (2, 5, 20, 55, 40, function, padding)
    mask = tesela.transformers.attention_mask(*given)
    wanted = masking_utils.sdpa_mask(*given, allow_is_causal_skip=False)
    check(forward(q, k, v, mask), expected(q, k, v, mask=lambda *_: wanted.numpy())[0])


def test_the_offset_of_a_static_cache_is_copied() -> None:
    offset = torch.tensor(24)
    mask = tesela.transformers.attention_mask(2, 37, 61, offset)
    wanted = dense(mask, 1, 1, 37, 61)
    offset += 37
    assert torch.equal(dense(mask, 1, 1, 37, 61), wanted)


def test_to_another_device() -> None:
    padding = torch.tensor([[False, True, True]])
    mask = tesela.transformers.attention_mask(1, 3, 3, torch.tensor(2), attention_mask=padding)
    moved = mask.to("meta", non_blocking=True)
    assert moved.text is mask.text
    assert moved.shape == mask.shape
    for name in ("q_offset", "padding_mask"):
        assert moved.values[name].is_meta
        assert mask.values[name].is_cpu


@pytest.mark.parametrize(
    ("is_capped", "bias_shape", "has_sinks", "kind"),
    list(
        itertools.product(
            (False, True),
            (None, (1, 6, 37, 61), (2, 1, 37, 64)),
            (False, True),
            ("object", "bool", "float", "none"),
        )
    ),
)
def test_what_a_layer_gives(
    is_capped: bool, bias_shape: tuple[int, ...] | None, has_sinks: bool, kind: str
) -> None:
    q, k, v = inputs()
    named: dict[str, Any] = {"scaling": 0.3}
    score = torch.einsum("bhqd,bhkd->bhqk", q.double(), k.double().repeat_interleave(3, 1)) * 0.3
    if is_capped:
        named["softcap"] = 1.5
        score = 1.5 * torch.tanh(score / 1.5)
    if bias_shape is not None:
        named["position_bias"] = random(*bias_shape, seed=4, dtype=torch.float32)
        score = score + named["position_bias"][..., :61].double()
    object_ = tesela.transformers.attention_mask(2, 37, 61, 24)
    kept = dense(object_, 2, 1, 37, 61)
    mask: Any = None
    if kind == "object":
        mask = object_
    elif kind == "bool":
        mask = kept
    elif kind == "float":
        mask = torch.where(kept, 0.25, torch.finfo(torch.float32).min)
        score = score + 0.25
    if kind != "none":
        score = score.masked_fill(~kept, -torch.inf)
    if has_sinks:
        named["s_aux"] = random(6, seed=5, dtype=torch.float32)
        sink = named["s_aux"].double().view(1, 6, 1, 1).expand(2, 6, 37, 1)
        score = torch.cat([score, sink], -1)
    weights = score.softmax(-1)[..., :61]
    check(forward(q, k, v, mask, **named), weights @ v.double().repeat_interleave(3, 1))


def test_no_mask() -> None:
    q, k, v = inputs()
    full = expected(q, k, v)[0]
    causal = expected(q, k, v, mask=lambda b, h, q, k: q >= k)[0]
    check(forward(q, k, v, None), full)
    check(forward(q, k, v, None, is_causal=True), causal)
    one = q[:, :, :1]
    check(forward(one, k, v, None, is_causal=True), expected(one, k, v)[0])


def test_learned_queries() -> None:
    q, k, v = inputs()
    q = q[:1]
    check(forward(q, k, v, None), expected(q.expand(2, -1, -1, -1), k, v)[0])


def test_4d_mask_of_the_user() -> None:
    model = tools.made(tools.DECODERS["Llama"])
    ids = tools.tokens(2, 13)
    kept = torch.ones(2, 1, 13, 13).tril()
    kept[1, :, 5:, 2] = 0
    mask = torch.where(kept.bool(), 0.0, torch.finfo(torch.float32).min)
    eager, ours = tools.both(model, lambda: model(ids, attention_mask=mask).logits)
    torch.testing.assert_close(ours, eager, rtol=1e-4, atol=2e-5)


# torch.compile. Its backend "eager" makes graphs and does not compile them.


def test_compiled_model() -> None:
    model = tools.made(tools.DECODERS["Mistral"])
    model.set_attn_implementation("tesela")
    mask = tools.padding([21, 9], "left")
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager")
    for length in (21, 17):
        ids = tools.tokens(2, length)
        with torch.no_grad():
            wanted = model(ids, attention_mask=mask[:, -length:]).logits
            ours = compiled(ids, attention_mask=mask[:, -length:]).logits
        torch.testing.assert_close(ours, wanted)


def test_generate_compiles_without_breaks() -> None:
    """A step with a static cache is one graph, with the mask as an argument."""
    model = tools.made(tools.DECODERS["Gemma 2"])
    ids, mask = tools.tokens(2, 13), tools.padding([13, 9], "left")
    compiling = CompileConfig(fullgraph=True, backend="eager", mode=None)
    compiling._compile_all_devices = True
    settings = {"max_new_tokens": 9, "do_sample": False, "cache_implementation": "static"}
    model.set_attn_implementation("tesela")
    with torch.no_grad():
        wanted = model.generate(ids, attention_mask=mask, disable_compile=True, **settings)
        torch.compiler.reset()
        ours = model.generate(ids, attention_mask=mask, compile_config=compiling, **settings)
    assert torch.equal(ours, wanted)


# Refusals


def test_refused() -> None:
    q, k, v = inputs()
    for named, sentence in (
        ({"output_attentions": True}, r"output_attentions.*eager"),
        ({"cache": object()}, r"paged cache"),
        ({"position_bias": torch.zeros(37, 61, dtype=torch.int64)}, r"bias are torch.int64"),
        ({"s_aux": torch.zeros(6, dtype=torch.float64)}, r"sinks are torch.float64"),
    ):
        with pytest.raises(tesela.Error, match=sentence):
            forward(q, k, v, None, **named)


def test_dropout_of_a_model() -> None:
    config = LlamaConfig(
        hidden_size=64, num_hidden_layers=1, num_attention_heads=4, vocab_size=97,
        intermediate_size=64, attention_dropout=0.25, attn_implementation="tesela",
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    tokens = tools.tokens(1, 9)
    with torch.no_grad():
        plain = model.eval()(tokens).logits
        model.train()
        torch.manual_seed(1)
        first, second = model(tokens).logits, model(tokens).logits
        torch.manual_seed(1)
        again = model(tokens).logits
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert not torch.equal(first, plain)


def test_a_function_that_cannot_be_traced() -> None:
    def mask(batch: Any, head: Any, q: Any, k: Any) -> Any:
        return torch.nonzero(q >= k)

    config = tools.made(tools.DECODERS["Llama"]).config
    config._attn_implementation = "tesela"
    with pytest.raises(tesela.TraceError, match="nonzero"):
        masking_utils.create_causal_mask(
            config, torch.zeros(1, 9, 64), None, None, and_mask_function=mask
        )
