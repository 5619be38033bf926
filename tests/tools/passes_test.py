# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The benchmark on the CPU, above all its backward pass, with the host target and PyTorch's peers on
# the CPU: `passes_test.py PATH-OF-LIBTESELA [unittest options]`. Needs PyTorch, but no GPU.

import argparse
import contextlib
import dataclasses
import importlib.util
import io
import math
import os
import sys
import time
import types
import unittest
import unittest.mock
import warnings

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "bench")
sys.path.insert(0, BENCH)

import c_api
import cases
import library
import summary
import tables

LIBRARY = ""
TORCH = importlib.util.find_spec("torch")
SEED = 3


def small(variant, length=130, queries=None, kv_heads=2, type_name="f32", dims=(64, 64)):
    sizes = (2, 2, kv_heads, length, *dims)
    return cases.Case("small", variant.name, variant, *sizes, type_name, queries)


@unittest.skipUnless(TORCH, "PyTorch is not installed")
class Gradients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import torch

        import backward
        import gradients
        import reference

        cls.torch, cls.backward, cls.gradients = torch, backward, gradients
        torch.set_num_threads(1)  # tensors are small, and other tests run at the same time
        torch.set_grad_enabled(False)
        cls.addClassCleanup(torch.set_grad_enabled, True)
        patches = (
            unittest.mock.patch.dict(reference.TOLERANCE, {"f32": 2e-5}),
            unittest.mock.patch.object(gradients, "SCORES_AT_ONCE", 2**14),  # several steps
        )
        for patch in patches:
            patch.start()
            cls.addClassCleanup(patch.stop)
        cls.ours = backward.tesela(c_api.Library(LIBRARY), None, None, "host")

    def data(self, case):
        return self.backward.Data(case, SEED, "cpu")

    def fault(self, engine, case):
        data = self.data(case)
        return self.gradients.check(case, data, engine.prepare(case, data))

    def test_variants(self):
        """Scores, masks and captured tensors, by both algorithms, against autograd. Not all
        cases, because compiling a kernel takes a second here; tests/gpu has them all."""
        chosen = [each for each in cases.VARIANTS if each.capture or each.name == "softcap causal"]
        for place, variant in enumerate(chosen):
            engine = self.ours[place % 2]
            with self.subTest(variant.name, engine=engine.name):
                reason, found = self.fault(engine, small(variant, length=301))
                self.assertIsNone(reason)
                self.assertEqual(list(found["errors"]), ["dq", "dk", "dv"])
                self.assertGreater(min(found["errors"].values()), 0)

    def test_shapes(self):
        """Shared key heads, few queries, keys that no query sees, different head dimensions,
        bf16."""
        fused, deterministic = self.ours
        for engine, case in (
            (fused, small(cases.FULL, kv_heads=1)),
            (deterministic, small(cases.CAUSAL, length=200, queries=40)),
            (fused, small(cases.CAUSAL, dims=(64, 40))),
            (fused, small(cases.CAUSAL, length=400, type_name="bf16")),
        ):
            with self.subTest(case.describe(), engine=engine.name):
                self.assertIsNone(self.fault(engine, case)[0])

    def test_rows_without_keys(self):
        text = "attention late() { mask = k >= 20 && q >= k }"
        late = cases.Variant("late", text, None, mask=lambda b, h, q, k, none: (k >= 20) & (q >= k))
        self.assertIsNone(self.fault(self.ours[0], small(late))[0])

    def test_sink(self):
        """The reference with a sink, against one more key whose value is 0."""
        case = small(library.variant("off_by_one"), length=60)
        data = self.data(case)
        q, k, v = (each[0][0, 0].double() for each in (data.q, data.k, data.v))
        found = self.gradients.attention(case, data, (0, 0, slice(0, 60)), q, k, v)
        scores = (q @ k.T * data.scale).masked_fill(
            self.torch.ones(60, 60).triu(1).bool(), -math.inf
        )
        powers = scores.exp()
        self.assertLess((powers / (1 + powers.sum(1, True)) @ v - found).abs().max().item(), 1e-12)

    def test_operators(self):
        """PyTorch's own operators are called by name, like those of cuDNN and FlashAttention-2."""
        for variant in (cases.FULL, cases.CAUSAL):
            case = small(variant)
            engine = self.backward.Sdpa("cpu")
            self.assertTrue(engine.applies(case))
            self.assertIsNone(self.fault(engine, case)[0])
        self.assertFalse(self.backward.Sdpa("fa2").applies(small(cases.window(8))))
        self.assertTrue(self.backward.Sdpa("fa2").applies(small(cases.FULL, kv_heads=1)))
        self.assertFalse(self.backward.Sdpa("cpu").applies(small(cases.FULL, kv_heads=1)))

    def test_operators_arguments(self):
        """The arguments have everything that the GPU's operators ask for; others are left out."""
        for name in ("cudnn", "fa2"):
            forward = self.backward.Sdpa.OPERATORS[name]
            got = {}

            def operator(schema):
                def call(**given):
                    got.update(given)
                    return tuple(f"result {each.name}" for each in schema.returns)

                call._schema = schema
                return types.SimpleNamespace(default=call)

            schemas = {
                each: getattr(self.torch.ops.aten, each).default._schema
                for each in (forward, f"{forward}_backward")
            }
            aten = types.SimpleNamespace(**{each: operator(schemas[each]) for each in schemas})
            case = small(cases.CAUSAL)
            with unittest.mock.patch.object(self.torch, "ops", types.SimpleNamespace(aten=aten)):
                self.backward.Sdpa(name).prepare(case, self.data(case)).launch(0)
            self.assertEqual(got["out"], "result output")
            self.assertTrue(got["philox_seed"].startswith("result "))
            self.assertTrue(got["is_causal"])
            self.assertEqual(got["scale"], 64**-0.5)

    def test_unknown_argument(self):
        operator = self.torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
        with self.assertRaisesRegex(RuntimeError, "wants 'out', which the benchmark does not"):
            names = ("grad_out", "query", "key", "value")
            self.backward.call_by_name(operator, dict.fromkeys(names))

    def test_flash_attention_3(self):
        """The arguments of the library's backward, and that both modes are used."""
        torch = self.torch
        operators = unittest.mock.MagicMock()
        operators.fwd.side_effect = lambda q, k, v, **options: (q, q[..., 0], None, None)

        def bwd(do, q, k, v, o, lse, dq, dk, dv, **options):
            for gradient, value in zip((dq, dk, dv), (q, k, v)):
                gradient.copy_(value)

        operators.bwd.side_effect = bwd
        case = small(cases.window(64))
        data = self.data(case)
        with unittest.mock.patch.object(self.backward.fa3, "load", return_value=operators) as load:
            fast, deterministic = self.backward.peers(["fa3"], "folder")
        load.assert_called_once_with("folder")
        self.assertFalse(fast.applies(small(cases.VARIANTS[3])))
        with unittest.mock.patch.object(self.backward.engines, "expect_sm_90"):
            for engine, promised in ((fast, False), (deterministic, True)):
                prepared = engine.prepare(case, data)
                self.assertEqual(prepared.deterministic, promised)
                for gradient, tensors in zip(prepared.launch(0), (data.q, data.k, data.v)):
                    self.assertTrue(torch.equal(gradient, tensors[0]))
                self.assertEqual(
                    operators.bwd.call_args.kwargs,
                    {"softmax_scale": 0.125, "is_causal": False, "window_size_left": 63,
                     "window_size_right": 0, "deterministic": promised},
                )  # fmt: skip
                given = operators.bwd.call_args.args
                self.assertTrue(all(each.is_contiguous() for each in given[:4]))
                self.assertEqual(operators.fwd.call_args.kwargs["num_splits"], 1)

    def test_flex(self):
        """As plain operations, because PyTorch compiles no gradients of FlexAttention for the
        CPU."""
        from torch.nn.attention import flex_attention

        warnings.filterwarnings("ignore", message=".*flex_attention called without torch.compile.*")
        patches = (
            unittest.mock.patch("torch.compile", lambda function, **_: function),
            unittest.mock.patch.object(flex_attention, "_validate_device", lambda *_: None),
        )
        with patches[0], patches[1]:
            for variant in cases.VARIANTS:
                with self.subTest(variant.name):
                    self.assertIsNone(self.fault(self.backward.Flex(), small(variant))[0])

    def test_kept_graph(self):
        """Compiled gradients can be computed several times from one forward pass."""
        torch = self.torch

        def compiled(case, data, time_block_mask):
            # Otherwise PyTorch's compiler refuses the second backward pass.
            self.assertFalse(torch._functorch.config.donated_buffer)
            attend = torch.compile(lambda q, k, v: (q @ k.mT).softmax(-1) @ v, backend="aot_eager")
            return attend, {}, {}

        engine = unittest.mock.Mock()
        engine.compiled = compiled
        case = small(cases.FULL)
        with unittest.mock.patch.object(self.backward.engines, "Flex", lambda: engine):
            prepared = self.backward.Flex().prepare(case, self.data(case))
        first, second = prepared.launch(0), prepared.launch(0)
        self.assertTrue(all(torch.equal(*pair) for pair in zip(first, second)))

    def test_wrong(self):
        """Finds a wrong value in one row, a value that was never written, and a mode that is not
        deterministic."""
        case = small(cases.CAUSAL, length=300)
        data = self.data(case)
        right = [each.clone() for each in self.ours[0].prepare(case, data).launch(0)]

        def fault(*found, **options):
            prepared = self.backward.Prepared(lambda index: found, **options)
            return self.gradients.check(case, data, prepared)[0]

        self.assertIsNone(fault(*right))
        for place, name in enumerate(("dq", "dk", "dv")):
            wrong = [each.clone() for each in right]
            wrong[place][1, 0, 290] *= 1.1
            self.assertIn(f"rows of {name} is off by", fault(*wrong))
            wrong[place][0, 1, 7, 3] = math.nan
            self.assertIn(f"1 values of {name} are NaN", fault(*wrong))
        self.assertIn("dk's shape is", fault(right[0], right[1][:, :1], right[2]))
        numbers = iter((0.0, 1e-9, 0.0, 1e-9))

        def changing(index):
            return (right[0], right[1], right[2] + next(numbers))

        prepared = self.backward.Prepared(changing)
        self.assertIsNone(self.gradients.check(case, data, prepared)[0])
        numbers = iter((0.0, 1e-3))
        prepared = self.backward.Prepared(changing, deterministic=True)
        self.assertIn("dv has other bits", self.gradients.check(case, data, prepared)[0])


