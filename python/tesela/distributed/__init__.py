# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention whose sequence is split over the ranks of torch.distributed, for any variant.

    plan = tesela.distributed.plan("causal", length=1_048_576)
    q, k, v = (plan.shard(x) for x in (q, k, v))
    out = tesela.distributed.attention(q, k, v, plan=plan)

See docs/distributed.md.
"""

from tesela.distributed._attention import attention
from tesela.distributed._machine import Machine, Prediction, Shape
from tesela.distributed._plan import Plan, plan

__all__ = ["Machine", "Plan", "Prediction", "Shape", "attention", "plan"]
