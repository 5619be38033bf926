# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dropout in JAX: a key decides which pairs are dropped, in both passes and in transformations."""

import pytest
import reference
import tesela
import tesela.jax
from jax_support import check, inputs, jax, jnp, np

P = 0.3
KEY = jax.random.key(3)


def weight(key, batch, heads, queries, keys):
    words = np.asarray(jax.random.bits(key, (4,), jnp.uint32))
    # The words are in the state; seed and offset are 0, so the exclusive or does not change them.
    return reference.dropout_weight(P, words, batch, heads, queries, keys)


def attend(q, k, v, key, variant="causal"):
    return tesela.jax.attention(q, k, v, variant, dropout_p=P, seed=key)


def plain(q, k, v, weight):
    shared = q.shape[1] // k.shape[1]
    k, v = (jnp.repeat(each, shared, 1) for each in (k, v))
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
    keep = jnp.arange(s.shape[2])[:, None] >= jnp.arange(s.shape[3])
    p = jax.nn.softmax(jnp.where(keep, s, -jnp.inf))
    return jnp.einsum("bhqk,bhkd->bhqd", p * weight, v)


@pytest.mark.parametrize("key", [KEY, jax.random.PRNGKey(5)], ids=["typed", "raw"])
def test_both_passes(key):
    q, k, v = inputs(2, 4, 2, 37, 61, 32, 32)
    kept = weight(key, 2, 4, 37, 61)
    out, gradient = jax.vjp(lambda *x: jax.jit(attend)(*x, key), q, k, v)
    wanted, of_plain = jax.vjp(lambda *x: plain(*x, kept), q, k, v)
    np.testing.assert_allclose(out, wanted, atol=2e-5)
    for got, exact in zip(gradient(out), of_plain(wanted), strict=True):
        np.testing.assert_allclose(got, exact, atol=1e-4)


def test_logarithms():
    q, k, v = inputs(2, 4, 2, 37, 61, 32, 32)
    kept = weight(KEY, 2, 4, 37, 61)
    arrays = [np.asarray(each) for each in (q, k, v)]
    out = tesela.jax.attention(q, k, v, dropout_p=P, seed=KEY, return_lse=True)
    check(out, reference.attention(*arrays, weight=kept))


def test_vmap_is_a_larger_batch():
    q, k, v = (each[:, None] for each in inputs(3, 4, 2, 20, 30, 32, 32))
    together = attend(*(each[:, 0] for each in (q, k, v)), KEY)
    mapped = jax.vmap(lambda *x: attend(*x, KEY))(q, k, v)
    np.testing.assert_array_equal(mapped[:, 0], together)
    keys = jax.random.split(KEY, 3)
    with pytest.raises(tesela.UnsupportedError, match=r"mapped by jax\.vmap"):
        jax.vmap(attend)(q, k, v, keys)


def test_gradients_that_are_mapped_alone():
    q, k, v = inputs(2, 4, 2, 20, 30, 32, 32)
    out, gradient = jax.vjp(lambda *x: attend(*x, KEY), q, k, v)
    many = jnp.stack([out, 2 * out])
    with pytest.raises(tesela.UnsupportedError, match=r"use jax\.lax\.map"):
        jax.vmap(gradient)(many)
    for got, one in zip(jax.lax.map(gradient, many), gradient(out), strict=True):
        np.testing.assert_allclose(got, jnp.stack([one, 2 * one]), atol=1e-5)


def test_mapped_with_gradients():
    arrays = [each[:, None] for each in inputs(3, 4, 2, 20, 30, 32, 32)]

    def loss(q, k, v):
        return jnp.square(attend(q, k, v, KEY)).sum()

    mapped = jax.vmap(jax.grad(loss, (0, 1, 2)))(*arrays)
    together = jax.grad(loss, (0, 1, 2))(*(each[:, 0] for each in arrays))
    for got, wanted in zip(mapped, together, strict=True):
        np.testing.assert_allclose(got[:, 0], wanted, atol=1e-5)


def test_divided_among_devices():
    q, k, v = inputs(4, 4, 4, 20, 30, 32, 32)
    wanted = attend(q, k, v, KEY)
    mesh = jax.make_mesh((4,), ("b",), axis_types=(jax.sharding.AxisType.Auto,))
    place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("b"))
    got = jax.jit(attend)(*(jax.device_put(each, place) for each in (q, k, v)), KEY)
    np.testing.assert_array_equal(got, wanted)


def test_mistakes():
    q, k, v = inputs(1, 2, 2, 8, 8, 16, 16)
    for seed in (None, 3, jnp.zeros(2)):
        with pytest.raises(tesela.InvalidArgumentError, match="must be a key of JAX"):
            attend(q, k, v, seed)
    for keys in (jax.random.split(KEY, 3), jax.random.split(jax.random.PRNGKey(5), 3)):
        with pytest.raises(tesela.InvalidArgumentError, match=r"one key: pass.*seed=keys\[0\]"):
            attend(q, k, v, keys)


def test_probabilities_are_checked_while_tracing():
    q, k, v = inputs(1, 2, 2, 8, 8, 16, 16)

    def lower(p):
        return jax.jit(lambda q: tesela.jax.attention(q, k, v, dropout_p=p, seed=KEY)).lower(q)

    for wrong, sentence in (
        (-0.1, r"dropout_p is -0\.1, it must lie in \[0, 1\]"),
        (None, "dropout_p is of the type.*NoneType"),
    ):
        with pytest.raises(tesela.InvalidArgumentError, match=sentence):
            lower(wrong)
    lower(jnp.float32(0.5))
    with pytest.raises(tesela.InvalidArgumentError, match=r"dropout_p is a traced value.*static"):
        jax.jit(lambda p: tesela.jax.attention(q, k, v, dropout_p=p, seed=KEY))(0.5)
    wide = jnp.ones((1, 2, 8, 264))
    with pytest.raises(tesela.UnsupportedError, match=r"is 264, .* up to 256 with dropout"):
        attend(wide, wide, wide, KEY)
