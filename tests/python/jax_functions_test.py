# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Masks and scores as functions on JAX, with JAX arrays in their closures."""

import pytest
import tesela
from jax_support import check, expected, inputs, jax, jnp, np, positions

pytest.importorskip("tesela._trace", reason="this build of the package traces no functions")


def test_functions():
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    rows, columns = positions(37, 53)
    ids = np.sort(np.random.default_rng(1).integers(0, 4, (2, 53)), axis=1)
    same = ids[:, None, :37, None] == ids[:, None, None, :]
    documents = jnp.asarray(ids, jnp.int32)
    width = 20

    def mask(b, q, k):
        return jnp.where(q >= k, documents[b, q] == documents[b, k], False) & (q - k < width)

    wanted = expected(q, k, v, same & (rows >= columns) & (rows - columns < 20))
    check(tesela.attention(q, k, v, mask, return_lse=True), wanted)
    bound = tesela.variant(mask)
    check(jax.jit(lambda *a: tesela.attention(*a, bound, return_lse=True))(q, k, v), wanted)


def test_closures_over_traced_arrays():
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    rows, columns = positions(37, 53)

    @jax.jit
    def call(window, ids):
        def mask(b, q, k):
            return (q >= k) & (q - k < window) & (ids[b, q] == ids[b, k])

        return tesela.attention(q, k, v, mask, return_lse=True)

    @jax.jit
    def score(slope):
        def tilted(s, h, q, k):
            return jnp.tanh(s / 3) * 3 + slope[h] * (k - q)

        return tesela.attention(q, k, v, tesela.variant(tilted), return_lse=True)

    ids = np.sort(np.random.default_rng(1).integers(0, 4, (3, 2, 53)), axis=2)
    same = ids[:, :, None, :37, None] == ids[:, :, None, None, :]
    slope = jnp.asarray([0.5, -0.25, 0.0, 1.0])
    for window in (5, 30):
        near = (rows >= columns) & (rows - columns < window)
        for index in range(3):
            actual = call(window, jnp.asarray(ids[index], jnp.int32))
            check(actual, expected(q, k, v, same[index] & near))
    assert call._cache_size() == 1
    o, lse = jax.vmap(call)(jnp.asarray([5, 30, 7]), jnp.asarray(ids, jnp.int32))
    for index, window in enumerate((5, 30, 7)):
        near = (rows >= columns) & (rows - columns < window)
        check((o[index], lse[index]), expected(q, k, v, same[index] & near))
    bias = np.asarray(slope)[:, None, None] * (columns - rows)
    wanted = expected(q, k, v, score=lambda s: 3 * np.tanh(s / 3) + bias)
    check(score(slope), wanted)
