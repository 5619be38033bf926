# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Eager calls on the CPU: properties of the outputs, and which kernel a call runs."""

from __future__ import annotations

from typing import Any

import pytest
import tesela
from tesela import _native
from torch_tools import allocating, attend, check, check_lse, expected, inputs, torch


def whole(tensor: Any) -> bool:
    """Whether a tensor owns memory of exactly its size."""
    size = tensor.numel() * tensor.element_size()
    return not tensor._is_view() and tensor.untyped_storage().nbytes() == size


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("is_swapped", [False, True])
def test_outputs(layout: Any, is_swapped: bool) -> None:
    """Outputs have q's order in memory, and the same properties as PyTorch's own tensors."""
    q, k, v = inputs(head_dim_v=24)
    wanted, logarithms = expected(q, k, v)
    if layout == "bshd":
        q, k, v = (each.transpose(1, 2).contiguous() for each in (q, k, v))
    if is_swapped:
        q = q.transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.isnan(attend(q, k, v, layout=layout)).sum() == 0
    out, lse = tesela.attention(q, k, v, layout=layout, return_lse=True)
    assert out.transpose(1, 2).is_contiguous() if is_swapped else out.is_contiguous()
    assert lse.is_contiguous()
    assert whole(out)
    assert whole(lse)
    assert not out.is_inference()
    assert out._version == 0
    check(out.transpose(1, 2) if layout == "bshd" else out, wanted)
    check_lse(lse, logarithms)
    out.requires_grad_().sum().backward()


def test_outputs_of_inference_mode() -> None:
    q, k, v = inputs()
    with torch.inference_mode():
        out, lse = tesela.attention(q, k, v, return_lse=True)
    assert out.is_inference()
    assert lse.is_inference()


def test_without_what_compiled_code_allocates_with() -> None:
    q, k, v = inputs()
    wanted = attend(q, k, v, "causal", return_lse=True)
    with allocating(None):
        results = tesela.attention(q, k, v, "causal", return_lse=True)
    for one, other in zip(results, wanted, strict=True):
        assert torch.equal(one, other)
        assert one.stride() == other.stride()


def test_each_kernel_is_made_once() -> None:
    variant = tesela.variant(
        "attention once(const c: i32 = 3, w: i32) { mask = q - k < w && (q + k) % c != 0 }"
    )
    kernels = variant._program.kernels
    counts = []
    for head_dim, dtype, values in (
        (16, torch.float32, {}),
        (16, torch.float32, {}),
        (24, torch.float32, {}),
        (24, torch.bfloat16, {}),
        (24, torch.bfloat16, {"c": 5}),
        (24, torch.bfloat16, {"c": 5}),
    ):
        q, k, v = inputs(head_dim=head_dim, dtype=dtype)
        attend(q, k, v, variant, w=9, **values)
        counts.append(len(kernels))
    assert counts == [1, 1, 2, 3, 4, 4]
    # A call must find the kernels that tesela.prepare makes.
    assert all(isinstance(each, _native.Kernel) for each in kernels.values())
    q, _, v = inputs(head_dim=24, dtype=torch.bfloat16)
    variant._kernel(_native.BF16, 24, 24, -1, (("c", 5.0),))
    assert len(kernels) == 4


def test_scalars_may_be_tensors() -> None:
    q, k, v = inputs()
    wanted = attend(q, k, v, "sliding_window", window=9)
    for value in (torch.tensor(9), torch.tensor(9.0), torch.tensor([9])):
        assert torch.equal(attend(q, k, v, "sliding_window", window=value), wanted)
    with pytest.raises(tesela.InvalidArgumentError, match=r"'window'.*must be a number"):
        attend(q, k, v, "sliding_window", window=torch.tensor([9, 8]))
    with pytest.raises(tesela.InvalidArgumentError, match="slope"):
        attend(q, k, v, "alibi", slope=torch.tensor(1.0))


def test_what_no_kernel_is_for() -> None:
    q, k, v = inputs()
    with pytest.raises(tesela.InvalidArgumentError, match="k has the shape"):
        attend(q, k[0], v)
    with pytest.raises(tesela.UnsupportedError, match=r"torch\.float64"):
        attend(q.double(), k.double(), v.double())
    with pytest.raises(tesela.UnsupportedError, match="'meta'"):
        attend(*(each.to("meta") for each in (q, k, v)))
    with pytest.raises(tesela.UnsupportedError, match="dense"):
        attend(q.to_sparse(), k, v)
    with pytest.raises(tesela.InvalidArgumentError, match="k"):
        attend(q, k.bfloat16(), v)
