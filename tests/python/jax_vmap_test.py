# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""jax.vmap over tesela.attention: one launch for all batches."""

import pytest
import reference
import tesela
from jax_support import check, expected, inputs, jax, jnp, np, positions
from tesela.jax._rewrite import with_batch_axis, with_captured_scalars, with_named_axes

BATCHES = 3


def stacked(array):
    return jnp.stack([array * (1 + 0.25 * index) for index in range(BATCHES)])


def launches(function, *arguments):
    return str(jax.make_jaxpr(function)(*arguments)).count("ffi_call[")


@pytest.mark.parametrize(
    "mapped", [(0, 0, 0), (0, None, None), (None, 0, 0), (0, 0, None)], ids=str
)
@pytest.mark.parametrize("batch", [1, 2])
def test_inputs(mapped, batch):
    single = inputs(batch, 4, 2, 37, 53, 16, 24)
    arrays = [a if axis is None else stacked(a) for a, axis in zip(single, mapped, strict=True)]
    call = jax.vmap(lambda *a: tesela.attention(*a, "causal", return_lse=True), in_axes=mapped)
    assert launches(call, *arrays) == 1
    o, lse = jax.jit(call)(*arrays)
    rows, columns = positions(37, 53)
    for index in range(BATCHES):
        each = (a if axis is None else a[index] for a, axis in zip(arrays, mapped, strict=True))
        check((o[index], lse[index]), expected(*each, rows >= columns))


def test_axes_that_are_not_the_first():
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    call = jax.vmap(
        lambda *a: tesela.attention(*a, "causal", return_lse=True), in_axes=(2, None, 4), out_axes=1
    )
    o, lse = call(jnp.moveaxis(stacked(q), 0, 2), k, jnp.moveaxis(stacked(v), 0, 4))
    rows, columns = positions(37, 53)
    for index in range(BATCHES):
        wanted = expected(stacked(q)[index], k, stacked(v)[index], rows >= columns)
        check((o[:, index], lse[:, index]), wanted)


def test_sequences_without_a_batch_axis():
    q, k, v = inputs(3, 4, 2, 37, 53, 16, 24, bshd=True)
    call = jax.vmap(
        lambda *a: tesela.attention(*a, "causal", return_lse=True, layout="bshd", scale=0.5)
    )
    o, lse = call(q, k, v)
    rows, columns = positions(37, 53)
    swapped = (jnp.swapaxes(each, 1, 2) for each in (q, k, v))
    wanted = expected(*swapped, rows >= columns, scale=0.5)
    check((jnp.swapaxes(o, 1, 2), lse), wanted)


def test_captured_tensor_without_a_batch_axis():
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    slopes = jnp.asarray([[0.5, -0.25, 0.0, 1.0], [0.1, 0.2, 0.3, 0.4], [-1.0, 0.0, 1.0, 2.0]])
    rows, columns = positions(37, 53)
    call = jax.vmap(lambda slope: tesela.attention(q, k, v, "alibi", slope=slope, return_lse=True))
    assert launches(call, slopes) == 1
    o, lse = call(slopes)
    for index, slope in enumerate(np.asarray(slopes)):
        bias = slope[None, :, None, None] * (columns - rows)
        check(
            (o[index], lse[index]),
            expected(q, k, v, rows >= columns, lambda s, bias=bias: s + bias),
        )


@pytest.mark.parametrize("is_mapped", [True, False])
def test_captured_tensor_with_a_batch_axis(is_mapped):
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    documents = jnp.asarray(np.random.default_rng(1).integers(0, 3, (BATCHES, 2, 53)), jnp.int32)
    given = documents if is_mapped else documents[0]
    name = tesela.variant("documents").parameters[0].name
    call = jax.vmap(
        lambda q, document: tesela.attention(
            q, k, v, tesela.variant("documents", **{name: document}), return_lse=True
        ),
        in_axes=(0, 0 if is_mapped else None),
    )
    o, lse = call(stacked(q), given)
    for index in range(BATCHES):
        document = np.asarray(given[index] if is_mapped else given)[:, None]
        mask = document[:, :, :37, None] == document[:, :, None, :]
        check((o[index], lse[index]), expected(stacked(q)[index], k, v, mask))


def test_scalars():
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    rows, columns = positions(37, 53)
    call = jax.jit(
        jax.vmap(lambda w: tesela.attention(q, k, v, "sliding_window", window=w, return_lse=True))
    )
    o, lse = call(jnp.asarray([2, 7, 50]))
    for index, window in enumerate((2, 7, 50)):
        mask = (rows >= columns) & (rows - columns < window)
        check((o[index], lse[index]), expected(q, k, v, mask))


def test_nested():
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    rows, columns = positions(37, 53)
    windows, caps = jnp.asarray([3, 9]), jnp.asarray([1.0, 2.0, 4.0])
    text = """attention both(window: i32 = 4, cap: f32) {
      // a window and a cap
      score = cap * tanh(s / cap)
      mask  = q >= k && q - k < window
    }"""

    def call(window, cap):
        return tesela.attention(q, k, v, text, window=window, cap=cap, return_lse=True)

    grid = jax.vmap(jax.vmap(call, in_axes=(None, 0)), in_axes=(0, None))
    assert launches(grid, windows, caps) == 1
    o, lse = jax.jit(grid)(windows, caps)
    for i, window in enumerate((3, 9)):
        for j, cap in enumerate((1.0, 2.0, 4.0)):
            mask = (rows >= columns) & (rows - columns < window)
            wanted = expected(q, k, v, mask, lambda s, cap=cap: cap * np.tanh(s / cap))
            check((o[i, j], lse[i, j]), wanted)


