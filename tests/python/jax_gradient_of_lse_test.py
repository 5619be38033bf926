# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Losses that use the logarithms, by jax.grad, against jax.grad of plain jax.numpy in float64."""

import pytest
import tesela
import tesela.jax
from jax_gradient_test import CASES, EVERYTHING, SHAPE, P, causal, check, mesh_of_two, reference
from jax_support import inputs, jax, jnp, np


def z_loss(o, lse, dtype="float32"):
    """A loss of the result and of the squares of the logarithms, without rows that have no keys."""
    weight = np.random.default_rng(9).standard_normal(o.shape).astype(dtype).astype(o.dtype)
    return (o * weight).sum() + 0.5 * jnp.square(jnp.where(jnp.isneginf(lse), 0, lse)).sum()


def of_lse(_, lse):
    weight = np.random.default_rng(8).standard_normal(lse.shape).astype(np.float32)
    return (jnp.where(jnp.isneginf(lse), 0, lse) * weight.astype(lse.dtype)).sum()


def gradients(function, loss, arrays, transform=lambda function: function):
    return transform(jax.grad(lambda *a: loss(*function(*a)), EVERYTHING))(*arrays)


def exact(rules, loss, arrays):
    with jax.enable_x64(True):
        doubles = [jnp.asarray(np.asarray(each, np.float32), "float64") for each in arrays]
        found = gradients(reference(**rules, with_lse=True), loss, doubles)
        return [np.asarray(each) for each in found]


def attend(*arrays):
    return tesela.attention(*arrays, "causal", return_lse=True)


@pytest.mark.parametrize("name", CASES)
def test_z_loss(name):
    variant, parameters, rules = CASES[name]
    arrays = inputs(*SHAPE)
    actual = gradients(
        lambda *a: tesela.attention(*a, variant, return_lse=True, **parameters), z_loss, arrays
    )
    check(actual, exact(rules, z_loss, arrays))


@pytest.mark.parametrize("bshd", [False, True])
def test_only_the_logarithms(bshd):
    arrays = inputs(*SHAPE)

    def attend(*arrays):
        if not bshd:
            return tesela.attention(*arrays, "causal", return_lse=True)
        swapped = (jnp.swapaxes(each, 1, 2) for each in arrays)
        return tesela.attention(*swapped, "causal", return_lse=True, layout="bshd")

    for transform in (jax.jit, lambda f: f):
        actual = gradients(attend, of_lse, arrays, transform)
        check(actual, exact({"mask": causal}, of_lse, arrays))
        assert not actual[2].any()


def test_merged_parts_of_the_keys():
    """Ring attention on one device: each part of the keys by its own launch."""
    arrays = inputs(1, 4, 2, 70, 150, 32, 32)

    def merged(q, k, v):
        parts = [
            tesela.attention(q, k[:, :, low:high], v[:, :, low:high], return_lse=True)
            for low, high in ((0, 64), (64, 65), (65, 150))
        ]
        lse = jax.nn.logsumexp(jnp.stack([each for _, each in parts]), 0)
        return sum(o * jnp.exp(each - lse)[..., None] for o, each in parts), lse

    check(gradients(merged, z_loss, arrays, jax.jit), exact({}, z_loss, arrays))


def test_nothing_of_rows_without_keys():
    """A loss may give the logarithms a gradient of inf or NaN."""
    arrays = inputs(*SHAPE)
    text = "attention late() { mask = q >= 20 && q >= k }"
    (o, lse), pullback = jax.vjp(lambda *a: tesela.attention(*a, text, return_lse=True), *arrays)
    rows = jnp.arange(lse.shape[2]) < 20
    wanted = pullback((o, jnp.where(rows, 0, lse)))
    for value in (jnp.nan, -jnp.inf):
        for got, truth in zip(pullback((o, jnp.where(rows, value, lse))), wanted, strict=True):
            np.testing.assert_array_equal(got, truth)
    assert not wanted[0][:, :, :20].any()


def test_zeros_and_a_stopped_gradient_give_the_same_bits():
    arrays = inputs(*SHAPE)
    (o, lse), pullback = jax.vjp(attend, *arrays)
    without = jax.vjp(lambda *a: attend(*a)[0], *arrays)[1](o)
    stopped = jax.vjp(
        lambda *a: (lambda o, lse: o + jax.lax.stop_gradient(lse * 0)[..., None])(*attend(*a)),
        *arrays,
    )[1](o)
    for found in (pullback((o, jnp.zeros_like(lse))), stopped):
        for got, truth in zip(found, without, strict=True):
            np.testing.assert_array_equal(got, truth)


@pytest.mark.parametrize("loss", [z_loss, of_lse])
def test_vmap(loss):
    arrays = inputs(*SHAPE)
    batches = [jnp.stack([each, each[::-1]]) for each in arrays]

    def gradient(*arrays):
        return gradients(attend, loss, arrays)

    mapped = jax.jit(jax.vmap(gradient))(*batches)
    for index in range(2):
        alone = gradient(*(each[index] for each in batches))
        for got, truth in zip(mapped, alone, strict=True):
            np.testing.assert_allclose(got[index], truth, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("loss", [z_loss, of_lse])
@pytest.mark.parametrize("spec", [P("x"), P(None, "x")], ids=["batch", "heads"])
def test_divided_among_devices(spec, loss):
    arrays = inputs(2, 6, 2, 37, 53, 16, 24)
    wanted = gradients(attend, loss, arrays)
    place = jax.sharding.NamedSharding(mesh_of_two(), spec)
    placed = [jax.device_put(each, place) for each in arrays]
    sharded = jax.shard_map(
        attend, mesh=mesh_of_two(), in_specs=(spec,) * 3, out_specs=(spec, spec)
    )
    for function, given in ((attend, placed), (sharded, arrays)):
        actual = gradients(function, loss, given, jax.jit)
        for got, truth in zip(actual, wanted, strict=True):
            np.testing.assert_allclose(got, truth, rtol=1e-5, atol=1e-5)
