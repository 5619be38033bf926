# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compares what the benchmark gives to FlexAttention for each library variant with Tesela's host
# target: `library_test.py PATH-OF-LIBTESELA [unittest options]`. Needs no GPU. Without PyTorch it
# only checks the list of variants.

import importlib.util
import math
import os
import sys
import types
import unittest
import unittest.mock
import warnings

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "bench")
sys.path.insert(0, BENCH)

import c_api
import library
import options
import tables

LIBRARY = ""
TORCH = importlib.util.find_spec("torch")
BATCH, HEADS, DIM, SEED = 2, 4, 64, 7


class Entries(unittest.TestCase):
    def test_all_variants(self):
        files = [name.removesuffix(".attn") for name in os.listdir(library.FOLDER)]
        self.assertEqual(list(library.ENTRIES), sorted(files))

    def test_cases(self):
        parsed = options.parse(["--shapes", "library"])
        chosen = options.chosen_cases(parsed)
        self.assertEqual([case.variant.name for case in chosen], list(library.ENTRIES))
        shape = chosen[0].describe()
        extents = ("batch", "heads", "kv_heads", "queries", "length", "head_dim_qk", "dtype")
        self.assertEqual([shape[name] for name in extents], [2, 16, 16, 8192, 8192, 128, "bf16"])
        parsed = options.parse(
            ["--shapes", "library", "--variants", "speculative_tree,alibi", "--lengths", "1024"]
        )
        tree, alibi = options.chosen_cases(parsed)
        self.assertEqual((tree.label, tree.queries), ("speculative_tree, 64 queries", 64))
        self.assertEqual((alibi.label, alibi.length), ("alibi", 1024))
        self.assertEqual(alibi.group, "library D 128 1k")


class Table(unittest.TestCase):
    def case(self, label, **engines):
        entries = {}
        for name, value in engines.items():
            times = {"median_ms": value, "quartile1_ms": value, "quartile3_ms": value, "count": 3}
            entries[name] = value if isinstance(value, dict) else {"status": "ok", "bursts": times}
        numbers = {"window": 1024, "cap": 0.5}
        return {"label": label, "flops": 5e11, "numbers": numbers, "engines": entries}

    def test_rows(self):
        wrong = {"status": "wrong", "reason": "off by 1.0\nmore"}
        lines = tables.library(
            [
                self.case("fast", tesela=1.0, flex=4.0),
                self.case("slow", tesela=2.0, flex=1.0),
                self.case("bad", tesela=1.0, flex=wrong),
            ],
            "bursts",
        )
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[:5]]
        given = "window = 1024, cap = 0.5"
        self.assertEqual(
            rows[2], ["fast", "1.000", "4.000", "500 (0.0%)", "125 (0.0%)", "4.00", given]
        )
        self.assertEqual(
            rows[4],
            ["bad", "1.000", "", "500 (0.0%)", "wrong", "", "FlexAttention WRONG: off by 1.0"],
        )
        self.assertEqual(
            lines[-1],
            "Geometric mean 1.41 of 2 variants (of 3), the least 0.50 (slow). "
            "Below 1.0: slow 0.500.",
        )


@unittest.skipUnless(TORCH, "PyTorch is not installed: no mask and no score is compared")
class Agreement(unittest.TestCase):
    """Tesela's host target, FlexAttention and the benchmark's reference, in float32."""

    @classmethod
    def setUpClass(cls):
        import torch

        cls.torch = torch
        torch.set_grad_enabled(False)
        warnings.filterwarnings("ignore", message=".*flex_attention called without torch.compile.*")
        # The benchmark's own code, but without compiling, which would take a second for each
        # variant.
        patch = unittest.mock.patch("torch.compile", lambda function, **_: function)
        patch.start()
        cls.addClassCleanup(patch.stop)
        cls.context = c_api.Library(LIBRARY).context("host")

    def data(self, case):
        generator = self.torch.Generator().manual_seed(SEED)

        def normal(length):
            extents = (case.batch, case.heads, length, DIM)
            return self.torch.randn(*extents, generator=generator)

        setting = case.setting("cpu", SEED, self.torch.randn)
        return types.SimpleNamespace(
            q=[normal(case.queries)],
            k=[normal(case.length)],
            v=[normal(case.length)],
            scale=DIM**-0.5,
            setting=setting,
        )

    def tesela(self, case, data):
        import engines

        def view(tensor):
            return c_api.contiguous(tensor.data_ptr(), tuple(tensor.shape))

        kernel = self.context.compile(case.variant.text, "f32", DIM, DIM)
        o = self.torch.full_like(data.q[0], math.nan)
        lse = self.torch.full(o.shape[:3], math.nan)
        kernel.launcher(
            (case.batch, case.heads, case.heads, case.queries, case.length),
            *map(view, (data.q[0], data.k[0], data.v[0], o)),
            lse.data_ptr(),
            data.scale,
            engines.tesela_parameters(data.setting),
        )()
        return o, lse

    def dense_mask(self, case, data):
        """[B, H, Sq, Sk], by vmap over single indices."""
        from torch.nn.attention.flex_attention import create_mask

        extents = (case.batch, case.heads, case.queries, case.length)
        if not data.setting.mask:
            return self.torch.ones(extents, dtype=self.torch.bool)
        return create_mask(data.setting.mask, *extents, device="cpu")

    def compare(self, case):
        import engines
        import reference
        import tiles

        data = self.data(case)
        o, lse = self.tesela(case, data)
        with unittest.mock.patch.dict(reference.TOLERANCE, {"f32": 2e-5}):
            self.assertIsNone(reference.fault(case, data, o, lse)[0])
            flex = engines.Flex().prepare(case, data).launch(0)
            self.assertIsNone(reference.fault(case, data, flex, None)[0])
        self.assertLess((flex - o).abs().max().item(), 2e-4)
        kept = self.dense_mask(case, data)
        # Rows that keep nothing, according to the mask.
        if data.setting.sink is None:
            self.assertTrue(self.torch.equal(kept.any(dim=3), lse != -math.inf))
        self.assertEqual(tiles.kept_pairs(case, data.setting, "cpu"), int(kept.sum()))
        # A block mask has more than one batch or head only if the mask reads the batch or the head.
        for dimension, looked_at in enumerate((data.setting.per_batch, data.setting.per_head)):
            differs = bool((kept != kept.narrow(dimension, 0, 1)).any())
            self.assertEqual(differs, looked_at)

    def test_variants(self):
        for length in (130, 301):
            for name in library.ENTRIES:
                with self.subTest(name, length=length):
                    self.compare(library.library_case(name, BATCH, HEADS, length, DIM, "f32"))

    def test_wrong_mask(self):
        """A mask that differs from the text's is found."""
        import reference

        case = library.library_case("sliding_window", BATCH, HEADS, 130, DIM, "f32")
        data = self.data(case)
        o, lse = self.tesela(case, data)
        window = data.setting.parameters["window"]
        wrong = library.Setting(mask=lambda b, h, q, k: (q >= k) & (q - k <= window))
        data.setting = wrong
        with unittest.mock.patch.dict(reference.TOLERANCE, {"f32": 1e-2}):
            self.assertIn("off by", reference.fault(case, data, o, lse)[0])


if __name__ == "__main__":
    LIBRARY = sys.argv.pop(1)
    if not TORCH:
        print("PyTorch is not installed: no mask and no score is compared", file=sys.stderr)
    unittest.main()
