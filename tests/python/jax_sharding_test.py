# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tesela.attention on two devices: jax.shard_map, and arrays that jax.jit finds sharded."""

import contextlib

import pytest
import tesela
from jax_support import check, expected, inputs, jax, jnp, np, positions
from tesela.jax._rewrite import is_only_index

P = jax.sharding.PartitionSpec


@pytest.fixture
def mesh():
    if len(jax.devices("cpu")) < 4:
        pytest.fail("JAX was started with fewer devices before these tests were loaded")
    return jax.make_mesh(
        (2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices("cpu")[:2]
    )


def alibi(q, k, v, slope):
    return tesela.attention(q, k, v, "alibi", slope=slope, return_lse=True)


@pytest.fixture
def case():
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    slope = jnp.asarray([0.5, -0.25, 0.0, 1.0])
    rows, columns = positions(37, 53)
    bias = np.asarray(slope)[None, :, None, None] * (columns - rows)
    return (q, k, v, slope), expected(q, k, v, rows >= columns, lambda s: s + bias)


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("axis", ["batch", "heads"])
@pytest.mark.parametrize("jit", [True, False], ids=["jit", "eager"])
def test_shard_map(mesh, case, axis, check_vma, jit):
    arguments, wanted = case
    spec, of_slope = (P("x"), P()) if axis == "batch" else (P(None, "x"), P("x"))
    call = jax.shard_map(
        alibi,
        mesh=mesh,
        in_specs=(spec, spec, spec, of_slope),
        out_specs=(spec, spec),
        check_vma=check_vma,
    )
    actual = (jax.jit(call) if jit else call)(*arguments)
    assert len(actual[0].sharding.device_set) == 2
    check(actual, wanted)


def test_results_vary_where_an_input_does(mesh):
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)

    def summed(q, k, v):
        return jax.lax.psum(tesela.attention(q, k, v, "causal"), "x")

    call = jax.shard_map(summed, mesh=mesh, in_specs=(P("x"), P(), P()), out_specs=P())
    rows, columns = positions(37, 53)
    total = expected(q, np.stack([k[0]] * 2), np.stack([v[0]] * 2), rows >= columns)[0].sum(0)
    np.testing.assert_allclose(call(q, k[:1], v[:1])[0], total, atol=1e-5)
    varying = jax.shard_map(
        lambda q, k, v: tesela.attention(q, k, v),
        mesh=mesh,
        in_specs=(P("x"), P(), P()),
        out_specs=P(),
    )
    with pytest.raises(ValueError, match="x"):
        varying(q, k[:1], v[:1])


def test_vmap_inside_shard_map(mesh):
    q, k, v = inputs(4, 4, 2, 37, 53, 16, 24)
    rows, columns = positions(37, 53)

    def each(q, k, v):
        return jax.vmap(lambda *a: tesela.attention(*a, "causal", return_lse=True))(q, k, v)

    spec = P("x")
    call = jax.shard_map(each, mesh=mesh, in_specs=(spec,) * 3, out_specs=(spec, spec))
    check(jax.jit(call)(q, k, v), expected(q, k, v, rows >= columns))