@pytest.mark.parametrize(
    "body", ["score = s + b", "mask = q >= b", "mask = k < Sk - B", "mask = t[k, b] > 0"]
)
def test_other_uses_of_the_batch_are_refused(body):
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    text = f"attention special(t: i32[Sk, B]) {{ {body} }}"
    tensor = jnp.ones((53, 2), jnp.int32)
    tesela.attention(q, k, v, text, t=tensor)
    with pytest.raises(tesela.UnsupportedError, match=r"'special' cannot be mapped by jax.vmap"):
        jax.vmap(lambda q: tesela.attention(q, k, v, text, t=tensor))(stacked(q))


def test_axes_that_the_text_does_not_name():
    """As in texts of functions: t[b, k] of a tensor whose shape binds its extents."""
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    text = "attention own(t: i32[N, M]) { mask = t[b, q] == t[b, k] }"
    documents = jnp.asarray(np.random.default_rng(1).integers(0, 3, (BATCHES, 2, 53)), jnp.int32)
    o, lse = jax.vmap(lambda t: tesela.attention(q, k, v, text, t=t, return_lse=True))(documents)
    for index in range(BATCHES):
        document = np.asarray(documents[index])[:, None]
        mask = document[:, :, :37, None] == document[:, :, None, :]
        check((o[index], lse[index]), expected(q, k, v, mask))
    shapes = (("t", (2, 53)),)
    assert with_named_axes(text, shapes, 2, 4, 2) == text.replace("N", "B")
    assert with_named_axes(text, shapes, 3, 2, 2) == text
    per_head = "attention own(t: i32[N, M]) { score = s + t[hkv, h] }"
    assert with_named_axes(per_head, (("t", (2, 4)),), 2, 4, 2) == per_head.replace(
        "[N, M]", "[Hkv, H]"
    )


def test_texts():
    text = """// window and w
attention window(window : i32 = 4, t: f32[ H ], w: bool[B,Sk]) {
  let windows = window + 1 // window
  mask = q - k < windows && w [b, k]
  score = s * t[h] + window
}
"""
    assert with_batch_axis(text, ("window", "t", "w")) == (
        """// window and w
attention window(window : i32[B]  , t: f32[B,  H ], w: bool[B,Sk]) {
  let windows = window[b] + 1 // window
  mask = q - k < windows && w [b, k]
  score = s * t[b, h] + window[b]
}
"""
    )
    assert "let windows = window[0] + 1" in with_captured_scalars(text, ("window",))
    assert "window : i32[1]" in with_captured_scalars(text, ("window",))


@pytest.mark.parametrize("name", tesela.library())
def test_every_variant_of_the_library_has_a_text_for_captured_scalars(name):
    """The captured tensors that replace scalars on CUDA when their values are on the device."""
    variant = tesela.variant(name)
    names = tuple(
        each.name for each in variant.parameters if each.shape is None and not each.constant
    )
    lifted = tesela.variant(with_captured_scalars(variant.text, names))
    assert [each.shape for each in lifted.parameters if each.name in names] == [("1",)] * len(names)


def test_captured_scalars_are_the_same_function():
    q, k, v = (np.asarray(each) for each in inputs(2, 4, 2, 37, 53, 16, 24))
    text = tesela.variant("sliding_window").text
    lifted = with_captured_scalars(text, ("window",))
    scalar = tesela.attention(q, k, v, text, window=7)
    captured = tesela.attention(q, k, v, lifted, window=np.asarray([7], np.int32))
    np.testing.assert_array_equal(scalar, captured)


@pytest.mark.parametrize("most", [-2, 0, 1, 3, 5, 9])
def test_a_captured_bound_of_a_reduction(most):
    q, k, v = (np.asarray(each) for each in inputs(2, 4, 2, 37, 153, 16, 24))
    text = "attention some(t: i32[N], most: i32) { mask = any(i < most: t[i] == k) }"
    lifted = with_captured_scalars(text, ("most",))
    t = np.array([3, 70, 152, 40, 9], np.int32)
    bound = np.asarray([most], np.int32)
    o, lse = tesela.attention(q, k, v, lifted, t=t, most=bound, return_lse=True)
    wanted = expected(q, k, v, np.isin(np.arange(153), t[: max(most, 0)]))
    reference.check(o, wanted[0])
    reference.check_lse(lse, wanted[1])


def test_a_bound_of_a_reduction_is_not_mapped():
    """The value would differ within one launch."""
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    text = "attention some(t: i32[N], most: i32) { mask = any(i < most: t[i] == k) }"
    t = jnp.arange(4, dtype=jnp.int32)
    with pytest.raises(tesela.InvalidVariantError, match="same for the whole launch"):
        jax.vmap(lambda most: tesela.attention(q, k, v, text, t=t, most=most))(jnp.asarray([1, 2]))
