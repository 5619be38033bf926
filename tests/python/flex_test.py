# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""FlexAttention's interface compared with PyTorch's own, on the host."""

from __future__ import annotations

import sys
import tracemalloc
import unittest
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="FlexAttention's interface needs PyTorch")
pytest.importorskip("tesela.torch", reason="FlexAttention's interface needs the PyTorch layer")

import flex_functions  # noqa: E402
import tesela  # noqa: E402
from tesela import flex  # noqa: E402
from torch._dynamo.testing import CompileCounter  # noqa: E402
from torch.nn.attention import flex_attention as pytorch  # noqa: E402

B, HEADS, QUERIES, KEYS = 2, 4, 40, 56


def tensors(kv_heads: int = HEADS, batch: int = B, queries: int = QUERIES) -> Any:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(B, HEADS, queries, 16, generator=generator)
    k = torch.randn(batch, kv_heads, KEYS, 16, generator=generator)
    v = torch.randn(batch, kv_heads, KEYS, 24, generator=generator)
    return q, k, v


class FlexAttention(unittest.TestCase):
    def setUp(self) -> None:
        warnings.simplefilter("ignore")
        torch._dynamo.reset()
        pytorch._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True

    def both(
        self, mask: Any, score: Any, qkv: Any = None, **arguments: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compares results and logarithms. Returns Tesela's."""
        q, k, v = qkv or tensors()
        lengths = (q.shape[2], k.shape[2])
        own = theirs = None
        if mask is not None:
            own = flex.create_block_mask(mask, None, None, *lengths)
            theirs = pytorch.create_block_mask(mask, B, HEADS, *lengths, device="cpu")
        out, aux = flex.flex_attention(
            q, k, v, score, own, return_aux=flex.AuxRequest(lse=True), **arguments
        )
        expected, other = pytorch.flex_attention(
            q, k, v, score, theirs, return_aux=pytorch.AuxRequest(lse=True), **arguments
        )
        self.assertLess((out - expected).abs().max(), 2e-5)
        self.assertEqual(aux.lse.dtype, other.lse.dtype)
        torch.testing.assert_close(aux.lse, other.lse, atol=2e-5, rtol=1e-5)
        return out, aux.lse

    def test_masks_and_scores(self) -> None:
        for name in ("sliding_window", "documents_causal", "alibi_by_table", "softcap", "paged"):
            with self.subTest(name):
                case = flex_functions.CASES[name]()
                self.both(case.mask, case.score)

    def test_neither(self) -> None:
        self.both(None, None)

    def test_scale_and_gqa(self) -> None:
        qkv = tensors(kv_heads=2)
        self.both(flex_functions.causal_mask, None, qkv, enable_gqa=True, scale=0.3)

    def test_rows_without_keys(self) -> None:
        out, lse = self.both(lambda b, h, q_idx, kv_idx: q_idx > kv_idx, None)
        self.assertTrue((out[:, :, 0] == 0).all())
        self.assertTrue((lse[:, :, 0] == -torch.inf).all())

    def test_keys_of_one_batch(self) -> None:
        q, k, v = tensors(batch=1)
        mask = flex.create_block_mask(flex_functions.causal_mask, B, None, QUERIES, KEYS)
        out = flex.flex_attention(q, k, v, block_mask=mask)
        keys, values = k.expand(B, -1, -1, -1), v.expand(B, -1, -1, -1)
        self.assertTrue(out.equal(flex.flex_attention(q, keys, values, block_mask=mask)))

    def test_what_is_returned(self) -> None:
        q, k, v = tensors()
        out = flex.flex_attention(q, k, v)
        self.assertEqual(out.shape, (B, HEADS, QUERIES, 24))
        self.assertEqual(flex.flex_attention(q, k, v, return_lse=True)[1].shape, q.shape[:3])
        aux = flex.flex_attention(q, k, v, return_aux=pytorch.AuxRequest())[1]
        self.assertEqual(aux, (None, None))

    def test_python_conditions(self) -> None:
        q, k, v = tensors()

        def mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
            return kv_idx < 3 or (q_idx >= kv_idx and q_idx - kv_idx < 9)

        def plain(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
            return (kv_idx < 3) | ((q_idx >= kv_idx) & (q_idx - kv_idx < 9))

        results = [
            flex.flex_attention(
                q, k, v, block_mask=flex.create_block_mask(each, 1, 1, QUERIES, KEYS)
            )
            for each in (mask, plain)
        ]
        self.assertTrue(results[0].equal(results[1]))

    def test_torch_compile(self) -> None:
        q, k, v = tensors()
        window = 5

        def mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
            return (q_idx - kv_idx).abs() < window

        block_mask = flex.create_block_mask(mask, None, None, QUERIES, KEYS)
        compiled = torch.compile(flex.flex_attention, fullgraph=True)
        for each in (5, 8):
            window = each
            expected = flex.flex_attention(q, k, v, None, block_mask)
            self.assertTrue(compiled(q, k, v, None, block_mask).equal(expected))

    def test_a_compiled_model_sees_what_changes(self) -> None:
        counter = CompileCounter()

        @torch.compile(fullgraph=True, backend=counter)
        def model(q: Any, k: Any, v: Any, score: Any, mask: Any) -> Any:
            request = flex.AuxRequest(lse=True)
            out, aux = flex.flex_attention(q * 2, k, v, score, mask, return_aux=request)
            return out + aux.lse[..., None]

        def made(window: int, slopes: Any, mode: str) -> Any:
            def near(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
                return (q_idx - kv_idx).abs() < window

            def score(score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
                return score + slopes[h] * (kv_idx - q_idx) if mode == "slope" else score * 2

            mask = flex.and_masks(near, lambda b, h, q_idx, kv_idx: kv_idx >= b)
            return score, flex.create_block_mask(mask, None, None, QUERIES, KEYS)

        slopes = torch.rand(HEADS)
        compiled = []
        for window, table, mode in (
            (30, slopes, "slope"),
            (40, slopes, "slope"),
            (50, slopes * 2, "slope"),
            (60, slopes, "slope"),
            (60, slopes, "double"),
        ):
            functions = made(window, table, mode)
            out = model(*tensors(), *functions)
            q, k, v = tensors()
            expected, lse = flex.flex_attention(q * 2, k, v, *functions, return_lse=True)
            self.assertTrue(out.equal(expected + lse[..., None]))
            compiled.append(counter.frame_count)
        # The second window makes numbers arguments of the graph. The last mode has another text.
        self.assertEqual(compiled, [1, 2, 2, 2, 3])

    def test_a_compiled_model_sees_that_one_tensor_became_two(self) -> None:
        q, k, v = tensors()
        compiled = torch.compile(flex.flex_attention, fullgraph=True, backend="eager")

        def made(a: Any, b: Any) -> Any:
            return lambda score, _b, h, q_idx, kv_idx: (
                score + a[kv_idx] + b[q_idx] * a[q_idx] * kv_idx
            )

        one, other = torch.rand(2, KEYS)
        for function in (made(one, one), made(one, other), made(other, other)):
            expected = flex.flex_attention(q, k, v, function)
            self.assertTrue(compiled(q, k, v, function).equal(expected))

    def test_refusals(self) -> None:
        q, k, v = tensors()
        causal = flex_functions.causal_mask
        with self.assertRaisesRegex(ValueError, "set enable_gqa=True"):
            flex.flex_attention(q, k[:, :2], v[:, :2])
        with self.assertRaisesRegex(ValueError, "is for 8 queries and 56 keys, but there are 40"):
            flex.flex_attention(q, k, v, None, flex.create_block_mask(causal, 1, 1, 8, KEYS))
        with self.assertRaisesRegex(ValueError, "for a number of heads of 3, query has 4"):
            flex.flex_attention(q, k, v, None, flex.create_block_mask(causal, 1, 3, QUERIES, KEYS))
        with self.assertRaisesRegex(ValueError, "with tesela.create_block_mask"):
            theirs = pytorch.create_block_mask(causal, 1, 1, QUERIES, KEYS, device="cpu")
            flex.flex_attention(q, k, v, None, theirs)
        with self.assertRaisesRegex(NotImplementedError, "ask for lse only"):
            flex.flex_attention(q, k, v, return_aux=flex.AuxRequest(max_scores=True))
        with self.assertRaisesRegex(ValueError, "must be a function of"):
            flex.create_block_mask(lambda score, b, h, q, k: score, 1, 1, 8, 8)
        with self.assertRaisesRegex(ValueError, "return_aux only"):
            flex.flex_attention(q, k, v, return_lse=True, return_aux=flex.AuxRequest())
        with self.assertRaisesRegex(ValueError, "a mask is a function"):
            flex.and_masks(causal, 3)


class BlockMasks(unittest.TestCase):
    def test_nothing_of_the_lengths_is_allocated(self) -> None:
        tracemalloc.start()
        mask = flex.create_block_mask(flex_functions.causal_mask, 8, 32, 1 << 20, 1 << 20)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.assertLess(most, 64 << 10)
        self.assertEqual(mask.numel(), 8 * 32 << 40)

    def test_counts_as_pytorchs(self) -> None:
        for name in ("sliding_window", "documents_by_sequence_and_head", "tile_map"):
            case = flex_functions.CASES[name]()
            sizes = (B, HEADS, QUERIES, KEYS)
            own = flex.create_block_mask(case.mask, *sizes, BLOCK_SIZE=(8, 16))
            theirs = pytorch.create_block_mask(case.mask, *sizes, BLOCK_SIZE=(8, 16), device="cpu")
            self.assertAlmostEqual(own.sparsity(), theirs.sparsity(), places=4)
            self.assertTrue(own.to_dense().equal(theirs.to_dense().bool()))
            self.assertEqual(own.shape, theirs.shape)
            self.assertEqual(own.numel(), theirs.numel())
            for index in (0, (1, slice(0, 2)), (slice(None), 3, -1), (0, 0, slice(1, 4))):
                self.assertEqual(own[index].shape, theirs[index].shape)

    def test_create_mask(self) -> None:
        def score(score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
            return torch.where(q_idx >= kv_idx + h, score, -torch.inf)

        for function in (flex_functions.CASES["tile_map"]().mask, score):
            own = flex.create_mask(function, B, HEADS, QUERIES, KEYS, device="cpu")
            theirs = pytorch.create_mask(function, B, HEADS, QUERIES, KEYS, device="cpu")
            self.assertTrue(own.equal(theirs.expand_as(own)))

    def test_lists_of_blocks(self) -> None:
        q, k, v = tensors()
        generator = torch.Generator().manual_seed(3)
        kept = torch.randint(0, 3, (B, 1, QUERIES // 8, KEYS // 8), generator=generator)
        kept[..., 0] = 2  # every row has a key

        def listed(which: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            order = torch.argsort(which.int(), dim=-1, descending=True, stable=True)
            return which.sum(-1).int(), order.int()

        def causal(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
            return q_idx >= kv_idx

        mask = flex.BlockMask.from_kv_blocks(
            *listed(kept == 1), *listed(kept == 2), BLOCK_SIZE=8, mask_mod=causal
        )
        self.assertEqual(mask.shape, (B, 1, QUERIES, KEYS))
        pairs = kept.repeat_interleave(8, -2).repeat_interleave(8, -1)
        lower = torch.arange(QUERIES)[:, None] >= torch.arange(KEYS)
        expected = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, (pairs == 2) | (pairs == 1) & lower
        )
        self.assertLess((flex.flex_attention(q, k, v, None, mask) - expected).abs().max(), 2e-5)

    def test_sliced(self) -> None:
        mask = flex.create_block_mask(
            flex_functions.causal_mask, B, HEADS, QUERIES, KEYS, BLOCK_SIZE=8
        )
        q, k, v = tensors()
        part = mask[:, :, 2]
        self.assertEqual(part.seq_lengths, (8, KEYS))
        with self.assertRaisesRegex(tesela.Error, "has no mask_mod"):
            flex.flex_attention(q[:, :, 16:24], k, v, None, part)
        part.mask_mod = lambda b, h, q_idx, kv_idx: mask.mask_mod(b, h, q_idx + 16, kv_idx)
        whole = flex.flex_attention(q, k, v, None, mask)
        out = flex.flex_attention(q[:, :, 16:24], k, v, None, part)
        self.assertLess((out - whole[:, :, 16:24]).abs().max(), 2e-6)

    def test_what_it_has_not(self) -> None:
        mask = flex.create_block_mask(flex_functions.causal_mask, 1, 1, 8, 8)
        self.assertIs(mask.to("cuda"), mask)
        self.assertIn("mask = q >= k", mask.variant.text)
        self.assertFalse(hasattr(mask, "kv_indices"))
        with self.assertRaisesRegex(AttributeError, "has no kv_num_blocks: it holds a function"):
            mask.kv_num_blocks  # noqa: B018
        with self.assertRaisesRegex(tesela.UnsupportedError, "as_tuple"):
            mask.as_tuple()
        with self.assertRaises(IndexError):
            mask[0, 0, 0, 0]

    def test_gradients(self) -> None:
        """Against plain PyTorch, because FlexAttention has no gradients on the CPU."""
        table = torch.randn(HEADS, KEYS + QUERIES, generator=torch.Generator().manual_seed(1))

        def score(s: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
            return torch.tanh(s + table[h, kv_idx - q_idx + QUERIES])

        q, k, v = (each.requires_grad_() for each in tensors(kv_heads=2))
        mask = flex.create_block_mask(flex_functions.causal_mask, None, None, QUERIES, KEYS)

        def ours(q: Any, k: Any, v: Any) -> Any:
            return flex.flex_attention(q, k, v, score, mask, enable_gqa=True).sin().sum()

        def plain(q: Any, k: Any, v: Any) -> Any:
            k, v = (each.repeat_interleave(2, 1) for each in (k, v))
            rows, columns = torch.arange(QUERIES)[:, None], torch.arange(KEYS)
            s = torch.tanh(q @ k.mT / 4 + table[:, columns - rows + QUERIES])
            p = s.masked_fill(columns > rows, -torch.inf).softmax(-1)
            return (p @ v).sin().sum()

        wanted = torch.autograd.grad(plain(q, k, v), (q, k, v))
        compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
        for function in (ours, compiled):
            for got, exact in zip(
                torch.autograd.grad(function(q, k, v), (q, k, v)), wanted, strict=True
            ):
                torch.testing.assert_close(got, exact, atol=2e-5, rtol=1e-4)
        table.requires_grad_()
        (wanted_of_table,) = torch.autograd.grad(plain(q, k, v), table)
        (got_of_table,) = torch.autograd.grad(ours(q, k, v), table)
        torch.testing.assert_close(got_of_table, wanted_of_table, atol=2e-5, rtol=1e-4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
