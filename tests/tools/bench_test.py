# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# All of the benchmark that needs neither PyTorch nor a GPU: `bench_test.py PATH-OF-LIBTESELA
# [unittest options]`.

import array
import contextlib
import importlib
import importlib.util
import io
import json
import lzma
import math
import os
import random
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
import xml.etree.ElementTree as ElementTree

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "bench")
sys.path.insert(0, BENCH)

import c_api
import cases
import fa3
import host
import machine
import options
import sparsity
from bench_example import example

LIBRARY = ""


class Cases(unittest.TestCase):
    def test_kept_pairs(self):
        # Longer than a window and a prefix, so that each part of the formulas matters.
        for variant, length in zip(
            cases.VARIANTS, (5, 40, 1100, 40, 5, 40, 2100, 5, 1400), strict=True
        ):
            with self.subTest(variant.name):
                mask = variant.mask or (lambda b, h, q, k, captured: True)
                captured = cases.documents(length) if variant.capture == "document" else None
                kept = sum(mask(0, 0, q, k, captured) for q in range(length) for k in range(length))
                self.assertEqual(variant.kept(length, length), kept)

    def test_sparse_pairs(self):
        variants = (
            (sparsity.documents(causal=False), 800),
            (sparsity.documents(causal=True), 800),
            (sparsity.neighbourhood(11, 2), 11 * 9),
            (sparsity.neighbourhood(4, 8), 4 * 12),
            (sparsity.TWO_FORMS, 300),
        )
        for variant, length in variants:
            with self.subTest(variant.name):
                captured = sparsity.packed(length) if variant.capture else None
                kept = sum(
                    variant.mask(0, 0, q, k, captured) for q in range(length) for k in range(length)
                )
                self.assertEqual(variant.kept(length, length), kept)

    def test_packed(self):
        """Packed documents with the mean length, the same in every run."""
        documents = sparsity.packed(32768)
        self.assertEqual(sorted(documents), documents)
        self.assertEqual(set(documents), set(range(47)))
        self.assertAlmostEqual(len(documents) / 47, sparsity.MEAN_DOCUMENT, delta=10)
        self.assertEqual(sum(sparsity.document_lengths(32768)), 32768)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_needed_tiles(self):
        import tiles
        import torch

        tiles.PAIRS_AT_ONCE = 2**13  # so that there are several steps, the last one short
        chosen = (cases.FULL, cases.window(50), sparsity.documents(True))
        for variant in (*chosen, sparsity.neighbourhood(20, 3)):
            case = cases.Case("", "", variant, 1, 1, 1, 1000, 64, 64, "bf16")
            setting = case.setting("cpu", 1, torch.randn)
            mask = setting.mask or (lambda b, h, q, k: True)
            kept = [(q, k) for q in range(1000) for k in range(1000) if mask(0, 0, q, k)]
            found = {(q // 48, k // 80) for q, k in kept}
            pairs = sum(min(48, 1000 - 48 * m) * min(80, 1000 - 80 * n) for m, n in found)
            needed = tiles.needed(case, setting, 48, 80, "cpu")
            self.assertEqual(needed, (len(found), pairs), variant.name)
        few = cases.Case("", "", cases.FULL, 1, 1, 1, 1000, 64, 64, "bf16", few_queries=4)
        self.assertEqual(tiles.needed(few, cases.Setting(), 48, 80, "cpu"), (13, 4 * 1000))
        self.assertEqual(tiles.extents("block_m = 64, block_n = 96, heads = 16"), (4, 96))

    def test_operations(self):
        full, causal = cases.peer_cases([(128, 128)], [4096], "both", "bf16")
        self.assertEqual((full.batch, full.heads), (4, 16))
        self.assertEqual(full.flops, 4 * 4 * 16 * 4096 * 4096 * 128)
        self.assertEqual(causal.flops, full.flops / 2)
        self.assertEqual(full.backward_flops_of(full.pairs), 2.5 * full.flops)
        window = next(case for case in cases.variant_cases("bf16") if "window" in case.label)
        kept = 1024 * 8192 - 1024 * 1023 // 2
        self.assertEqual(window.flops, 4 * 2 * 16 * kept * 128)

    def test_batches(self):
        """At least 16384 positions, for short and long sequences."""
        batches = {case.length: case.batch for case in cases.gqa_cases(None, "bf16")}
        self.assertEqual(batches, {2048: 8, 4096: 4, 8192: 2, 16384: 1, 32768: 1, 65536: 1})

    def test_shared(self):
        """One sequence: a longer one does not make the batch smaller."""
        found = list(cases.shared_cases([2048, 8192], "bf16"))
        self.assertEqual({case.batch for case in found}, {1})
        self.assertEqual([case.heads // case.kv_heads for case in found], [8, 8, 8, 8, 4, 4, 4, 4])
        self.assertTrue(all(case.variant is cases.CAUSAL for case in found))

    def test_copies(self):
        case = next(cases.gqa_cases([16384], "bf16"))
        self.assertEqual(case.input_bytes, 2 * 16384 * 128 * (64 + 8 + 8))
        self.assertEqual(case.copies(case.input_bytes // 2), 1)
        # The other sets' inputs between two uses of a set fill the cache at least twice.
        cache = 3 * case.input_bytes
        self.assertGreaterEqual((case.copies(cache) - 1) * case.input_bytes, 2 * cache)

    def test_decode(self):
        """Few queries of many keys: every count uses both numbers."""
        one, four = cases.decode_cases(None, "bf16")
        self.assertEqual((one.queries, four.queries, one.length), (1, 4, 8192))
        self.assertEqual(one.label, "1 of 8k")
        self.assertEqual(four.flops, 4 * 64 * 64 * 4 * 8192 * 128)
        self.assertEqual(one.input_bytes, 2 * 64 * 128 * (64 + 8192 * (8 + 8)))
        self.assertEqual(one.describe()["queries"], 1)
        self.assertEqual(len(one.checked_heads()), 64 * 64)

    def test_checked_heads(self):
        case = next(cases.gqa_cases([8192], "bf16"))
        everything = [(batch, head) for batch in range(2) for head in range(64)]
        self.assertEqual(case.checked_heads(), everything)
        self.assertEqual(case.checked_heads(scores=1), [(0, 0), (1, 63)])
        # A key head counts the scores of its eight query heads.
        key_heads = [(batch, head) for batch in range(2) for head in range(8)]
        scores = 16 * 8 * 8192 * 8192
        self.assertEqual(case.checked_heads(scores, key_heads=True), key_heads)
        self.assertEqual(len(case.checked_heads(scores - 1, key_heads=True)), 15)


@contextlib.contextmanager
def fa3_folder(library="_C.so", content=b"a library", files=("libcudart.so.12",)):
    """A folder for --fa3: `content` under the name `library`, and other files."""
    with tempfile.TemporaryDirectory() as folder:
        for name in (library, *files):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        yield folder


class FlashAttention3(unittest.TestCase):
    def test_masks(self):
        """Full, causal and causal windows are supported; scores and other masks are not."""
        found = {case.label: fa3.mask(case) for case in cases.variant_cases("bf16")}
        known = {label: tuple(mask.values()) for label, mask in found.items() if mask}
        self.assertEqual(
            known,
            {"full": (False, -1, -1), "causal": (True, -1, -1), "window 1024": (False, 1023, 0)},
        )
        self.assertTrue(all(fa3.mask(case) for case in cases.gqa_cases(None, "f16")))
        self.assertIsNotNone(fa3.mask(next(options.sparsity.form_cases("bf16"))))

    def test_few_queries(self):
        """Its masks end at the last key; Tesela's begin at the first."""
        for case in cases.decode_cases(None, "bf16"):
            self.assertEqual(fa3.mask(case)["is_causal"], False)
            self.assertEqual(fa3.splits(case), 0)
        for variant in (cases.CAUSAL, cases.window(64)):
            few = cases.Case("", "", variant, 1, 1, 1, 1000, 64, 64, "bf16", few_queries=4)
            self.assertIsNone(fa3.mask(few))
        self.assertEqual(fa3.splits(next(cases.gqa_cases(None, "bf16"))), 1)

    def test_missing(self):
        for library, files, lacks in (
            ("_C.so", ["libcudart.so.12"], None),
            ("_C.so.xz", ["libcudart.so.12"], None),
            ("_C.so.xz", [], "libcudart.so.12"),
            ("libcudart.so.12", [], "_C.so"),
        ):
            with fa3_folder(library, files=files) as folder:
                self.assertEqual(fa3.missing(folder), lacks)

    def test_unpacked(self):
        with fa3_folder() as folder, fa3.unpacked(folder) as path:
            self.assertEqual(path, os.path.join(folder, "_C.so"))
        whole = bytes(range(256)) * 1000
        packed = lzma.compress(whole)
        with unittest.mock.patch.object(fa3, "CHUNK_BYTES", 1000):
            with fa3_folder("_C.so.xz", packed) as folder, fa3.unpacked(folder) as path:
                with open(path, "rb") as file:
                    self.assertEqual(file.read(), whole)
            self.assertFalse(os.path.exists(path), "the temporary file is removed")
        for damaged in (b"no archive", packed[:-40]):
            with fa3_folder("_C.so.xz", damaged) as folder:
                with self.assertRaisesRegex(OSError, "_C.so.xz is damaged"):
                    with fa3.unpacked(folder):
                        pass

    def test_engine(self):
        """The arguments of the library, from a PyTorch that records them: a tensor is its name
        and its steps."""

        class Tensor(str):
            def transpose(self, first, second):
                return Tensor(f"{self} transposed {first} {second}")

            def contiguous(self):
                return Tensor(f"{self} contiguous")

        torch = unittest.mock.MagicMock(Tensor=Tensor, device=type)
        torch.cuda.get_device_capability.return_value = (9, 0)
        torch.ops.flash_attn_3.fwd.return_value = (Tensor("o"), Tensor("lse"))
        names = ("torch", "torch.nn", "torch.nn.attention", "torch.nn.functional")
        fakes = {name: unittest.mock.MagicMock() for name in names}
        with (
            unittest.mock.patch.dict(sys.modules, {**fakes, "torch": torch}),
            unittest.mock.patch.object(fa3.ctypes, "CDLL") as cdll,
            fa3_folder() as folder,
        ):
            sys.modules.pop("engines", None)  # modules imported now must be removed with the patch
            engines = importlib.import_module("engines")
            (engine,) = engines.peers(["fa3"], folder)
        runtime = os.path.join(folder, "libcudart.so.12")
        cdll.assert_called_once_with(runtime, mode=fa3.ctypes.RTLD_GLOBAL)
        torch.ops.load_library.assert_called_once_with(os.path.join(folder, "_C.so"))

        sets = {name: [Tensor(f"{name}{i}") for i in range(2)] for name in "qkv"}
        data = types.SimpleNamespace(**sets, scale=0.25)
        full, causal, window, alibi, *_ = cases.variant_cases("bf16")
        self.assertFalse(engine.applies(alibi))
        self.assertTrue(engine.applies(window))
        prepared = engine.prepare(window, data)
        torch.ops.flash_attn_3.fwd.assert_not_called()
        self.assertEqual(prepared.launch(1), "o transposed 1 2")
        torch.ops.flash_attn_3.fwd.assert_called_once_with(
            *(f"{name}1 transposed 1 2 contiguous" for name in "qkv"),
            is_causal=False, window_size_left=1023, window_size_right=0, softmax_scale=0.25,
            num_splits=1,
        )  # fmt: skip
        torch.cuda.get_device_capability.return_value = (10, 0)
        with self.assertRaisesRegex(engines.Unavailable, "sm_90, this device is sm_100"):
            engine.prepare(full, data)


class Options(unittest.TestCase):
    def test_defaults(self):
        parsed = options.parse([])
        self.assertEqual(parsed.modes, ("bursts", "sustained"))
        self.assertEqual(len(options.chosen_cases(parsed)), 3 * 2 * 6)

    def test_quick_and_what_overrides_it(self):
        parsed = options.parse(["--quick"])
        self.assertEqual(parsed.modes, ("bursts",))
        self.assertEqual(len(options.chosen_cases(parsed)), 4)
        parsed = options.parse(["--quick", "--dims", "64,192/128", "--causal", "yes"])
        chosen = options.chosen_cases(parsed)
        self.assertEqual([case.group for case in chosen[::2]], ["D 64 causal", "D 192/128 causal"])
        self.assertEqual((chosen[2].head_dim_qk, chosen[2].head_dim_v), (192, 128))

    def test_unequal_widths(self):
        """Only causal, unless the option says otherwise."""
        for causal, groups in (("both", ["causal"]), ("no", ["full"]), ("yes", ["causal"])):
            parsed = options.parse(["--dims", "192x128", "--lengths", "512", "--causal", causal])
            found = [case.group for case in options.chosen_cases(parsed)]
            self.assertEqual(found, [f"D 192/128 {group}" for group in groups])

    def test_shapes(self):
        parsed = options.parse(["--shapes", "all", "--lengths", "512,1024", "--peers", "fa2"])
        groups = {case.group for case in options.chosen_cases(parsed)}
        self.assertTrue({"D 64 full", "GQA 64/8 D 128 causal", "variants D 128 8k"} <= groups)
        self.assertTrue({"sparsity D 128 32k", "forms D 128 256k"} <= groups)
        self.assertEqual(parsed.peers, ["fa2"])

    def test_pass(self):
        """The deterministic gradients use the schedule of the others, unless an option says
        otherwise."""
        self.assertEqual(options.parse([]).pass_name, "forward")
        parsed = options.parse(["--pass", "backward", "--schedule", "consumers = 0"])
        self.assertEqual(parsed.pass_name, "backward")
        self.assertEqual(parsed.deterministic_schedule, "consumers = 0")
        apart = ["--pass", "backward", "--schedule", "a", "--deterministic-schedule", "b"]
        self.assertEqual(options.parse(apart).deterministic_schedule, "b")

    def test_peers(self):
        """FlashAttention-3 is used if its folder is given."""
        self.assertEqual(options.parse([]).peers, ["cudnn", "fa2", "flex"])
        self.assertEqual(options.parse(["--peers", ""]).peers, [])
        with fa3_folder() as folder:
            parsed = options.parse(["--fa3", folder])
            self.assertEqual(parsed.peers, ["cudnn", "fa3", "fa2", "flex"])
            parsed = options.parse(["--fa3", folder, "--peers", "cudnn,fa3"])
            self.assertEqual((parsed.peers, parsed.fa3), (["cudnn", "fa3"], folder))

    def test_bad(self):
        for bad, remedy in (
            (
                ["--shapes", "round"],
                "choose from peers, gqa, shared, decode, variants, sparsity, forms, library, all",
            ),
            (["--dims", "64/1/2"], "write D, or D_qk/D_v as in 192/128"),
            (["--dims", "64,0"], "'0' is not a whole number from 1 to"),
            (["--lengths", "1k"], "'1k' is not a whole number from 1 to"),
            (["--peers", "fa9"], "choose from cudnn, fa3, fa2, flex"),
            (["--peers", "cudnn,fa3"], "'fa3' needs --fa3: name a folder with _C.so"),
            (["--fa3", "no/such"], "'no/such' has no _C.so: name a folder with _C.so"),
            (["--repetitions", "0"], "'0' is not a whole number from 1 to"),
            (["--block-ms", "nan"], "'nan' is not a number of milliseconds from 1 to"),
            (["--json", "no/such/folder.json"], "there is no folder 'no/such'"),
            (["--pass", "both"], "invalid choice: 'both'"),
            (["--deterministic-schedule", "stages = 1"], "it needs --pass backward"),
            (["--pass", "backward", "--prototypes", "."], "they are of the forward pass"),
        ):
            done = run(bad)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(remedy, done.stderr)


class Host(unittest.TestCase):
    def test_kept_pairs(self):
        for queries, keys in ((1, 1), (100, 100), (300, 300), (1, 400), (700, 300)):
            pairs = [(q, k) for q in range(queries) for k in range(keys) if q >= k]
            self.assertEqual(host.kept_pairs("full", queries, keys), queries * keys)
            self.assertEqual(host.kept_pairs("causal", queries, keys), len(pairs))
            self.assertEqual(
                host.kept_pairs("window", queries, keys),
                sum(q - k < host.WINDOW for q, k in pairs),
            )

    def test_table(self):
        case = {"dtype": "f32", "dim": 64, "length": 1024, "variant": "full"}
        times = {"tesela": [2.0, 1.0, 3.0], "torch": [4.0, 1.5]}
        wrong = {**case, "variant": "causal", "wrong": "an error"}
        options = host.parse(["--heads", "4"])
        _, _, first, second = host.table([{**case, "times_ms": times}, wrong], options)
        # 4 · 64 · 4 · 1024² operations in a millisecond, by the fastest run of each.
        self.assertEqual(
            [cell.strip() for cell in first.split("|")[1:-1]],
            [
                *("f32 D 64 S 1024 full", "1.00", "2.00 (50%)", "1073.7"),
                *("1.50", "2.75 (45%)", "715.8", "1.50", "1.38"),
            ],
        )
        self.assertIn("wrong: an error", second)
        options = host.parse(["--heads", "4", "--queries", "1"])
        self.assertIn("   1.0 |", host.table([{**case, "times_ms": times}], options)[-1])
        # Five products; the forward pass has two.
        options = host.parse(["--pass", "backward", "--heads", "4"])
        self.assertIn(" 2684.4 |", host.table([{**case, "times_ms": times}], options)[-1])

    def test_bad(self):
        for arguments in (
            ["--threads", "0"],
            ["--variants", "all"],
            ["--dtypes", "f64"],
            ["--heads", "4", "--kv-heads", "3"],
            ["--pass", "sideways"],
        ):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                host.parse(arguments)


class Machine(unittest.TestCase):
    def test_state(self):
        state = machine.parse_state("580.95.05, 1980, 3201, 121.53, 700.00, 33, P0")
        self.assertEqual(state["driver_version"], "580.95.05")
        self.assertEqual(state["clocks.sm"], 1980)
        self.assertEqual(state["pstate"], "P0")


def attention(q, k, v, heads, kv_heads, queries, keys, dim):
    """Causal attention in double: (o, lse)."""
    o, lse = [], []
    for head in range(heads):
        base = head // (heads // kv_heads) * keys
        for query in range(queries):
            row = q[(head * queries + query) * dim :][:dim]
            kept = range(min(query + 1, keys))
            products = [sum(map(float.__mul__, row, k[(base + j) * dim :][:dim])) for j in kept]
            scores = [product / math.sqrt(dim) for product in products]
            lse.append(math.log(sum(map(math.exp, scores))))
            weights = [math.exp(score - lse[-1]) for score in scores]
            for d in range(dim):
                o.append(sum(w * v[(base + j) * dim + d] for j, w in zip(kept, weights)))
    return o, lse


class Binding(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = c_api.Library(LIBRARY).context("host")

    def test_causal(self):
        heads, kv_heads, queries, keys, dim = 2, 1, 3, 5, 64
        numbers = random.Random(3)

        def normal(count):
            return array.array("f", (numbers.gauss(0, 1) for _ in range(count)))

        q, k, v = (normal(count * dim) for count in (heads * queries, keys, keys))
        o = array.array("f", [math.nan] * len(q))
        lse = array.array("f", [math.nan] * (heads * queries))

        def view(values, count, length):
            return c_api.contiguous(values.buffer_info()[0], (1, count, length, dim))

        kernel = self.context.compile(cases.CAUSAL.text, "f32", dim, dim)
        launch = kernel.launcher(
            (1, heads, kv_heads, queries, keys),
            view(q, heads, queries), view(k, kv_heads, keys), view(v, kv_heads, keys),
            view(o, heads, queries), lse.buffer_info()[0],
        )  # fmt: skip
        launch()
        expected = attention(q, k, v, heads, kv_heads, queries, keys, dim)
        for got, wanted in zip((o, lse), expected):
            self.assertEqual(len(got), len(wanted))
            for left, right in zip(got, wanted):
                self.assertAlmostEqual(left, right, delta=1e-5)

    def test_parameters(self):
        """A scalar and a captured tensor reach the kernel: a single key is kept, and its score
        is known."""
        dim = 64
        text = "attention picked(key: i32, bias: f32[Sk]) { mask = k == key; score = bias[k] }"
        kernel = self.context.compile(text, "f32", dim, dim)
        values = array.array("f", range(4 * dim))
        o, lse = array.array("f", [math.nan] * dim), array.array("f", [math.nan])
        bias = array.array("f", [0.5, 1.5, 2.5, 3.5])

        def view(memory, length):
            return c_api.contiguous(memory.buffer_info()[0], (1, 1, length, dim))

        kernel.launcher(
            (1, 1, 1, 1, 4),
            view(values, 1), view(values, 4), view(values, 4), view(o, 1), lse.buffer_info()[0],
            parameters=[
                c_api.scalar("key", 2),
                c_api.capture("bias", bias.buffer_info()[0], "f32", (4,)),
            ],
        )()  # fmt: skip
        self.assertEqual(list(o), [2 * dim + d for d in range(dim)])
        self.assertAlmostEqual(lse[0], 2.5, delta=1e-6)

    def test_two_forms(self):
        """Both texts of the window give the same mask."""
        length, dim = 600, 64
        numbers = random.Random(5)
        memory = array.array("f", (numbers.gauss(0, 1) for _ in range(length * dim)))

        def view(values):
            return c_api.contiguous(values.buffer_info()[0], (1, 1, length, dim))

        results = []
        for text in (sparsity.TWO_FORMS.text, sparsity.TWO_FORMS.classified):
            o = array.array("f", [math.nan] * (length * dim))
            lse = array.array("f", [math.nan] * length)
            kernel = self.context.compile(text, "f32", dim, dim)
            launch = kernel.launcher(
                (1, 1, 1, length, length), view(memory), view(memory), view(memory), view(o),
                lse.buffer_info()[0],
            )  # fmt: skip
            launch()
            results.append((o, lse))
        for left, right in zip(*results):
            self.assertLess(max(abs(a - b) for a, b in zip(left, right)), 1e-5)
            self.assertFalse(any(map(math.isnan, left)))

    def test_variants_compile(self):
        chosen = [*options.chosen_cases(options.parse(["--shapes", "variants,sparsity,forms"]))]
        for variant in (case.variant for case in chosen):
            with self.subTest(variant.name):
                self.context.compile(variant.text, "bf16", 128, 128)
                if variant.classified:
                    self.context.compile(variant.classified, "bf16", 128, 128)

    def test_info(self):
        """The facts about a kernel, and a schedule that was asked for."""
        text = "attention informed() { mask = q >= k }"
        info = self.context.compile(text, "f32", 64, 64, "block_m = 8").info()
        self.assertEqual((info["target"], info["origin"]), ("host", "compiled"))
        self.assertIn("block_m = 8,", info["schedule"])
        self.assertGreater(info["compile_ms"], 0)
        self.assertNotIn("registers", info)
        again = self.context.compile(text, "f32", 64, 64, "block_m = 8").info()
        self.assertEqual(again["origin"], "memory cache")

    def test_choice(self):
        text = "block_m = 192, block_n = 96, stages = 2"
        self.assertEqual([c_api.choice(text, name) for name in ("block_m", "block_n")], [192, 96])
        kernel = self.context.compile(cases.CAUSAL.text, "f32", 64, 64, "block_m = 8")
        self.assertEqual(c_api.choice(kernel.info()["schedule"], "block_m"), 8)
        self.assertEqual(c_api.choice(text, "heads", default=1), 1)
        self.assertEqual(c_api.choice(text + ", heads = 4", "heads", default=1), 4)
        with self.assertRaisesRegex(ValueError, "does not say once what block is"):
            c_api.choice(text, "block")

    def test_errors(self):
        with self.assertRaisesRegex(c_api.Error, "'block' is not a field") as caught:
            self.context.compile(cases.CAUSAL.text, "f32", 64, 64, "block = 8")
        self.assertEqual(caught.exception.code, c_api.INVALID_ARGUMENT)
        with self.assertRaisesRegex(c_api.Error, "head dimension of 7 ") as caught:
            self.context.compile(cases.CAUSAL.text, "f32", 7, 7)
        self.assertEqual(caught.exception.code, c_api.UNSUPPORTED)
        with self.assertRaisesRegex(c_api.Error, "1:"):
            self.context.compile("attention broken() { mask = nothing }", "f32", 64, 64)
        with self.assertRaises(OSError):
            c_api.Library(LIBRARY + ".missing")


def run(arguments):
    return subprocess.run([sys.executable, BENCH, *arguments], capture_output=True, text=True)


class Command(unittest.TestCase):
    """`--results` draws the results of an earlier run."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "results.json")
        self.chart = os.path.join(folder.name, "chart.svg")

    def draw(self, results):
        with open(self.path, "w") as file:
            json.dump(results, file)
        return run(["--results", self.path, "--svg", self.chart])

    def test_wrong_result(self):
        done = self.draw(example())
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 of 10 results", done.stderr)
        self.assertIn("D 64 full, bursts", done.stdout)
        ElementTree.parse(self.chart)

    def test_right_results(self):
        results = example()
        del results["cases"][2]
        done = self.draw(results)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_never_timed(self):
        results = example()
        results["cases"] = results["cases"][:1]
        results["cases"][0]["engines"] = {"tesela": {"status": "left out", "reason": "too wide"}}
        done = self.draw(results)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Tesela was timed in no case", done.stderr)
        self.assertIn("too wide", done.stdout)

    def test_no_result(self):
        done = run(["--results", self.path])
        self.assertEqual(done.returncode, 3)
        self.assertIn("results.json", done.stderr)


if __name__ == "__main__":
    LIBRARY = sys.argv.pop(1)
    unittest.main()
