# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tesela.jax.attention on CUDA. Needs a GPU and JAX's plugin for it (pip install 'jax[cuda13]')."""

import re

import pytest
import tesela
from jax_support import jax, jnp, np, positions, reference
from tesela import _native


def gpus():
    try:
        return jax.devices("cuda")
    except RuntimeError as error:
        pytest.skip(f"JAX finds no CUDA device: {error}")


@pytest.fixture
def gpu():
    return gpus()[0]


def inputs(device, shape, dtype="bfloat16", seed=0):
    batch, heads, kv_heads, queries, keys, dim, dim_v = shape
    generator = np.random.default_rng(seed)
    shapes = (
        (batch, heads, queries, dim),
        (batch, kv_heads, keys, dim),
        (batch, kv_heads, keys, dim_v),
    )
    return [
        jax.device_put(jnp.asarray(generator.standard_normal(each), dtype), device)
        for each in shapes
    ]


def expected(q, k, v, mask=True, score=lambda s: s):
    arrays = (np.asarray(each).astype(np.float32) for each in (q, k, v))
    return reference.attention(*arrays, mask=lambda *_: mask, score=lambda s, *_: score(s))


def check(actual, wanted, device=None):
    o, lse = actual
    assert device is None or o.devices() == {device}
    reference.check(np.asarray(o), wanted[0])
    reference.check_lse(np.asarray(lse), wanted[1])


SHAPES = [
    (1, 1, 1, 1, 1, 64, 64),
    (2, 4, 2, 37, 53, 64, 64),
    (2, 8, 1, 300, 517, 128, 64),
    (1, 4, 4, 1, 1000, 128, 128),
    (1, 2, 2, 2100, 2100, 64, 64),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_causal(gpu, shape, dtype):
    q, k, v = inputs(gpu, shape, dtype)
    rows, columns = positions(shape[3], shape[4])
    call = jax.jit(lambda *a: tesela.attention(*a, "causal", return_lse=True))
    check(call(q, k, v), expected(q, k, v, rows >= columns), gpu)
    only = jax.jit(lambda *a: tesela.attention(*a, "causal"))(q, k, v)
    reference.check(np.asarray(only), expected(q, k, v, rows >= columns)[0])


def test_bshd(gpu):
    q, k, v = inputs(gpu, (2, 8, 2, 300, 517, 128, 64))
    swapped = [jnp.swapaxes(each, 1, 2) for each in (q, k, v)]
    o, lse = tesela.attention(*swapped, "causal", layout="bshd", return_lse=True)
    rows, columns = positions(300, 517)
    check((jnp.swapaxes(o, 1, 2), lse), expected(q, k, v, rows >= columns), gpu)


def test_documents_need_a_workspace(gpu):
    """A mask that reads a captured tensor. XLA allocates the memory for its summaries."""
    q, k, v = inputs(gpu, (2, 4, 2, 700, 700, 64, 64))
    text = "attention packed(id: i32[B, Sk]) { mask = id[b, q] == id[b, k] && q >= k }"
    call = jax.jit(lambda q, k, v, ids: tesela.attention(q, k, v, text, id=ids, return_lse=True))
    rows, columns = positions(700, 700)
    for seed in range(3):  # so that memory is reused
        ids = np.sort(np.random.default_rng(seed).integers(0, 5, (2, 700)), axis=1)
        same = ids[:, None, :, None] == ids[:, None, None, :]
        check(
            call(q, k, v, jnp.asarray(ids, jnp.int32)),
            expected(q, k, v, same & (rows >= columns)),
        )


def test_scalars_on_the_device(gpu):
    q, k, v = inputs(gpu, (2, 4, 2, 700, 700, 64, 64))
    text = """attention both(window: i32, cap: f32 = 5) {
      mask  = q >= k && q - k < window
      score = cap * tanh(s / cap)
    }"""
    call = jax.jit(
        lambda q, k, v, w, c: tesela.attention(q, k, v, text, window=w, cap=c, return_lse=True)
    )
    rows, columns = positions(700, 700)
    for window, cap in ((1, 2.0), (100, 3.0), (5000, 1.0)):
        mask = (rows >= columns) & (rows - columns < window)
        wanted = expected(q, k, v, mask, lambda s, cap=cap: cap * np.tanh(s / cap))
        check(call(q, k, v, window, cap), wanted)  # traced: the kernel reads the values
        check(tesela.attention(q, k, v, text, window=window, cap=cap, return_lse=True), wanted)
    assert call._cache_size() == 1


def test_bound_of_a_reduction_on_the_device(gpu):
    """The kernel reads the bound. Its value is the same for the whole launch."""
    keys = 517
    q, k, v = inputs(gpu, (1, 2, 2, 300, keys, 64, 64))
    text = "attention some(t: i32[N], most: i32) { mask = any(i < most: t[i] == k) }"
    numbers = np.array([3, 170, keys - 1, 40, 9], np.int32)
    call = jax.jit(lambda *a: tesela.attention(*a[:3], text, t=a[3], most=a[4], return_lse=True))
    for most in (-2, 0, 1, 3, 5, 9):
        kept = np.isin(np.arange(keys), numbers[: max(most, 0)])
        wanted = expected(q, k, v, kept)
        check(call(q, k, v, jnp.asarray(numbers), jnp.int32(most)), wanted, gpu)
        check(tesela.attention(q, k, v, text, t=numbers, most=most, return_lse=True), wanted, gpu)
    assert call._cache_size() == 1


def test_float32_is_refused(gpu):
    q, k, v = inputs(gpu, (1, 2, 2, 64, 64, 64, 64), "float32")
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"f32"):
        tesela.attention(q, k, v).block_until_ready()


