# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The common part of the tests of tesela.jax: four host devices, inputs, and a reference."""

import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")
jax.config.update("jax_num_cpu_devices", 4)  # must be set before JAX computes anything

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import reference  # noqa: E402


def inputs(batch, heads, kv_heads, queries, keys, dim, dim_v, dtype="float32", seed=0, bshd=False):
    """q, k and v with random elements."""
    generator = np.random.default_rng(seed)
    shapes = (
        (batch, heads, queries, dim),
        (batch, kv_heads, keys, dim),
        (batch, kv_heads, keys, dim_v),
    )
    arrays = [generator.standard_normal(shape) for shape in shapes]
    return [jnp.asarray(np.swapaxes(a, 1, 2) if bshd else a, dtype) for a in arrays]


def expected(q, k, v, mask=True, score=lambda s: s, scale=None):
    """O and LSE in double precision; axes [batch, heads, length, head dimension].

    ``mask`` and the results of ``score`` must broadcast to [batch, heads, queries, keys].
    """
    arrays = (np.asarray(each, np.float32) for each in (q, k, v))
    return reference.attention(
        *arrays, mask=lambda *_: mask, score=lambda s, *_: score(s), scale=scale
    )


def positions(queries, keys):
    """Index arrays q and k, which broadcast to [queries, keys]."""
    return np.arange(queries)[:, None], np.arange(keys)[None, :]


def check(actual, wanted, dtype="float32"):
    """Compares (O, LSE) of JAX with the reference."""
    assert isinstance(actual[0], jax.Array)
    assert actual[0].dtype == dtype
    reference.check(np.asarray(actual[0]), wanted[0])
    reference.check_lse(np.asarray(actual[1]), wanted[1])