def gathers(call, *arguments):
    return jax.jit(call).lower(*arguments).compile().as_text().count("all-gather(")


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("axis", ["batch", "heads"])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_jit_divides(mesh, axis, layout, kv_heads):
    """Each device gets its batches or heads, also of captured tensors, and nothing is gathered."""
    q, k, v = inputs(2, 4, kv_heads, 37, 53, 16, 24, bshd=layout == "bshd")
    slope = jnp.asarray(np.random.default_rng(2).standard_normal((2, 4)), jnp.float32)
    cap = jnp.float32(2.0)  # every device has the whole scalar
    text = """attention tilted(slope: f32[B, H], first: i32[N], cap: f32) {
      mask  = k >= first[hkv]
      score = cap * tanh((s + slope[b, h] * (k - q)) / cap)
    }"""
    first = jnp.asarray([3, 9, 1, 0][:kv_heads], jnp.int32)

    def call(q, k, v, slope, first):
        return tesela.attention(
            q, k, v, text, layout=layout, slope=slope, first=first, cap=cap, return_lse=True
        )

    of_heads = P(None, None, "x") if layout == "bshd" else P(None, "x")
    spec = P("x") if axis == "batch" else of_heads
    place = jax.sharding.NamedSharding(mesh, spec)
    of_keys = jax.sharding.NamedSharding(mesh, P() if kv_heads == 1 and axis == "heads" else spec)
    arguments = [jax.device_put(each, of_keys) for each in (q, k, v)] + [slope, first]
    arguments[0] = jax.device_put(q, place)
    assert gathers(call, *arguments) == 0
    o, lse = jax.jit(call)(*arguments)
    assert o.sharding.is_equivalent_to(place, 4)
    rows, columns = positions(37, 53)
    bias = np.asarray(slope)[:, :, None, None] * (columns - rows)
    of_head = np.repeat(np.asarray(first), 4 // kv_heads)
    mask = columns >= of_head[None, :, None, None]
    if layout == "bshd":
        q, k, v, o = (jnp.swapaxes(each, 1, 2) for each in (q, k, v, o))
    check((o, lse), expected(q, k, v, mask, lambda s: 2 * np.tanh((s + bias) / 2)))


@pytest.mark.parametrize(
    "case",
    [
        ("score = s + b + h", P("x"), 2),  # a part of the batch would begin at another b
        ("score = s + h", P(None, "x"), 2),
        ("score = s", P(None, ("x", "y")), 2),  # half a group of heads on each device
        ("score = s", P(None, None, "x"), 2),
        ("score = s", P(None, None, None, "x"), 2),
    ],
    ids=str,
)
def test_jit_gathers_what_cannot_be_divided(case):
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    body, spec, kv_heads = case
    q, k, v = inputs(2, 4, kv_heads, 36, 52, 16, 24)
    text = f"attention counted() {{ {body} }}"
    place = jax.sharding.NamedSharding(mesh, spec)
    sharded = jax.device_put(q, place)
    actual = jax.jit(lambda *a: tesela.attention(*a, text, return_lse=True))(sharded, k, v)
    batches, heads = np.ogrid[:2, :4]
    offset = (batches * ("b" in body) + heads * ("h" in body))[:, :, None, None]
    check(actual, expected(q, k, v, score=lambda s: s + offset))


def test_one_batch_of_keys_for_all(mesh):
    q, k, v = inputs(1, 4, 2, 37, 53, 16, 24)
    queries = jax.device_put(
        jnp.stack([q, 2 * q, 3 * q, 4 * q]), jax.sharding.NamedSharding(mesh, P("x"))
    )

    def call(queries, k, v):
        return jax.vmap(lambda q: tesela.attention(q, k, v, "causal", return_lse=True))(queries)

    assert gathers(call, queries, k, v) == 0
    o, lse = jax.jit(call)(queries, k, v)
    rows, columns = positions(37, 53)
    for index in range(4):
        check((o[index], lse[index]), expected((index + 1) * q, k, v, rows >= columns))


@pytest.mark.parametrize("in_context", [True, False])
@pytest.mark.parametrize("axis", ["batch", "heads"])
@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_kinds_of_meshes(case, kind, axis, in_context):
    mesh = jax.make_mesh(
        (2,),
        ("x",),
        axis_types=(jax.sharding.AxisType[kind],),
        devices=jax.devices("cpu")[:2],
    )
    (q, k, v, slope), wanted = case
    spec = P("x") if axis == "batch" else P(None, "x")
    place = jax.sharding.NamedSharding(mesh, spec)
    arguments = [jax.device_put(each, place) for each in (q, k, v)]
    arguments.append(jax.device_put(slope, jax.sharding.NamedSharding(mesh, P())))
    with jax.set_mesh(mesh) if in_context else contextlib.nullcontext():
        assert gathers(alibi, *arguments) == 0
        both = [jax.jit(alibi)(*arguments), alibi(*arguments)]
    for o, lse in both:
        assert o.sharding.is_equivalent_to(place, 4)
        assert lse.sharding.is_equivalent_to(place, 3)
        check((o, lse), wanted)


def test_which_variants_can_be_divided():
    text = """attention some(t: f32[B, H], u: i32[Hkv, Sk], w: i32[N]) {
      // b and h in a comment
      mask  = u[hkv, max(k, w[u[hkv, q]])] > 0
      score = s + t[b, h]
    }"""
    assert is_only_index(text, "b", "B")
    assert is_only_index(text, "h", "H")
    assert is_only_index(text, "hkv", "Hkv")
    for body in ("s + t[b, h + 0]", "s + t[h, b]", "s + w[h]", "s + H", "s + t[b, w[h]]", "h"):
        assert not is_only_index(text.replace("s + t[b, h]", body), "h", "H"), body
    assert not is_only_index("attention some(t: i32[2*H]) { mask = t[k] > 0 }", "h", "H")