def test_inside_a_program(gpu):
    """Operations of XLA before and after it on the stream, in a loop. XLA makes graphs of some."""
    q, k, v = inputs(gpu, (1, 4, 4, 256, 256, 64, 64))
    rows, columns = positions(256, 256)

    def step(carry, window):
        o, lse = tesela.attention(carry, k, v, "sliding_window", window=window, return_lse=True)
        return carry * 0.5, (o * 1, lse)

    _, (o, lse) = jax.jit(lambda q: jax.lax.scan(step, q, jnp.asarray([3, 30, 300])))(q)
    for index, window in enumerate((3, 30, 300)):
        mask = (rows >= columns) & (rows - columns < window)
        check((o[index], lse[index]), expected(q * 0.5**index, k, v, mask))


def test_vmap(gpu):
    q, k, v = inputs(gpu, (1, 4, 2, 300, 300, 64, 64))
    queries = jnp.stack([q, q * 0.5, q * 2])
    rows, columns = positions(300, 300)
    call = jax.jit(
        jax.vmap(
            lambda q, w: tesela.attention(q, k, v, "sliding_window", window=w, return_lse=True)
        )
    )
    o, lse = call(queries, jnp.asarray([5, 50, 500]))
    for index, window in enumerate((5, 50, 500)):
        mask = (rows >= columns) & (rows - columns < window)
        check((o[index], lse[index]), expected(queries[index], k, v, mask))


def test_host_and_device_in_one_process(gpu):
    host = jax.devices("cpu")[0]
    q, k, v = inputs(gpu, (1, 2, 2, 64, 64, 64, 64))
    on_host = [jax.device_put(each, host) for each in (q, k, v)]
    wanted = expected(q, k, v)
    check(tesela.attention(q, k, v, return_lse=True), wanted, gpu)
    check(tesela.attention(*on_host, return_lse=True), wanted, host)


