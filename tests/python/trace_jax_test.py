# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions that use jax.numpy, traced and run by Tesela, compared with jax.vmap of them."""

from __future__ import annotations

import sys
import unittest
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="functions of jax.numpy need JAX")

import jax.numpy as jnp  # noqa: E402
import tesela  # noqa: E402
from jax import lax  # noqa: E402
from jax.numpy import where  # noqa: E402
from tesela._trace import TraceError, trace  # noqa: E402

QUERIES, KEYS = 24, 32
ids = jnp.arange(KEYS) // 5
bias = jnp.linspace(-1, 1, 2 * KEYS).reshape(2, KEYS)


class JaxFunctions(unittest.TestCase):
    def mask(self, function: Any) -> None:
        text, values = trace(function)
        every = jax.vmap(jax.vmap(function, (None, 0)), (0, None))
        expected = np.asarray(every(jnp.arange(QUERIES), jnp.arange(KEYS)))
        actual = self.probabilities(text, values, np.zeros((QUERIES, 8), np.float32))
        np.testing.assert_array_equal(actual > 0, expected, text)

    def score(self, function: Any) -> None:
        text, values = trace(function)
        q = np.random.default_rng(0).standard_normal((QUERIES, 8)).astype(np.float32)
        every = jax.vmap(jax.vmap(function, (0, None, 0)), (0, 0, None))
        k = np.ones((KEYS, 8), np.float32)
        scores = every(jnp.asarray(q @ k.T), jnp.arange(QUERIES), jnp.arange(KEYS))
        expected = jax.nn.softmax(scores, -1)
        actual = self.probabilities(text, values, q)
        np.testing.assert_allclose(actual, expected, atol=1e-5, err_msg=text)

    def probabilities(self, text: str, values: dict[str, Any], q: Any) -> Any:
        variant = tesela.variant(
            text, **{n: np.asarray(v) if hasattr(v, "shape") else v for n, v in values.items()}
        )
        k = np.ones((1, 1, KEYS, 8), np.float32)
        out = np.full((1, 1, QUERIES, KEYS), np.nan, np.float32)
        unit = np.eye(KEYS, dtype=np.float32)[None, None]
        tesela.attention(q[None, None], k, unit, variant, scale=1.0, out=out)
        return out[0, 0]

    def test_masks(self) -> None:
        self.mask(lambda q, k: jnp.where(q > k, ids[q], jnp.minimum(ids[k], 3)) == 2)
        self.mask(lambda q, k: jnp.logical_and(q >= k, jnp.abs(q - k) < 5))
        self.mask(lambda q, k: where(q > k, q, k) == jnp.maximum(ids[q], 7))
        self.mask(lambda q, k: lax.select(q > k, q, k) % 3 == 0)
        self.mask(lambda q, k: (ids[q] == ids[k]).astype(jnp.int32) + (q >= k) == 2)
        self.mask(jax.jit(lambda q, k: jnp.floor_divide(q, 4) >= k // 4))
        self.mask(lambda q, k: jnp.right_shift(q, 1) != jnp.bitwise_xor(k, 5))

    def test_functions_of_lax(self) -> None:
        self.mask(lambda q, k: lax.clamp(3, k, q) == k)
        self.mask(lambda q, k: lax.max(q, k) - lax.min(q, 5) > 4)
        self.mask(lambda q, k: lax.div(q - k, 4) == -1)
        self.mask(lambda q, k: lax.rem(q - k, 4) == -1)
        self.mask(lambda q, k: lax.round((q - k) / 4) == -1)
        half = lax.RoundingMethod.TO_NEAREST_EVEN
        self.mask(lambda q, k: lax.round((q - k) / 4, half) == 0)
        self.mask(lambda q, k: lax.squeeze(bias[:, :1], (1,))[q % 2] < k / 40 - 0.9)
        self.mask(lambda q, k: jnp.digitize(k, ids[3:12]) == q % 8)
        self.mask(lambda q, k: jnp.isin(k, ids, invert=True))

    def test_scores(self) -> None:
        self.score(lambda s, q, k: s + bias[0, k] * bias[1][q])
        self.score(lambda s, q, k: jax.nn.gelu(s) + jax.nn.sigmoid(s) - jax.nn.relu(s))
        self.score(lambda s, q, k: 5 * jnp.tanh(s / 5) + lax.max(s, 1.0) + jnp.clip(s, -0.5, 0.5))
        self.score(lambda s, q, k: s - jnp.log1p(jnp.abs(q - k).astype(jnp.float32)))
        self.score(lambda s, q, k: s + jnp.dot(bias[:, q], bias[:, k]))
        self.score(lambda s, q, k: jnp.where(q >= k, s, -1e9) + lax.rsqrt(1.0 + s * s))

    def test_what_cannot_be_traced(self) -> None:
        with self.assertRaisesRegex(TraceError, "the function 'jax.sort' cannot be traced"):
            trace(lambda q, k: jnp.sort(q) > k)
        with self.assertRaisesRegex(TraceError, "trace_jax_test.py"):
            trace(lambda q, k: lax.cond(q > k, lambda: True, lambda: False))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
