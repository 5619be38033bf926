# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schemes that exchange tokens for heads: "heads" among all ranks, "nodes" within each node.

In "heads" each rank gets all tokens of some heads, and one kernel computes them. In "nodes" each
rank gets the tokens of its node, of some heads. Then the ranks with the same heads, one of each
node, move keys between them, as in "gather" or "ring". So no key crosses the network twice for the
same node. See Fang and Zhao, "USP" (arXiv:2405.07719).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from tesela._errors import UnsupportedError
from tesela.distributed._by_keys import ByKeys
from tesela.distributed._head_exchange import HeadExchange
from tesela.distributed._kernels import Gradients, Scheme, backward, forward
from tesela.distributed._positions import Part

if TYPE_CHECKING:
    from tesela.distributed._attention import Call
    from tesela.distributed._plan import Plan


class _Whole(Scheme):
    """One kernel over all tokens of this rank's heads."""

    def __init__(self, share: tuple[int, int]) -> None:
        self._share = share

    def _part(self, call: Call) -> Part:
        return Part(0, 0, *call.first_heads(self._share))

    def forward(
        self, call: Call, q: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """See ``ByKeys.forward``."""
        out, lse = forward(call, self._part(call), q, k, v, None)
        return out, lse, (q, k, v, out, lse)

    def gradients(
        self,
        call: Call,
        kept: tuple[Tensor, ...],
        grad: Tensor | None,
        grad_of_lse: Tensor | None,
        is_needed: bool,
        sums: Gradients,
    ) -> list[Tensor | None]:
        """See ``Scheme.gradients``."""
        q, k, v, out, lse = kept
        assert grad is not None
        dense = (grad, q, k, v, out, lse, grad_of_lse)
        found = backward(call, self._part(call), dense, is_needed, sums)
        return [None] * 3 if found is None else list(found)


class ByHeads(Scheme):
    """The passes of one rank over its part of the heads."""

    def __init__(self, plan: Plan, scheme: str, between: str | None = None) -> None:
        """Prepares the passes.

        Args:
            plan: the plan.
            scheme: "heads" or "nodes".
            between: how keys move between nodes in "nodes": "gather" or "ring".
        """
        self._plan, self._scheme = plan, scheme
        rank = plan._own_rank()
        if between is None:
            self._exchange = HeadExchange(plan, range(plan.ranks), ((0, plan.length),))
            self._within: _Whole | ByKeys = _Whole((rank, plan.ranks))
            self.has = [True] * plan.ranks
        else:
            nodes, size = plan.of_nodes, plan.machine.ranks_per_node
            node = rank // size
            members = range(node * size, (node + 1) * size)
            self._exchange = HeadExchange(plan, members, nodes.ranges[node])
            self._within = ByKeys(nodes, between, (rank % size, size))
            self.has = [len(nodes.ranges[each // size]) > 0 for each in range(plan.ranks)]

    def check(self, kv_heads: int, drops: bool) -> None:
        """Raises if there is dropout, or the heads cannot be divided among the ranks."""
        if drops:
            raise UnsupportedError(
                f"the scheme is '{self._scheme}', which does not support dropout: the dropped "
                "pairs depend on a head's number among all heads, and a rank has only some; use "
                "scheme='auto'"
            )
        ranks = self._plan.ranks
        if self._scheme == "heads" and kv_heads % ranks:
            raise UnsupportedError(
                f"the scheme is 'heads', and {kv_heads} kv heads cannot be divided among {ranks} "
                f"ranks: use a multiple of {ranks} kv heads, or scheme='auto'"
            )

    def forward(
        self, call: Call, q: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """The result, its logarithms, and the tensors for the backward pass (own heads)."""
        out, lse, kept = self._within.forward(call, *self._exchange.to_heads([q, k, v]))
        return self._exchange.to_tokens([out])[0], self._exchange.to_tokens([lse])[0], kept

    def kept(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor) -> tuple[Tensor, ...]:
        """The tensors for the backward pass, from the parts of the ranks."""
        return (*self._exchange.to_heads([q, k, v, out]), *self._exchange.to_heads([lse]))

    def gradients(
        self,
        call: Call,
        kept: tuple[Tensor, ...],
        grad: Tensor | None,
        grad_of_lse: Tensor | None,
        is_needed: bool,
        sums: Gradients,
    ) -> list[Tensor | None]:
        """See ``Scheme.gradients``."""
        out, lse = kept[3:5]
        held = self._exchange.held
        if grad is None:
            grad = out.new_zeros((out.shape[0], call.sizes.H, held, out.shape[3]))
        whole = self._exchange.to_heads([grad])[0]
        if grad_of_lse is None and call.return_lse:
            # Another rank may have a gradient and send it.
            grad_of_lse = lse.new_zeros((out.shape[0], call.sizes.H, held))
        of_lse = None if grad_of_lse is None else self._exchange.to_heads([grad_of_lse])[0]
        found = self._within.gradients(call, kept, whole, of_lse, is_needed, sums)
        given = [each for each in found if each is not None]
        return list(self._exchange.to_tokens(given)) if given else [None] * 3