def test_several_devices():
    devices = gpus()
    if len(devices) < 2:
        pytest.skip("there is one GPU, this needs two")
    mesh = jax.make_mesh(
        (2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,), devices=devices[:2]
    )
    q, k, v = inputs(devices[1], (2, 4, 2, 300, 300, 64, 64))
    rows, columns = positions(300, 300)
    wanted = expected(q, k, v, rows >= columns)
    check(tesela.attention(q, k, v, "causal", return_lse=True), wanted, devices[1])
    spec = jax.sharding.PartitionSpec("x")
    local = jax.shard_map(
        lambda *a: tesela.attention(*a, "causal", return_lse=True),
        mesh=mesh,
        in_specs=(spec,) * 3,
        out_specs=(spec, spec),
    )
    sharded = jax.device_put((q, k, v), jax.sharding.NamedSharding(mesh, spec))
    check(jax.jit(local)(*sharded), wanted)
    call = jax.jit(lambda *a: tesela.attention(*a, "causal", return_lse=True))
    assert not re.search(r"all-gather", call.lower(*sharded).compile().as_text())
    check(call(*sharded), wanted)

    weight = weight_of(q, v, "bfloat16")
    exact = exact_gradients((q, k, v), weight, rows >= columns)
    for function in (lambda *a: local(*a)[0], lambda *a: tesela.attention(*a, "causal")):
        check_gradients(gradients(function, sharded, weight), exact, "bfloat16")


def test_the_library_sees_the_gpu(gpu):
    assert _native.devices("cuda"), "JAX has a GPU, and Tesela finds none"


def gradients(function, arrays, weight):
    def loss(*arrays):
        return (function(*arrays).astype("float32") * weight).sum()

    return jax.jit(jax.grad(loss, (0, 1, 2)))(*arrays)


def exact_gradients(arrays, weight, mask, score=lambda s: s, weight_of_lse=0, kept=1):
    """dq, dk and dv in double precision. kept: the factors of dropout on the probabilities."""
    q, k, v, do = (np.asarray(each).astype(np.float64) for each in (*arrays, weight))
    shared = q.shape[1] // k.shape[1]
    k, v = (np.repeat(each, shared, axis=1) for each in (k, v))
    scale = q.shape[3] ** -0.5
    s = np.einsum("bhqd,bhkd->bhqk", q, k) * scale
    s = np.where(np.broadcast_to(mask, s.shape), score(s), -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = kept * np.einsum("bhqd,bhkd->bhqk", do, v)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True) + weight_of_lse) * scale
    dk, dv = np.einsum("bhqk,bhqd->bhkd", ds, q), np.einsum("bhqk,bhqd->bhkd", kept * p, do)
    halves = (each.reshape(each.shape[0], -1, shared, *each.shape[2:]).sum(2) for each in (dk, dv))
    return (np.einsum("bhqk,bhkd->bhqd", ds, k), *halves)


def check_gradients(actual, wanted, dtype):
    for name, got, truth in zip("qkv", actual, wanted, strict=True):
        assert got.dtype == dtype and got.shape == truth.shape
        error = np.abs(np.asarray(got).astype(np.float64) - truth).max()
        largest = error / max(np.abs(truth).max(), 0.5)  # a row with one key has dq = 0
        limit = {"float16": 4e-3, "bfloat16": 3e-2}[dtype]
        assert largest <= limit, f"the largest error of d{name} is {largest}"


def weight_of(q, v, dtype):
    numbers = np.random.default_rng(9).standard_normal((*q.shape[:3], v.shape[-1]))
    return jnp.asarray(jnp.asarray(numbers, dtype), "float32")


@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients(gpu, shape, dtype):
    arrays = inputs(gpu, shape, dtype)
    weight = weight_of(arrays[0], arrays[2], dtype)
    rows, columns = positions(shape[3], shape[4])
    actual = gradients(lambda *a: tesela.attention(*a, "causal"), arrays, weight)
    check_gradients(actual, exact_gradients(arrays, weight, rows >= columns), dtype)


