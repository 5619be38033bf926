# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small random models of transformers for the tests of tesela.transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers

WINDOW = CHUNK = 8
VOCABULARY = 97

# With small weights all scores would be similar, and no test would notice a mask.
_SPREAD = 0.3

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_hidden_layers": 2,
    "max_position_embeddings": 128,
    "initializer_range": _SPREAD,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
    "tie_word_embeddings": False,
}
_ENCODER = {
    **{name: _SIZES[name] for name in ("hidden_size", "intermediate_size", "initializer_range")},
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def _decoder(name: str, **rules: Any) -> Callable[[], Any]:
    def make() -> Any:
        prefix = name.removesuffix("Text")
        config = getattr(transformers, f"{name}Config")(**{**_SIZES, **rules})
        return getattr(transformers, f"{prefix}ForCausalLM")(config)

    return make


def _llama4() -> Any:
    config = transformers.Llama4TextConfig(
        **_SIZES,
        intermediate_size_mlp=64,
        num_local_experts=2,
        interleave_moe_layer_step=2,
        attention_chunk_size=CHUNK,
        no_rope_layers=[1, 0],
    )
    assert set(config.layer_types) == {"chunked_attention", "full_attention"}
    return transformers.Llama4ForCausalLM(config)


LAYERS = ["sliding_attention", "full_attention"]

DECODERS: dict[str, Callable[[], Any]] = {
    "Llama": _decoder("Llama"),
    "Mistral": _decoder("Mistral", sliding_window=WINDOW),
    "Qwen3": _decoder("Qwen3"),
    "Gemma 2": _decoder(
        "Gemma2",
        sliding_window=WINDOW,
        layer_types=LAYERS,
        attn_logit_softcapping=2.0,
        query_pre_attn_scalar=16,
    ),
    "Gemma 3": _decoder(
        "Gemma3Text", sliding_window=WINDOW, layer_types=LAYERS, query_pre_attn_scalar=16
    ),
    "GPT-OSS": _decoder(
        "GptOss",
        sliding_window=WINDOW,
        layer_types=LAYERS,
        num_local_experts=2,
        num_experts_per_tok=1,
    ),
    "Llama 4": _llama4,
    "Phi-3": _decoder("Phi3"),
}


def _modern_bert() -> Any:
    config = transformers.ModernBertConfig(
        **_ENCODER,
        vocab_size=VOCABULARY,
        max_position_embeddings=128,
        initializer_cutoff_factor=3.0,
        local_attention=WINDOW,
        global_attn_every_n_layers=2,
        pad_token_id=0,
    )
    assert set(config.layer_types) == {"sliding_attention", "full_attention"}
    return transformers.ModernBertForMaskedLM(config)


def _bert() -> Any:
    return transformers.BertForMaskedLM(
        transformers.BertConfig(**_ENCODER, vocab_size=VOCABULARY, pad_token_id=0)
    )


ENCODERS: dict[str, Callable[[], Any]] = {"ModernBERT": _modern_bert, "BERT": _bert}


def t5() -> Any:
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=64,
        d_kv=16,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=16,
        initializer_factor=1.0,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=None,
    )
    return transformers.T5ForConditionalGeneration(config)


def whisper() -> Any:
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY,
        num_mel_bins=16,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=30,
        max_target_positions=64,
        init_std=_SPREAD,
        decoder_start_token_id=1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    return transformers.WhisperForConditionalGeneration(config)


def siglip() -> Any:
    config = transformers.SiglipVisionConfig(
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=48,
        patch_size=8,
    )
    return transformers.SiglipVisionModel(config)


def made(make: Callable[[], Any]) -> Any:
    """A model, the same in each call, for inference."""
    torch.manual_seed(7)
    model = make().eval()
    for name, parameter in model.named_parameters():
        if name.endswith("sinks"):
            torch.nn.init.normal_(parameter, 1.0, 1.0)
    return model


def tokens(batch: int, length: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(3, VOCABULARY, (batch, length), generator=generator)


def padding(lengths: list[int], side: str) -> torch.Tensor:
    """[batch, position], 1 for tokens and 0 for padding."""
    longest = max(lengths)
    place = torch.arange(longest)
    size = torch.tensor(lengths)[:, None]
    return (place < size if side == "right" else place >= longest - size).long()


def both(model: Any, function: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """The results of eager attention, and of Tesela."""
    results = []
    for name in ("eager", "tesela"):
        model.set_attn_implementation(name)
        with torch.no_grad():
            results.append(function())
    return results[0], results[1]
