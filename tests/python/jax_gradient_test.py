# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of q, k and v by jax.grad, against jax.grad of plain jax.numpy in float64."""

import pytest
import tesela
import tesela.jax
from jax_support import inputs, jax, jnp, np

TOLERANCES = {"float32": 5e-5, "float16": 4e-3, "bfloat16": 3e-2}
SHAPE = (2, 6, 2, 37, 61, 64, 40)
EVERYTHING = (0, 1, 2)


def reference(mask=None, score=None, sink=None, with_lse=False):
    """A function of q, k, v: attention with jax.numpy. Rows without keys are 0.

    With `with_lse` also the logarithms, with 0 for rows without keys.
    """

    def attention(q, k, v):
        k, v = (jnp.repeat(each, q.shape[1] // k.shape[1], axis=1) for each in (k, v))
        s = jnp.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        b, h, i, j = np.ogrid[: s.shape[0], : s.shape[1], : s.shape[2], : s.shape[3]]
        if score is not None:
            s = score(s, b, h, i, j)
        kept = np.broadcast_to(True if mask is None else mask(b, h, i, j), s.shape)
        extra = -jnp.inf if sink is None else jnp.asarray(sink, s.dtype)[None, :, None, None]
        top = jnp.maximum(jnp.where(kept, s, -1e30).max(-1, keepdims=True), -1e29)
        p = jnp.where(kept, jnp.exp(jnp.where(kept, s - top, 0)), 0)
        total = p.sum(-1, keepdims=True) + jnp.exp(extra - top)
        total = jnp.where(total > 0, total, 1)
        o = jnp.einsum("bhqk,bhkd->bhqd", p / total, v)
        lse = jnp.where(top > -1e29, top + jnp.log(total), 0)[..., 0]
        return (o, lse) if with_lse else o

    return attention


def gradients(function, arrays, weight, transform=lambda function: function):
    def loss(*arrays):
        return (function(*arrays) * weight).sum()

    return transform(jax.grad(loss, EVERYTHING))(*arrays)


def exact(function, arrays, weight):
    with jax.enable_x64(True):
        doubles = [jnp.asarray(np.asarray(each, np.float32), "float64") for each in arrays]
        weight = jnp.asarray(np.asarray(weight, np.float32), "float64")
        return [np.asarray(each) for each in gradients(function, doubles, weight)]


def check(actual, wanted, dtype="float32"):
    for name, got, truth in zip("qkv", actual, wanted, strict=True):
        assert got.dtype == dtype and got.shape == truth.shape
        error = np.abs(np.asarray(got, np.float64) - np.asarray(truth, np.float64))
        largest = error.max(initial=0) / max(np.abs(truth).max(initial=0), 0.5)
        assert largest <= TOLERANCES[dtype], f"the largest error of d{name} is {largest}"


def weight_of(q, v, dtype="float32"):
    numbers = np.random.default_rng(9).standard_normal((*q.shape[:3], v.shape[-1]))
    return jnp.asarray(numbers, dtype)


def causal(b, h, q, k):
    return q >= k


SLOPE = np.float32([0.5, -0.25, 0.0, 0.125, 0.1, 0.3])
TABLE = np.random.default_rng(1).standard_normal((6, 33)).astype(np.float32)
IDS = np.stack([np.arange(61) // 9, np.arange(61) // 20]).astype(np.int32)
GATE = np.random.default_rng(2).standard_normal((2, 6, 61)).astype(np.float32)
SINK = "attention late(z: f32[H]) { mask = q >= 20 && q >= k\n sink = z[h] }"
CASES = {
    "full": ("full", {}, {}),
    "causal": ("causal", {}, {"mask": causal}),
    "sliding_window": (
        "sliding_window",
        {"window": 7},
        {"mask": lambda b, h, q, k: (q >= k) & (q - k < 7)},
    ),
    "documents": (
        "documents",
        {"id": IDS},
        {"mask": lambda b, h, q, k: IDS[b, q] == IDS[b, k]},
    ),
    "rows without keys": (
        "attention late() { mask = q >= 20 && q >= k }",
        {},
        {"mask": lambda b, h, q, k: (q >= 20) & (q >= k)},
    ),
    "alibi": (
        "alibi",
        {"slope": SLOPE},
        {"mask": causal, "score": lambda s, b, h, q, k: s + SLOPE[h] * (k - q)},
    ),
    "softcap": (
        "softcap",
        {"cap": 1.5},
        {"mask": causal, "score": lambda s, b, h, q, k: 1.5 * jnp.tanh(s / 1.5)},
    ),
    "relative_bias": (
        "relative_bias",
        {"table": TABLE},
        {"score": lambda s, b, h, q, k: s + TABLE[h, np.clip(k - q, -16, 16) + 16]},
    ),
    "prefix_lm": (
        "prefix_lm",
        {"prefix": np.int32([20, 1])},
        {"mask": lambda b, h, q, k: (k < np.int32([20, 1])[b]) | (q >= k)},
    ),
    "forgetting": (
        "forgetting",
        {"gate": GATE},
        {"mask": causal, "score": lambda s, b, h, q, k: s - GATE[b, h, k]},
    ),
    "a sink": (
        SINK,
        {"z": SLOPE * 4},
        {"mask": lambda b, h, q, k: (q >= 20) & (q >= k), "sink": SLOPE * 4},
    ),
    "a const": (
        "attention local(const reach: i32 = 4) { mask = abs(q - k) <= reach }",
        {"reach": 6},
        {"mask": lambda b, h, q, k: abs(q - k) <= 6},
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_variants(name, dtype):
    variant, parameters, rules = CASES[name]
    arrays = inputs(*SHAPE, dtype)
    weight = weight_of(arrays[0], arrays[2], dtype)
    actual = gradients(lambda *a: tesela.attention(*a, variant, **parameters), arrays, weight)
    check(actual, exact(reference(**rules), arrays, weight), dtype)


SHAPES = [
    (1, 1, 1, 1, 1, 8, 8),
    (3, 6, 1, 130, 65, 64, 64),
    (1, 2, 2, 1, 200, 128, 128),
    (1, 2, 1, 65, 129, 72, 256),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("bshd", [False, True])
def test_shapes(shape, dtype, bshd):
    arrays = inputs(*shape, dtype)
    weight = weight_of(arrays[0], arrays[2], dtype)

    def attend(*arrays):
        if not bshd:
            return tesela.attention(*arrays, "causal")
        swapped = (jnp.swapaxes(each, 1, 2) for each in arrays)
        return jnp.swapaxes(tesela.attention(*swapped, "causal", layout="bshd"), 1, 2)

    actual = gradients(attend, arrays, weight, jax.jit)
    check(actual, exact(reference(causal), arrays, weight), dtype)


def attend(q, k, v):
    return tesela.attention(q, k, v, "causal")


def test_transforms():
    arrays = inputs(*SHAPE)
    weight = weight_of(arrays[0], arrays[2])
    wanted = gradients(attend, arrays, weight)
    for function, transform in (
        (attend, jax.jit),
        (jax.jit(attend), lambda f: f),
        (jax.checkpoint(attend), jax.jit),
        (lambda *a: tesela.attention(*a, "causal", return_lse=True)[0], jax.jit),
    ):
        for got, truth in zip(gradients(function, arrays, weight, transform), wanted, strict=True):
            np.testing.assert_array_equal(got, truth)
    value, pullback = jax.vjp(attend, *arrays)
    np.testing.assert_array_equal(value, attend(*arrays))
    for got, truth in zip(pullback(weight), wanted, strict=True):
        np.testing.assert_array_equal(got, truth)


def test_without_batch_axis():
    q, k, v = (each[0] for each in inputs(*SHAPE))
    weight = weight_of(q[None], v)[0]
    batched = gradients(attend, (q[None], k[None], v[None]), weight[None])
    for got, truth in zip(gradients(attend, (q, k, v), weight), batched, strict=True):
        np.testing.assert_array_equal(got, truth[0])


def test_without_pairs():
    q, k, v = inputs(*SHAPE)
    dq, dk, dv = gradients(attend, (q, k[:, :, :0], v[:, :, :0]), weight_of(q, v))
    assert dq.shape == q.shape and not dq.any() and dk.size == dv.size == 0
    dq, dk, dv = gradients(attend, (q[:, :, :0], k, v), weight_of(q[:, :, :0], v))
    assert dq.size == 0 and not dk.any() and not dv.any() and dk.shape == k.shape


def test_finite_differences():
    from jax.test_util import check_grads

    arrays = inputs(1, 2, 1, 5, 6, 8, 8)
    for variant in ("causal", "softcap"):
        check_grads(
            lambda *a, variant=variant: tesela.attention(*a, variant),
            arrays,
            order=1,
            modes=["rev"],
            atol=1e-2,
            rtol=1e-2,
            eps=1e-2,
        )


def test_scan_over_windows():
    q, k, v = inputs(2, 4, 4, 37, 37, 16, 16)
    windows = jnp.asarray([2, 5, 11])

    def scanned(q):
        step = lambda x, w: (tesela.attention(x, k, v, "sliding_window", window=w), None)  # noqa: E731
        return jax.lax.scan(step, q, windows)[0].sum()

    def unrolled(q):
        for window in (2, 5, 11):
            q = tesela.attention(q, k, v, "sliding_window", window=window)
        return q.sum()

    np.testing.assert_allclose(jax.grad(scanned)(q), jax.grad(unrolled)(q), rtol=1e-6, atol=1e-6)


AXES = [(0, 0, 0), (0, None, None), (None, 0, 0), (None, None, 0), (1, None, 0)]


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("batch", [1, 2])
def test_vmap(axes, batch):
    """The gradient of a sum over a mapped axis, and the gradients of each of its elements."""
    q, k, v = inputs(batch, 6, 2, 37, 61, 16, 24)
    weight = weight_of(q, v)
    arrays = [
        each if axis is None else jnp.stack([each, each * 2, each[::-1]], axis)
        for each, axis in zip((q, k, v), axes, strict=True)
    ]

    def loss(q, k, v):
        return (attend(q, k, v) * weight).sum()

    def plain(q, k, v):
        return (reference(causal)(q, k, v) * weight).sum()

    for function in (
        lambda loss: jax.vmap(jax.grad(loss, EVERYTHING), axes)(*arrays),
        lambda loss: jax.grad(lambda *a: jax.vmap(loss, axes)(*a).sum(), EVERYTHING)(*arrays),
    ):
        for got, truth in zip(function(loss), function(plain), strict=True):
            np.testing.assert_allclose(got, truth, atol=2e-5 * np.abs(truth).max(), rtol=1e-4)


def test_vmap_over_captured_values():
    q, k, v = inputs(2, 6, 2, 61, 61, 16, 24)
    ids = jnp.stack([IDS, IDS[::-1], IDS // 2])

    def loss(q, ids):
        return (tesela.attention(q, k, v, "documents", id=ids) ** 2).sum()

    mapped = jax.vmap(jax.grad(loss), (None, 0))(q, ids)
    for index in range(3):
        np.testing.assert_allclose(
            mapped[index], jax.grad(loss)(q, ids[index]), rtol=1e-5, atol=1e-6
        )


def test_equal_bits():
    arrays = inputs(*SHAPE, "bfloat16")
    weight = weight_of(arrays[0], arrays[2], "bfloat16")
    call = jax.jit(lambda *a: gradients(attend, a, weight))
    first = call(*arrays)
    for _ in range(20):
        for got, truth in zip(call(*arrays), first, strict=True):
            np.testing.assert_array_equal(got, truth)


# Several devices

P = jax.sharding.PartitionSpec


def mesh_of_two():
    kind = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((2,), ("x",), axis_types=kind, devices=jax.devices("cpu")[:2])


@pytest.mark.parametrize("spec", [P("x"), P(None, "x")], ids=["batch", "heads"])
@pytest.mark.parametrize("kv_heads", [6, 2, 1])
def test_jit_divides(spec, kv_heads):
    arrays = inputs(2, 6, kv_heads, 37, 53, 16, 24)
    weight = weight_of(arrays[0], arrays[2])
    wanted = gradients(attend, arrays, weight)
    place = jax.sharding.NamedSharding(mesh_of_two(), spec)
    is_divided = kv_heads > 1 or spec == P("x")
    whole = jax.sharding.NamedSharding(mesh_of_two(), P())
    places = [place, *([place if is_divided else whole] * 2)]
    placed = [jax.device_put(each, at) for each, at in zip(arrays, places, strict=True)]
    call = jax.jit(lambda *a: gradients(attend, a, weight))
    actual = call(*placed)
    for got, truth in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(got, truth, rtol=1e-5, atol=1e-6)
    if is_divided:
        assert call.lower(*placed).compile().as_text().count("all-gather(") == 0
        assert all(each.sharding.is_equivalent_to(place, 4) for each in actual)


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("spec", [P("x"), P(None, "x")], ids=["batch", "heads"])
def test_shard_map(spec, check_vma):
    arrays = inputs(2, 6, 2, 37, 53, 16, 24)
    weight = weight_of(arrays[0], arrays[2])
    sharded = jax.shard_map(
        attend, mesh=mesh_of_two(), in_specs=(spec,) * 3, out_specs=spec, check_vma=check_vma
    )
    wanted = gradients(attend, arrays, weight)
    for transform in (jax.jit, lambda f: f):
        actual = gradients(sharded, arrays, weight, transform)
        for got, truth in zip(actual, wanted, strict=True):
            np.testing.assert_allclose(got, truth, rtol=1e-5, atol=1e-6)


def test_shard_map_sums_over_devices():
    """Keys that every device has whole: their gradient sums the parts of all devices."""
    q, k, v = inputs(2, 6, 2, 37, 53, 16, 24)
    k, v = k[:1], v[:1]
    weight = weight_of(q, v)

    def both(q, k, v):
        return attend(q, jnp.concatenate([k, k]), jnp.concatenate([v, v]))

    sharded = jax.shard_map(
        attend, mesh=mesh_of_two(), in_specs=(P("x"), P(), P()), out_specs=P("x")
    )
    wanted = gradients(both, (q, k, v), weight)
    for got, truth in zip(gradients(sharded, (q, k, v), weight, jax.jit), wanted, strict=True):
        np.testing.assert_allclose(got, truth, rtol=1e-5, atol=1e-5)


def test_explicit_mesh():
    arrays = inputs(2, 6, 2, 37, 53, 16, 24)
    weight = weight_of(arrays[0], arrays[2])
    wanted = gradients(attend, arrays, weight)
    kind = (jax.sharding.AxisType.Explicit,)
    mesh = jax.make_mesh((2,), ("x",), axis_types=kind, devices=jax.devices("cpu")[:2])
    for spec in (P("x"), P(None, "x")):
        place = jax.sharding.NamedSharding(mesh, spec)
        placed = [jax.device_put(each, place) for each in (*arrays, weight)]
        with jax.set_mesh(mesh):
            actual = jax.jit(lambda *a: gradients(attend, a[:3], a[3]))(*placed)
        for got, truth in zip(actual, wanted, strict=True):
            np.testing.assert_allclose(got, truth, rtol=1e-5, atol=1e-6)


# Refusals


def test_captured_values_are_refused():
    q, k, v = inputs(1, 6, 2, 33, 47, 16, 16)
    slope = jnp.asarray(SLOPE)

    def loss(q, slope):
        return tesela.attention(q, k, v, "alibi", slope=slope).sum()

    sentence = r"'slope', float32\[\d\], is differentiated.*jax\.lax\.stop_gradient"
    for function in (
        jax.grad(loss, 1),
        jax.grad(loss, (0, 1)),
        jax.jit(jax.grad(loss, 1)),
        jax.grad(jax.jit(loss), 1),
        jax.grad(lambda q, s: jax.vmap(loss, (None, 0))(q, s[None]).sum(), 1),
        lambda q, s: jax.vmap(jax.grad(loss, 1), (None, 0))(q, s[None]),
        jax.grad(
            lambda q, s: jax.lax.scan(lambda x, s: (x + loss(q, s), None), 0.0, s[None])[0], 1
        ),
    ):
        with pytest.raises(tesela.UnsupportedError, match=sentence):
            function(q, slope)
    cap = jnp.float32(2)
    with pytest.raises(tesela.UnsupportedError, match=r"'cap', float32\[\], is differentiated"):
        jax.grad(lambda cap: tesela.attention(q, k, v, "softcap", cap=cap).sum())(cap)
    with pytest.raises(
        tesela.UnsupportedError, match=r"float32\[6\].*where a function captures it"
    ):
        jax.grad(lambda b: tesela.attention(q, k, v, lambda s, h, k: s + b[h] * k).sum())(slope)
    stopped = jax.grad(lambda q, s: loss(q, jax.lax.stop_gradient(s)), (0, 1))(q, slope)
    np.testing.assert_array_equal(stopped[0], jax.grad(loss)(q, slope))
    assert not stopped[1].any()


def test_second_gradients_are_refused():
    q, k, v = inputs(1, 6, 2, 33, 47, 16, 16)

    def loss(q):
        return (tesela.attention(q, k, v, "causal") ** 2).sum()

    for function in (jax.grad(lambda q: jax.grad(loss)(q).sum()), jax.hessian(loss)):
        with pytest.raises(tesela.UnsupportedError, match="no gradients of their own"):
            function(q)


def test_wide_heads_are_refused_while_tracing():
    q, k, v = inputs(1, 2, 2, 8, 8, 264, 264)
    with pytest.raises(tesela.UnsupportedError, match=r"is 264, .* up to 256 with gradients"):
        jax.jit(jax.grad(lambda q: tesela.attention(q, k, v).sum())).lower(q)


def test_forward_mode_is_refused():
    q, k, v = inputs(1, 6, 2, 33, 47, 16, 16)
    with pytest.raises(TypeError, match="forward-mode"):  # JAX's own message
        jax.jvp(lambda q: tesela.attention(q, k, v), (q,), (q,))
