# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: N803, N806 - H and Sq are the language's names
"""The results of tracing Python functions: texts, parameters, traces that are found again, and
errors at the user's line. Needs only NumPy; trace_flex_test.py tests PyTorch, trace_jax_test.py
JAX.
"""

from __future__ import annotations

import functools
import gc
import math
import re
import sys
import unittest
import unittest.mock
import weakref
from typing import Any

import numpy as np
import tesela
from tesela._trace import TraceError, trace, tracer

TABLE = np.arange(5, dtype=np.float32)
WIDTH = 6
FLAG = True


def body(function: Any, **arguments: Any) -> str:
    """The statements of a function's text. The library must accept the text."""
    text, _ = trace(function, arguments)
    tesela.variant(text)
    return re.sub(" +", " ", "; ".join(line.strip() for line in text.splitlines()[1:-1]))


def other_way(condition: bool) -> bool:
    return not condition


class Texts(unittest.TestCase):
    def check(self, function: Any, expected: str, **arguments: Any) -> None:
        self.assertEqual(body(function, **arguments), expected)

    def test_whole_text(self) -> None:
        text, values = trace(lambda q, k, window: (q >= k) & (q - k < window), {"window": 1024})
        self.assertEqual(
            text, "attention function(window: i32) {\n  mask = q >= k && q - k < window\n}\n"
        )
        self.assertEqual(values, {"window": 1024})

    def test_a_condition_is_a_mask_and_a_number_a_score(self) -> None:
        self.check(lambda q, k: q > k, "mask = q > k")
        self.check(lambda s, q, k: s - q * k, "score = s - q * k")

    def test_a_mask_a_score_and_a_sink(self) -> None:
        sinks = np.zeros(2, np.float32)
        self.check(
            lambda q, k: q >= k,
            "mask = q >= k; score = s * scale; sink = sinks[h]",
            score=lambda s, scale: s * scale,
            sink=lambda h: sinks[h],
            scale=0.5,
        )
        with self.assertRaisesRegex(TraceError, "the score is given twice"):
            trace(lambda s: s, {"score": lambda s: s})

    def test_extents_and_heads_by_name(self) -> None:
        self.check(lambda q, k, Sq, Sk: q + Sk - Sq >= k, "mask = q + Sk - Sq >= k")
        self.check(lambda s, hkv, H, Hkv: s + hkv * Hkv / H, "score = s + 1.0 * (hkv * Hkv) / H")

    def test_names_of_flex_attention(self) -> None:
        self.check(lambda b, h, q_idx, kv_idx: q_idx > kv_idx + h + b, "mask = q > k + h + b")

    def test_python_operators(self) -> None:
        self.check(lambda q, k: q // 3 == k % 3, "mask = q / 3 == k % 3")
        self.check(lambda q, k: q / 3 > k, "mask = q / 3.0 > k")
        self.check(lambda q, k: q + -k > 3, "mask = q + -k > 3")
        self.check(lambda q, k: divmod(q, 4)[0] == k, "mask = q / 4 == k")
        self.check(lambda q, k: q**2 + 2**3 < k, "mask = q * q + 8 < k")
        self.check(lambda q, k: (q << 3) + (k >> 2) == ~q, "mask = q * 8 + k / 4 == -q - 1")
        self.check(lambda q, k: (q & 7) == 3, "mask = q % 8 == 3")
        self.check(lambda q, k: (q > k) ^ (k > 3), "mask = (q > k) != (k > 3)")
        self.check(lambda q, k: ~((q > k) | (k > 3)), "mask = !(q > k || k > 3)")

    def test_bools_as_numbers(self) -> None:
        self.check(
            lambda q, k: int(q > k) + (k > 3) == 1,
            "mask = (q > k ? 1 : 0) + (k > 3 ? 1 : 0) == 1",
        )
        self.check(lambda s, q, k: s * (q > k), "score = s * (q > k ? 1 : 0)")
        self.check(lambda s, q, k: s * int(q > k), "score = s * (q > k ? 1 : 0)")
        self.check(lambda q, k: bool(q % 2), "mask = q % 2 != 0")

    def test_products_and_sums_of_conditions_are_conditions(self) -> None:
        self.check(lambda q, k: (q >= k) * (q - k < 5), "mask = q >= k && q - k < 5")
        self.check(lambda q, k: (q > k) + (k < 3), "mask = q > k || k < 3")
        self.check(lambda q, k: (q > k) * True, "mask = q > k")
        self.check(lambda q, k: np.minimum(q > k, k < 3), "mask = q > k && k < 3")
        self.check(lambda q, k: max(q > k, k < 3), "mask = q > k || k < 3")
        self.check(
            lambda q, k: sum((q > k, k > 3)) == 1, "mask = (q > k ? 1 : 0) + (k > 3 ? 1 : 0) == 1"
        )

    def test_python_functions(self) -> None:
        self.check(lambda q, k: abs(q - k) < max(q, 3), "mask = abs(q - k) < max(q, 3)")
        self.check(lambda q, k: min(q, k, 7) == 0, "mask = min(min(q, k), 7) == 0")
        self.check(
            lambda q, k: int(q / 2) == math.floor(k / 2),
            "mask = int(q / 2.0) == int(floor(k / 2.0))",
        )
        self.check(lambda s, q: s + math.exp(q), "score = s + exp(q)")
        self.check(lambda s, q: s * float(q), "score = s * q")

    def test_numpy_functions(self) -> None:
        self.check(
            lambda q, k: np.where(q > k, q, 3) == np.minimum(q, k),
            "mask = (q > k ? q : 3) == min(q, k)",
        )
        self.check(
            lambda q, k: np.logical_and(q > k, np.abs(q - k) < np.int64(5)),
            "mask = q > k && abs(q - k) < 5",
        )
        self.check(lambda s, q: np.float32(2) * s + np.tanh(s), "score = 2.0 * s + tanh(s)")
        self.check(
            lambda s: np.clip(s, -1.0, 1.0).astype(np.float32), "score = clamp(s, -1.0, 1.0)"
        )

    def test_conditions_of_python(self) -> None:
        self.check(lambda q, k: 0 <= q - k < 5, "let x0 = q - k; mask = x0 >= 0 && x0 < 5")
        self.check(lambda q, k: q > k and k > 3, "mask = q > k && k > 3")
        self.check(lambda q, k: q > k or k > 3, "mask = q > k || k > 3")
        self.check(lambda q, k: (q > k and k > 3) or q == 0, "mask = q > k && k > 3 || q == 0")
        self.check(lambda q, k: q > k and (k > 3 or q == 0), "mask = q > k && (k > 3 || q == 0)")
        self.check(lambda q, k: (q > k or k > 3) and q == 0, "mask = (q > k || k > 3) && q == 0")
        self.check(lambda q, k: not q > k, "mask = q <= k")
        self.check(lambda q, k: q in (1, 3), "mask = q == 1 || q == 3")
        self.check(
            lambda q, k: any(q == k + i for i in range(3)),
            "mask = q == k || q == k + 1 || q == k + 2",
        )
        self.check(lambda q, k: all([q > k, k > 3]), "mask = q > k && k > 3")
        self.check(lambda q, k: q > k if k > 3 else q == 0, "mask = k > 3 ? q > k : q == 0")
        self.check(lambda s, q, k: s if q >= k else -math.inf, "score = q >= k ? s : -inf")
        self.check(lambda q, k: other_way(q > k), "mask = q <= k")

    def test_statements(self) -> None:
        def early(q: Any, k: Any) -> Any:
            if q < k:
                return False
            x = q - k
            if x > 10:
                return x % 2 == 0
            return True

        self.check(early, "let x0 = q - k; mask = q >= k && (x0 <= 10 || x0 % 2 == 0)")

    def test_floats_that_compare_unequal_keep_their_nan(self) -> None:
        self.check(lambda s, q: s if not q / 2 < 3 else 0.0, "score = q / 2.0 < 3 ? 0.0 : s")
        self.assertIn("!(", body(lambda q, k: ~(q / 2 < k)))

    def test_what_follows_from_an_equality(self) -> None:
        ids = np.zeros(8, np.int32)
        starts = np.zeros(8, np.int32)

        def at(x: Any) -> Any:
            return x - starts[ids[x]]

        self.check(
            lambda q, k: (ids[q] == ids[k]) & (at(q) >= at(k)) & (at(q) - at(k) < 5),
            "mask = ids[q] == ids[k] && q >= k && q - k < 5",
        )
        self.check(
            lambda q, k: (at(q) >= at(k)) & (ids[q] == ids[k]),
            "mask = q >= k && ids[q] == ids[k]",
        )
        self.assertIn("starts", body(lambda q, k: (ids[q] <= ids[k]) & (at(q) >= at(k))))
        self.assertIn("starts", body(lambda q, k: (ids[q] == ids[k]) | (at(q) >= at(k))))

    def test_what_is_used_twice_is_named(self) -> None:
        self.check(
            lambda q, k: (q - k < 5) & (q - k > 2), "let x0 = q - k; mask = x0 < 5 && x0 > 2"
        )

    def test_literals(self) -> None:
        self.check(lambda s: s + 1e39 - 1e-50, "score = s + inf - 0.0")
        self.check(lambda s: s - -0.5, "score = s + 0.5")
        self.check(lambda s: s * -0.5, "score = s * -0.5")
        self.check(lambda q, k: q - 2147483647 == k, "mask = q - 2147483647 == k")

    def test_deep_expressions_are_within_the_limits(self) -> None:
        def deep(s: Any, q: Any) -> Any:
            for _ in range(300):
                s = 1.0 / (s + q)
            return s

        self.assertIn("let", body(deep))

    def test_constants(self) -> None:
        self.check(lambda q, k: True, "mask = true")
        self.check(lambda s: 2, "score = 2")
        self.check(lambda q, k: (q > k) & True, "mask = q > k")
        self.check(lambda q, k: q is None or q != "a", "mask = true")


class Captures(unittest.TestCase):
    def test_closures_globals_defaults_keywords(self) -> None:
        near, scale = 3, 0.5

        def function(s: Any, q: Any, k: Any, far: int = 7, *, more: float = 1.5) -> Any:
            return s * scale + TABLE[q - k] * WIDTH + far + more + near

        text, values = trace(function)
        self.assertIn("s * scale + TABLE[q - k] * WIDTH + far + more + near", text)
        self.assertEqual(
            {k: v for k, v in values.items() if k != "TABLE"},
            {"near": 3, "scale": 0.5, "far": 7, "more": 1.5, "WIDTH": 6},
        )
        self.assertIs(values["TABLE"], TABLE)

    def test_new_values_give_the_same_text(self) -> None:
        def made(window: Any, ids: Any) -> Any:
            return lambda q, k: (q - k < window) & (ids[q] == ids[k])

        first, values = trace(made(5, np.arange(3, dtype=np.int32)))
        second, others = trace(made(9, np.arange(8, dtype=np.int32)))
        self.assertEqual(first, second)
        self.assertEqual((values["window"], others["window"]), (5, 9))
        third, _ = trace(made(2.5, np.arange(8, dtype=np.int32)))
        self.assertIn("window: f32", third)
        fourth, _ = trace(made(5, np.zeros((3, 3), np.int32)[0].astype(bool)))
        self.assertIn("ids: bool", fourth)

    def test_a_changed_closure_is_seen(self) -> None:
        window = 5

        def function(q: Any, k: Any) -> Any:
            return q - k < window

        self.assertEqual(trace(function)[1], {"window": 5})
        window = 6
        self.assertEqual(trace(function)[1], {"window": 6})

    def test_what_is_no_number_decides_the_text(self) -> None:
        def made(mode: Any) -> Any:
            return lambda q, k: q >= k if mode == "causal" else q <= k

        self.assertEqual(body(made("causal")), "mask = q >= k")
        self.assertEqual(body(made("other")), "mask = q <= k")
        self.assertEqual(body(made("causal")), "mask = q >= k")

    def test_other_functions_decide_the_text(self) -> None:
        def made(inner: Any) -> Any:
            return lambda q, k: inner(q, k) & (q > 3)

        self.assertEqual(body(made(lambda q, k: q >= k)), "mask = q >= k && q > 3")
        self.assertEqual(body(made(lambda q, k: q < k)), "mask = q < k && q > 3")
        self.assertEqual(body(made(np.less)), "mask = q < k && q > 3")
        self.assertEqual(body(made(np.greater)), "mask = q > k && q > 3")

    def test_loops_over_captured_numbers(self) -> None:
        def made(count: int) -> Any:
            return lambda s, q: s + sum(q * i for i in range(count))

        self.assertEqual(body(made(3)), "score = s + (q + q * 2)")
        self.assertEqual(body(made(2)), "score = s + q")

    def test_conditions_on_captured_numbers(self) -> None:
        def made(window: int) -> Any:
            return lambda q, k: (q >= k) & (q - k < window) if window > 0 else q >= k

        self.assertEqual(body(made(4)), "mask = q >= k && q - k < window")
        self.assertEqual(body(made(0)), "mask = q >= k")
        self.assertEqual(body(made(9)), "mask = q >= k && q - k < window")

    def test_arithmetic_of_captured_numbers_stays(self) -> None:
        width, frames = 4, 3
        self.assertEqual(
            body(lambda q, k: q - k < width * frames // 2), "mask = q - k < width * frames / 2"
        )

    def test_names_that_are_taken(self) -> None:
        H, mask, x0 = 8, 2, 3
        text, values = trace(lambda h, q, k: (q - k) * (q - k) < h + H + mask + x0)
        tesela.variant(text)
        self.assertEqual(values, {"H_1": 8, "mask_1": 2, "x0": 3})

    def test_containers_and_objects(self) -> None:
        class Config:
            window = 3

            def __init__(self) -> None:
                self.sizes = (2, 4)
                self.table = {"bias": TABLE}

            @property
            def double(self) -> int:
                return 2 * self.window

            def near(self, q: Any, k: Any) -> Any:
                return q - k < self.double

            def __call__(self, q: Any, k: Any) -> Any:
                return self.near(q, k) & (self.table["bias"][q] > self.sizes[1])

        config = Config()
        text, values = trace(config)
        self.assertIn("mask = q - k < double && bias[q] > sizes_1", text)
        self.assertEqual((values["double"], values["sizes_1"]), (6, 4))
        config.window = 5
        self.assertEqual(trace(config)[1]["double"], 10)
        self.assertEqual(trace(config.near)[1], {"double": 10})

    def test_attributes_of_classes(self) -> None:
        class Config:
            window = 3

            @classmethod
            def near(cls, q: Any, k: Any) -> Any:
                return q - k < cls.window

            @staticmethod
            def far(q: Any, k: Any) -> Any:
                return q - k > -Config.window

            def __init__(self, x: Any) -> None:
                self.x = x

        def mask(q: Any, k: Any) -> Any:
            made = Config(k)
            assert isinstance(made, Config) and issubclass(Config, object)
            return Config.near(q, k) & Config.far(q, k) & (made.x > Config.window)

        text, values = trace(mask)
        self.assertIn("mask = x0 < window && x0 > -window && k > window", text)
        self.assertEqual(values, {"window": 3})
        Config.window = 11
        self.assertEqual(trace(mask)[1], {"window": 11})

    def test_attributes_of_functions(self) -> None:
        def near(q: Any, k: Any) -> Any:
            return q - k < near.width  # type: ignore[attr-defined]

        near.width = 3  # type: ignore[attr-defined]
        self.assertEqual(trace(near)[1], {"width": 3})
        near.width = 4  # type: ignore[attr-defined]
        self.assertEqual(trace(near)[1], {"width": 4})

    def test_partial(self) -> None:
        function = functools.partial(lambda w, q, k, d: (q - k < w) & (q > d), 4, d=2)
        text, values = trace(function)
        self.assertIn("mask = q - k < w && q > d", text)
        self.assertEqual(values, {"w": 4, "d": 2})

    def test_arguments(self) -> None:
        def function(s: Any, h: Any, q: Any, k: Any, slope: Any, is_causal: bool) -> Any:
            return s + slope[h] * (k - q) if is_causal else s

        text, _ = trace(function, {"slope": TABLE, "is_causal": True})
        self.assertIn("score = s + slope[h] * (k - q)", text)
        text, values = trace(function, {"slope": TABLE, "is_causal": False})
        self.assertIn("score = s\n", text)
        self.assertEqual(values, {})

    def test_tensors(self) -> None:
        t = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        check = self.assertEqual
        check(body(lambda s, b, h, q: s + t[b, h, q]), "score = s + t[b, h, q]")
        check(body(lambda s, b, h, q: s + t[b][h][q]), "score = s + t[b, h, q]")
        check(body(lambda s, b, q: s + t[b, 0][q]), "score = s + t[b, 0, q]")
        check(body(lambda s, b, q: s + t[b, :, q][1]), "score = s + t[b, 1, q]")
        check(body(lambda s, b, q: s + t[..., q][b, 1]), "score = s + t[b, 1, q]")
        check(body(lambda s, b, q: s + t[b, -1, q]), "score = s + t[b, t_1 - 1, q]")
        check(body(lambda s, b, q: s + t.T[q, 1, b]), "score = s + t[b, 1, q]")
        check(body(lambda s, b, q: s + t[b, 1:, q][q]), "score = s + t[b, q + 1, q]")
        check(body(lambda s, b, h: s + t[b, h].sum()), "score = s + sum(i < t_2: t[b, h, i])")
        check(
            body(lambda s, b, h: s + (t[b, h] * t[b, 0]).sum()),
            "score = s + sum(i < t_2: t[b, h, i] * t[b, 0, i])",
        )
        check(
            body(lambda s, b, h: s + t[b, h] @ t[b, 0]),
            "score = s + sum(i < t_2: t[b, h, i] * t[b, 0, i])",
        )
        check(
            body(lambda b, q: (t[b] > q).any()),
            "mask = any(i < t_1: any(i1 < t_2: t[b, i, i1] > q))",
        )
        check(body(lambda s, b: s + t.shape[1] + len(t)), "score = s + t_1 + 2")
        check(body(lambda q, k: np.isin(q, TABLE)), "mask = any(i < TABLE_0: q == TABLE[i])")

    def test_a_tensor_that_is_captured_twice_is_one_parameter(self) -> None:
        def made(a: Any, b: Any) -> Any:
            return lambda s, q: s + a[q] + b[q]

        self.assertEqual(body(made(TABLE, TABLE)), "let x0 = a[q]; score = s + x0 + x0")
        self.assertEqual(body(made(TABLE, TABLE + 1)), "score = s + a[q] + b_1[q]")

    def test_scalar_tensors(self) -> None:
        zero_d = np.array(2.5, np.float32)
        text, values = trace(lambda s: s * zero_d)
        self.assertIn("zero_d: f32[1]", text)
        self.assertEqual(values["zero_d"].shape, (1,))

    def test_what_no_parameter_can_be_is_a_constant(self) -> None:
        low = -math.inf
        self.assertEqual(body(lambda s, q, k: s if q > k else low), "score = q > k ? s : -inf")

    def test_nothing_of_the_users_is_kept_or_changed(self) -> None:
        class Holder:
            def __init__(self) -> None:
                self.table = np.ones(1000, np.float32)

        def made() -> Any:
            holder = Holder()
            return (lambda s, q: s + holder.table[q]), weakref.ref(holder)

        function, holder = made()
        before = (function.__code__, function.__closure__, function.__defaults__)
        _, values = trace(function)
        self.assertEqual(before, (function.__code__, function.__closure__, function.__defaults__))
        del function, values, before
        gc.collect()
        self.assertIsNone(holder())


class Attention(unittest.TestCase):
    """tesela.variant and tesela.attention of functions."""

    def test_arguments_of_a_call(self) -> None:
        q, k = np.random.default_rng(0).standard_normal((2, 1, 2, 9, 16)).astype(np.float32)
        slopes = np.float32([0.5, 0.25])

        def score(s: Any, h: Any, q: Any, k: Any, slope: Any, window: int = 5) -> Any:
            return s + slope[h] * (k - q) if q - k < window else -math.inf

        out = tesela.attention(q, k, k, score, slope=slopes, window=3)
        bound = tesela.variant(score, slope=slopes, window=7)
        self.assertEqual(set(bound.bound), {"slope", "window"})
        np.testing.assert_array_equal(out, tesela.attention(q, k, k, bound, window=3))
        text = bound.text.replace("window: i32", "window: i32 = 3")
        np.testing.assert_array_equal(out, tesela.attention(q, k, k, text, slope=slopes))

    def test_new_values_compile_nothing(self) -> None:
        from tesela._contexts import HOST, context

        q = np.zeros((1, 1, 8, 16), np.float32)

        def made(window: int, table: Any) -> Any:
            return lambda s, q, k: s + table[q] if q - k < window else -math.inf

        first = tesela.attention(q, q, q, made(3, TABLE))
        before = context(HOST).compile_count
        for window in range(1, 9):
            tesela.attention(q, q, q, made(window, np.ones(window, np.float32)))
        self.assertEqual(context(HOST).compile_count, before)
        self.assertEqual(first.shape, q.shape)


class Errors(unittest.TestCase):
    def check(self, function: Any, sentence: str, line: str = "", **arguments: Any) -> None:
        with self.assertRaises(TraceError) as caught:
            trace(function, arguments)
        self.assertIsInstance(caught.exception, tesela.InvalidVariantError)
        self.assertIn(sentence, str(caught.exception))
        self.assertIn("trace_test.py:", str(caught.exception))
        self.assertIn(line, str(caught.exception))

    def test_line(self) -> None:
        def function(q: Any, k: Any) -> Any:
            far = q - k
            return [1, 2, 3][far] == k  # here

        self.check(function, "Python needs an integer", "# here")

    def test_line_of_a_function_that_is_called(self) -> None:
        def inner(x: Any) -> Any:
            return x.sort()  # in here

        self.check(lambda q, k: inner(q) > k, "value has no attribute '.sort'", "# in here")

    def test_each(self) -> None:
        self.check(lambda q, k: {q: 1}[k], "key of a dictionary")
        self.check(lambda q, k: q in {1, 2}, "in a set")
        self.check(lambda q, k: sum(range(q)) == k, "range()")
        self.check(lambda q, k: np.array([1, 2])[q] == k, "make it outside of the function")
        self.check(lambda q, k: np.sort(q) > k, "the function 'numpy.sort' cannot be traced")
        self.check(lambda q, k: np.tahn(q) > k, "has no attribute 'tahn'")
        self.check(lambda s: s.tahn(), "no attribute '.tahn'")
        self.check(lambda q, k: q > 2**40, "does not fit an i32")
        self.check(lambda q, k: q > "a", "combined with str")
        self.check(lambda s, q: TABLE[s] + s, "an index must be an integer, this one is f32")
        self.check(lambda s, q: TABLE[q > 1] + s, "an index must be an integer, this one is bool")
        self.check(lambda s, q: TABLE[q, q] + s, "a tensor with 1 axes was read with 2 indices")
        self.check(lambda s, q: s if TABLE else 0, "a whole tensor is not a condition")
        self.check(lambda s, q: TABLE + s, "returns a tensor with 1 axes")
        self.check(lambda s, q: TABLE.max() + s, "the max of a whole tensor")
        self.check(lambda q, k: None, "returns nothing")
        self.check(lambda q, k: "a", "returns str")
        self.check(lambda s: s > 0, "the mask depends on the score")
        self.check(lambda q, k, window: q > k + window, "'window' is not an index and has no value")
        self.check(lambda q, K: q > K, "did you mean 'k'?")
        self.check(lambda q, k: q > undefined, "NameError")  # noqa: F821
        self.check(lambda s: s & 1, "an operand is f32")
        self.check(lambda q, w: q > w, "elements of the tensor 'w' are float64", w=np.zeros(3))

    def test_conditions_mixed_with_numbers(self) -> None:
        def early(q: Any, k: Any) -> Any:
            if q < k:
                return 0
            return q - k < 5

        self.check(early, "a condition on one path and a number on another", "def early")
        self.check(lambda q, k: (k - q) or True, "a condition on one path and a number on")
        self.check(lambda s, q, k: s if q >= k else False, "write True and False for a mask")
        self.check(lambda q, k: (q > k) - (k > 3), "was subtracted from a condition")

    def test_whole_tensors_and_new_tensors(self) -> None:
        self.check(lambda q, k: TABLE[np.array([1, 2])][k] > q, "indexed with a whole tensor")
        self.check(lambda q, k: TABLE[[1, 2]][k] > q, "indexed with a list; make a tensor")
        for function in (np.array, np.asarray, np.bool_):
            self.check(lambda q, k, f=function: f(q >= k), "a NumPy array cannot be made of")
        self.check(lambda q, k: np.array([q >= k]), "a NumPy array cannot be made of")
        self.check(lambda q, *a: q > a[0], "if it belongs to '*args', name the function's")
        self.check(lambda **a: a["q"] > 1, "the function's only arguments are '**a'")

    def test_a_value_that_no_function_takes(self) -> None:
        def near(q: Any, k: Any, window: int = 4) -> Any:
            return q - k < window

        message = "no argument 'windw': leave it out, or correct its name; it has window"
        with self.assertRaisesRegex(tesela.InvalidArgumentError, message):
            tesela.variant(near, windw=5)
        q = np.zeros((1, 1, 4, 8), np.float32)
        with self.assertRaisesRegex(tesela.InvalidArgumentError, "'max_key': leave it out"):
            tesela.attention(q, q, q, lambda q, k: q >= k, max_key=3)
        tesela.variant(near, score=lambda s, factor: s * factor, factor=2.0, window=5)

    def test_more_ways_than_the_limit(self) -> None:
        def ways(q: Any, k: Any) -> Any:
            count = 0
            for i in range(9):
                if q > i:
                    count += 1
            return count > k

        self.check(ways, "more than 64 paths", "if q > i:")

    def test_a_changed_tensor(self) -> None:
        def function(s: Any, q: Any) -> Any:
            TABLE[q] = 3
            return s

        self.check(function, "cannot change a tensor")


class KeptTraces(unittest.TestCase):
    def test_a_function_is_traced_once(self) -> None:
        def made(window: int) -> Any:
            return lambda q, k: q - k < window

        trace(made(1))
        with unittest.mock.patch.object(tracer, "_made") as again:
            for window in range(5):
                trace(made(window))
            again.assert_not_called()


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
