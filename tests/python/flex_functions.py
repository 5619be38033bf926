# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Masks and scores as users of FlexAttention write them. `CASES` has them by name."""

import flex_masks as flex_masks
import flex_scores as flex_scores
from flex_cases import CASES as CASES
from flex_masks import causal_mask as causal_mask