@pytest.mark.parametrize("shape", SHAPES[1:4], ids=str)
def test_gradients_with_dropout(gpu, shape):
    arrays = inputs(gpu, shape)
    weight, key = weight_of(arrays[0], arrays[2], "bfloat16"), jax.random.key(3)
    words = np.asarray(jax.random.bits(key, (4,), jnp.uint32))
    batch, heads, _, queries, keys = shape[:5]
    kept = reference.dropout_weight(0.25, words, batch, heads, queries, keys)
    rows, columns = positions(queries, keys)
    key = jax.device_put(key, gpu)
    actual = gradients(
        lambda *a: tesela.attention(*a, "causal", dropout_p=0.25, seed=key), arrays, weight
    )
    check_gradients(actual, exact_gradients(arrays, weight, rows >= columns, kept=kept), "bfloat16")


@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
def test_gradients_by_the_logarithms(gpu, shape):
    arrays = inputs(gpu, shape, "bfloat16")
    weight = weight_of(arrays[0], arrays[2], "bfloat16")
    of_lse = jnp.asarray(np.random.default_rng(8).standard_normal((*weight.shape[:3],)), "float32")

    def loss(*arrays):
        o, lse = tesela.attention(*arrays, "causal", return_lse=True)
        return (o.astype("float32") * weight).sum() + (lse * of_lse).sum()

    actual = jax.jit(jax.grad(loss, (0, 1, 2)))(*arrays)
    rows, columns = positions(shape[3], shape[4])
    wanted = exact_gradients(
        arrays, weight, rows >= columns, weight_of_lse=np.asarray(of_lse, np.float64)[..., None]
    )
    check_gradients(actual, wanted, "bfloat16")


def test_gradients_with_values_on_the_device(gpu):
    """A captured tensor, and a scalar that the kernel reads from device memory."""
    arrays = inputs(gpu, (2, 4, 2, 300, 300, 64, 64))
    weight = weight_of(arrays[0], arrays[2], "bfloat16")
    text = """attention both(id: i32[B, Sk], window: i32) {
      mask = id[b, q] == id[b, k] && q >= k && q - k < window
    }"""
    ids = np.sort(np.random.default_rng(1).integers(0, 5, (2, 300)), axis=1)
    rows, columns = positions(300, 300)
    mask = (ids[:, None, :, None] == ids[:, None, None, :]) & (rows >= columns)
    call = jax.jit(
        lambda a, ids, w: gradients(
            lambda *a: tesela.attention(*a, text, id=ids, window=w), a, weight
        )
    )
    for window in (7, 200):
        kept = mask & (rows - columns < window)
        actual = call(arrays, jnp.asarray(ids, jnp.int32), window)
        check_gradients(actual, exact_gradients(arrays, weight, kept), "bfloat16")


def test_vmap_of_gradients(gpu):
    q, k, v = inputs(gpu, (2, 4, 2, 130, 200, 64, 64))
    weight = weight_of(q, v, "bfloat16")

    def loss(q, k, v):
        return (tesela.attention(q, k, v, "causal").astype("float32") * weight).sum()

    many = jnp.stack([q, 2 * q, -q])
    mapped = jax.jit(jax.vmap(jax.grad(loss, (0, 1, 2)), (0, None, None)))(many, k, v)
    rows, columns = positions(130, 200)
    for index in range(3):
        wanted = exact_gradients((many[index], k, v), weight, rows >= columns)
        check_gradients([each[index] for each in mapped], wanted, "bfloat16")


def test_a_hundred_launches_have_the_same_bits(gpu):
    arrays = inputs(gpu, (2, 8, 2, 1500, 1500, 128, 128))
    weight = weight_of(arrays[0], arrays[2], "bfloat16")
    call = jax.jit(lambda *a: gradients(lambda *a: tesela.attention(*a, "causal"), a, weight))
    first = [np.asarray(each) for each in call(*arrays)]
    for _ in range(100):
        for got, truth in zip(call(*arrays), first, strict=True):
            np.testing.assert_array_equal(np.asarray(got).view(np.uint16), truth.view(np.uint16))
