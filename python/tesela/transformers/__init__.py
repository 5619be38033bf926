# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tesela in the models of Hugging Face's ``transformers``.

import tesela.transformers

tesela.transformers.register()
model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="tesela")
"""

from __future__ import annotations

from transformers import AttentionInterface, AttentionMaskInterface

from tesela.transformers._forward import attention_forward
from tesela.transformers._mask import Mask, attention_mask

__all__ = ["Mask", "attention_forward", "attention_mask", "register"]


def register(name: str = "tesela") -> None:
    """Registers ``attn_implementation="tesela"`` in transformers, for this process.

    Args:
        name: the name of the implementation.
    """
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, attention_mask)