def by_wall_clock(launch, count, sets, untimed=0):
    start = time.perf_counter()
    for index in range(count):
        launch(index % sets)
    return 1e3 * (time.perf_counter() - start)


@unittest.skipUnless(TORCH, "PyTorch is not installed")
class Run(unittest.TestCase):
    """Cases from their preparation to the tables."""

    def results(self, pass_name, chosen, engines):
        import torch

        import bench
        import timing

        torch.set_grad_enabled(False)
        self.addCleanup(torch.set_grad_enabled, True)
        options = argparse.Namespace(
            pass_name=pass_name, seed=SEED, modes=("bursts", "sustained"), repetitions=2, rounds=1,
            block_ms=5.0, schedule=None, deterministic_schedule=None, dtype="bf16",
        )  # fmt: skip
        versions = dict.fromkeys(("device", "uuid", "torch", "cudnn", "triton"))
        versions["tesela"] = {"version": "1", "source": "none"}
        whole = bench.PASSES[pass_name]
        on_cpu = dataclasses.replace(whole, data=lambda *given: whole.data(*given, "cpu"))
        with (
            unittest.mock.patch.object(timing, "launches_ms", by_wall_clock),
            unittest.mock.patch.object(bench, "versions", lambda library: versions),
            unittest.mock.patch.object(bench.machine, "gpu_state", lambda uuid: None),
            unittest.mock.patch.dict(bench.PASSES, {pass_name: on_cpu}),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            return bench.run(chosen, None, engines, options, lambda results: None)

    def test_backward(self):
        """Beside a right and a wrong peer."""
        import backward

        class Right(backward.Sdpa):
            OPERATORS = dict.fromkeys(("fa2", "cudnn"), backward.Sdpa.OPERATORS["cpu"])

        class Wrong(Right):
            def prepare(self, case, data):
                launch = super().prepare(case, data).launch
                return backward.Prepared(lambda index: tuple(2 * each for each in launch(index)))

        ours = backward.tesela(c_api.Library(LIBRARY), None, None, "host")
        chosen = [small(cases.FULL, type_name="bf16"), small(cases.window(40), type_name="bf16")]
        results = self.results("backward", chosen, [*ours, Right("fa2"), Wrong("cudnn")])
        full, window = results["cases"]
        self.assertEqual(full["flops"], 10 * 64 * 2 * 2 * 130 * 130)
        self.assertEqual(full["engines"]["cudnn"]["status"], "wrong")
        self.assertNotIn("bursts", full["engines"]["cudnn"])
        self.assertEqual(list(window["engines"]), ["tesela", "deterministic"])
        for name in ("tesela", "deterministic", "fa2"):
            self.assertEqual(full["engines"][name]["bursts"]["count"], 2)
        self.assertIn("tile_flops", window["engines"]["tesela"])
        self.assertNotIn("tile_flops", window["engines"]["deterministic"])
        self.assertGreater(summary.ratio(full, "fa2", "bursts", "deterministic"), 0)
        text = tables.markdown(results)
        for part in (
            "The backward pass.", "small: errors of dq / dk / dv", "Tesela, deterministic",
            "cuDNN wrong at full: a block of 128 rows of dq is off",
            "Ratios of Tesela, deterministic: geometric mean (least)", "full, deterministic, D 64",
        ):  # fmt: skip
            self.assertIn(part, text)

    def test_forward(self):
        """A case that Tesela refuses: nothing is compared."""
        from torch.nn.attention import SDPBackend

        import engines

        tesela = engines.Tesela(c_api.Library(LIBRARY), None, "host")
        peer = engines.Sdpa("fa2", SDPBackend.FLASH_ATTENTION)
        chosen = [
            small(cases.CAUSAL, type_name="bf16"),
            small(cases.FULL, type_name="bf16", dims=(60, 60)),
        ]
        results = self.results("forward", chosen, [tesela, engines.Classified(tesela), peer])
        causal, refused = results["cases"]
        self.assertEqual(causal["flops"], 4 * 64 * 2 * 2 * 130 * 130 / 2)
        self.assertEqual(causal["engines"]["fa2"]["sustained"]["count"], 1)
        self.assertGreater(causal["engines"]["tesela"]["tile_flops"], 0)
        self.assertGreater(summary.ratio(causal, "fa2", "bursts"), 0)
        self.assertEqual([*refused["engines"]], ["tesela"])
        self.assertEqual(refused["engines"]["tesela"]["status"], "left out")
        text = tables.markdown(results)
        self.assertIn("The forward pass.", text)
        self.assertNotIn("errors of dq", text)
        self.assertNotIn("Ratios of Tesela, deterministic", text)


@unittest.skipUnless(TORCH, "PyTorch is not installed")
class Host(unittest.TestCase):
    """Both passes of host.py are checked and timed."""

    @classmethod
    def setUpClass(cls):
        import torch

        import host

        cls.torch, cls.host = torch, host
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        cls.addClassCleanup(torch.set_grad_enabled, True)
        cls.context = c_api.Library(LIBRARY).context("host", 1)

    def result(self, pass_name, variant, queries=350):
        arguments = ("--pass", pass_name, "--heads", "4", "--kv-heads", "2", "--repetitions", "2")
        options = self.host.parse([*arguments, "--queries", str(queries)])
        case = {"dtype": "f32", "dim": 64, "length": 290, "variant": variant}
        return self.host.run_case(self.torch, self.context, case, options), options

    def test_passes(self):
        self.torch.manual_seed(SEED)
        for pass_name in ("forward", "backward"):
            for variant in self.host.VARIANTS:
                result, options = self.result(pass_name, variant)
                self.assertNotIn("wrong", result, (pass_name, variant))
                self.assertLess(result["errors"]["torch"], 1e-5, (pass_name, variant))
                self.assertEqual([len(each) for each in result["times_ms"].values()], [2, 2])
                self.assertNotIn("wrong", self.host.table([result], options)[-1])

    def test_wrong_gradients(self):
        exchanged = unittest.mock.patch.object(
            self.host.Backward, "results", lambda data: (data.dq, data.dv, data.dk)
        )
        with exchanged:
            result, options = self.result("backward", "causal")
        self.assertNotIn("times_ms", result)
        self.assertIn("wrong: an error of", self.host.table([result], options)[-1])


if __name__ == "__main__":
    LIBRARY = sys.argv.pop(1)
    if not TORCH:
        print("PyTorch is not installed: nothing is compared", file=sys.stderr)
    unittest.main()
