# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches of one call that overlap (docs/decisions/launch.md): each waits for the ones before
it.

Calls follow each other without a pause, and their inputs change in between on the same stream. A
kernel that reads too early gets an earlier call's workspace or output.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import tesela  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="NO GPU: torch.cuda.is_available() is false"
)

H, HKV, DIM, PAGE, MOST = 32, 8, 128, 64, 2048
CALLS = 100


class Decoding:
    """Sequences whose keys are in pages."""

    def __init__(self, batch: int) -> None:
        pages = MOST // PAGE
        shape = (2, batch * pages, PAGE, HKV, DIM)
        self.pool = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        order = torch.randperm(batch * pages, device="cuda", dtype=torch.int32)
        self.table = order.view(batch, pages)
        self.lengths = torch.zeros(batch, device="cuda", dtype=torch.int32)
        self.q = torch.zeros(batch, 1, H, DIM, device="cuda", dtype=torch.bfloat16)

    def attend(self, split: bool) -> tuple[Tensor, Tensor]:
        return tesela.attention_paged(
            *(self.q, self.pool[0], self.pool[1], "causal"),
            table=self.table,
            lengths=self.lengths,
            max_keys=MOST,
            split=split,
            return_lse=True,
        )


@pytest.mark.parametrize("is_graph", [False, True])
@pytest.mark.parametrize("batch", [1, 5, 64])
def test_decoding_in_parts(batch: int, is_graph: bool) -> None:
    problem = Decoding(batch)
    queries = torch.randn(CALLS, *problem.q.shape, device="cuda", dtype=torch.bfloat16)
    lengths = torch.randint(0, MOST + 1, (CALLS, batch), device="cuda", dtype=torch.int32)
    problem.attend(split=True)  # compiles
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        of_graph = problem.attend(split=True)
    found = []
    for q, n in zip(queries, lengths, strict=True):
        problem.q.copy_(q)
        problem.lengths.copy_(n)
        if is_graph:
            graph.replay()
        results = of_graph if is_graph else problem.attend(split=True)
        found.append([each.clone() for each in results])
    for q, n, (out, lse) in zip(queries, lengths, found, strict=True):
        problem.q.copy_(q)
        problem.lengths.copy_(n)
        expected, sums = problem.attend(split=False)  # one launch
        torch.testing.assert_close(out.float(), expected.float(), rtol=2e-2, atol=1e-2)
        torch.testing.assert_close(lse, sums, rtol=0, atol=2e-3)


@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("length", [200, 512])
def test_gradients(length: int, head_dim: int) -> None:
    shape = (CALLS // 4, 4, 2, 8, length, head_dim)
    inputs = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    found = []
    for each in inputs:
        q, k, v, d_out = (x.detach().requires_grad_() for x in each)
        tesela.attention(q, k, v, "causal").backward(d_out)
        found.append([x.grad for x in (q, k, v)])
    for each, gradients in zip(inputs, found, strict=True):
        q, k, v, d_out = (x.detach().float().requires_grad_() for x in each)
        scaled_dot_product_attention(q, k, v, is_causal=True).backward(d_out)
        for x, gradient in zip((q, k, v), gradients, strict=True):
            difference = (gradient.float() - x.grad).norm() / x.grad.norm()
            assert difference < 2e-2


DOCUMENTS = """
attention documents(doc: i32[B, Sk]) { mask = q >= k && doc[b, q] == doc[b, k] }
"""


def test_summaries_of_a_tensor_that_changes() -> None:
    """Two launches summarise the documents. The third uses the summaries to skip blocks."""
    n = 1500
    q, k, v = torch.randn(3, 1, 4, n, DIM, device="cuda", dtype=torch.bfloat16)
    steps = torch.rand(CALLS, 1, n, device="cuda") < torch.rand(CALLS, 1, 1, device="cuda") / 50
    documents = steps.cumsum(-1).int()
    doc = torch.zeros(1, n, device="cuda", dtype=torch.int32)
    found = []
    for each in documents:
        doc.copy_(each)
        found.append(tesela.attention(q, k, v, DOCUMENTS, doc=doc))
    for each, out in zip(documents, found, strict=True):
        kept = (each[:, :, None] == each[:, None, :]).tril()[:, None]
        expected = scaled_dot_product_attention(q.float(), k.float(), v.float(), attn_mask=kept)
        torch.testing.assert_close(out.float(), expected, rtol=2e-2, atol=2e-2)
