# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of q, k and v by PyTorch's autograd, against float64 autograd of plain PyTorch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import tesela  # noqa: E402
import tesela.torch  # noqa: E402
from gradient_variants import CASES, Case, reference_gradients  # noqa: E402
from tesela._contexts import HOST, context  # noqa: E402
from tesela.torch._launch_backward import gradient_algorithm  # noqa: E402
from tesela.torch._operator import ATTENTION  # noqa: E402
from tesela.torch._request import Request, to_operator  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_gradient_tools import Gradients, check, gradients, leaves  # noqa: E402
from torch_tools import Watch, inputs, random  # noqa: E402


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_variants(case: Case, dtype: torch.dtype) -> None:
    q, k, v = inputs(**case.sizes, dtype=dtype)
    parameters = case.parameters()
    grad = random(*q.shape[:3], v.shape[3], seed=4, dtype=dtype)
    actual = gradients(
        lambda q, k, v: tesela.attention(q, k, v, case.variant, **parameters), (q, k, v), grad
    )
    check(actual, Gradients(*reference_gradients(q, k, v, grad, case, parameters)), dtype)


def test_gradients_of_overlapping_keys_have_their_columns_last() -> None:
    q = random(2, 3, 40, 64, seed=1, dtype=torch.float32)
    rows = random(2, 3, 103, seed=2, dtype=torch.float32).requires_grad_()
    k = rows.unfold(2, 64, 1)
    results = [
        torch.autograd.grad((tesela.attention(q, each, q, "full") * q).sum(), rows)[0]
        for each in (k, k.contiguous())
    ]
    torch.testing.assert_close(*results)


def test_an_operator_under_functionalization_goes_through_the_dispatcher() -> None:
    q, k, v = inputs()
    wanted = tesela.attention(q, k, v, "causal")
    given = to_operator(Request(tesela.variant("causal"), {}, None, False))
    with torch.no_grad():
        turned = [torch._to_functional_tensor(each) for each in (q, k, v)]
        torch._enable_functionalization(reapply_views=True)
        try:
            out, _ = ATTENTION(*turned, *given, False)
        finally:
            torch._disable_functionalization()
    assert torch.equal(torch._from_functional_tensor(out), wanted)


def test_a_masked_pair_adds_nothing_though_its_derivative_is_infinite() -> None:
    q, k, v = inputs(queries=70, keys=70, dtype=torch.float32)
    text = "attention far() { mask = q > k\n score = s / (q - k) }"
    actual = gradients(lambda *given: tesela.attention(*given, text), (q, k, v), torch.ones_like(q))
    assert all(bool(torch.isfinite(each).all()) for each in actual)


FULL, CAUSAL = CASES[0], CASES[1]
SIZES = [
    {"queries": 1, "keys": 1},
    {"queries": 300, "keys": 1, "kv_heads": 6},
    {"queries": 1, "keys": 300, "kv_heads": 1},
    {"queries": 129, "keys": 257, "head_dim": 72, "head_dim_v": 40},
    {"queries": 65, "keys": 64, "head_dim": 128, "head_dim_v": 256, "batch": 1},
    {"queries": 64, "keys": 63, "head_dim": 256, "head_dim_v": 8, "batch": 1, "heads": 2},
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_sizes(sizes: dict[str, int], dtype: torch.dtype, layout: Any) -> None:
    q, k, v = inputs(**sizes, dtype=dtype)
    grad = random(*q.shape[:3], v.shape[3], seed=4, dtype=dtype)
    wanted = Gradients(*reference_gradients(q, k, v, grad, CAUSAL, {}, scale=0.3))

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if layout == "bhsd":
            return tesela.attention(q, k, v, "causal", scale=0.3)
        swapped = (each.transpose(1, 2).contiguous() for each in (q, k, v))
        return tesela.attention(*swapped, "causal", scale=0.3, layout=layout).transpose(1, 2)

    check(gradients(attend, (q, k, v), grad), wanted, dtype)


def test_prepared() -> None:
    """The backward pass finds the prepared kernel, and compiles nothing."""
    text = "attention prepared(w: i32 = 5) { mask = q - k < w }"
    tesela.prepare(
        [text], dtype=torch.float32, head_dim=64, length=61, device="host", gradients=True
    ).wait()
    before = context(HOST).compile_count
    q, k, v = leaves(*inputs(queries=61))
    torch.autograd.grad(tesela.attention(q, k, v, text).sum(), (q, k, v))
    assert context(HOST).compile_count == before


def test_without_pairs() -> None:
    q, k, v = inputs(keys=0)
    dq, dk, dv = gradients(lambda *a: tesela.attention(*a), (q, k, v), torch.ones_like(q))
    assert (dq == 0).all()
    assert dk.shape == k.shape and dv.shape == v.shape
    q, k, v = inputs(queries=0)
    dq, dk, dv = gradients(lambda *a: tesela.attention(*a), (q, k, v), torch.ones_like(q))
    assert (dk == 0).all() and (dv == 0).all()


def test_gradients_keep_the_order_in_memory() -> None:
    q, k, v = leaves(*(each.transpose(1, 2).contiguous().transpose(1, 2) for each in inputs()))
    found = torch.autograd.grad(tesela.attention(q, k, v).sum(), (q, k, v))
    assert all(each.transpose(1, 2).is_contiguous() for each in found)


GRADIENTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda grad: grad.transpose(1, 2).contiguous().transpose(1, 2),
    "columns first": lambda grad: grad.mT.contiguous().mT,
    "every other row": lambda grad: grad.repeat_interleave(2, 2)[:, :, ::2],
    "padded": lambda grad: torch.nn.functional.pad(grad, (3, 5))[..., 3:-5],
    "expanded heads": lambda grad: grad[:, :1].expand_as(grad),
    "expanded rows": lambda grad: grad[:, :, :1].expand_as(grad),
    "one number": lambda grad: grad[:1, :1, :1, :1].expand_as(grad),
    "negated": torch._neg_view,
}


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_strides_of_the_gradient(name: str, dtype: torch.dtype) -> None:
    q, k, v = inputs(dtype=dtype)
    grad = GRADIENTS[name](random(*q.shape, seed=4, dtype=dtype))
    wanted = gradients(lambda *a: tesela.attention(*a, "causal"), (q, k, v), grad.contiguous())
    actual = gradients(lambda *a: tesela.attention(*a, "causal"), (q, k, v), grad)
    assert all(map(torch.equal, actual, wanted))


def test_views_and_expanded_heads() -> None:
    q, k, v = inputs(kv_heads=1)
    grad = random(*q.shape, seed=4, dtype=q.dtype)
    wanted = Gradients(*reference_gradients(q, k, v, grad, CAUSAL, {}))

    def expanded(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        wide = torch.cat([q, q], -1)[..., 64:]
        return tesela.attention(wide, k.expand(2, 6, 61, 64), v.expand(2, 6, 61, 64), "causal")

    check(gradients(expanded, (q, k, v), grad), wanted, q.dtype)


@pytest.mark.parametrize("needed", ["q", "k", "v", "qv"])
def test_only_what_is_asked_for(needed: str) -> None:
    dense = inputs()
    everything = gradients(tesela.attention, dense, torch.ones_like(dense[0]))
    given = [
        each.clone().requires_grad_(name in needed) for name, each in zip("qkv", dense, strict=True)
    ]
    tesela.attention(*given).sum().backward()
    for name, each, wanted in zip("qkv", given, everything, strict=True):
        assert (each.grad is not None) == (name in needed)
        assert each.grad is None or torch.equal(each.grad, wanted)


def test_what_is_kept() -> None:
    """With gradients, two more tensors are kept besides q, k and v; without, none."""
    q, k, v = inputs()
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        tesela.attention(q, k, v)
        assert not kept
        out = tesela.attention(q.requires_grad_(), k, v)
    assert out.requires_grad
    assert [tuple(each.shape) for each in kept] == [
        *(tuple(each.shape) for each in (q, k, v, out)),
        (2, 6, 37),
    ]
    with torch.no_grad():
        assert not tesela.attention(q, k, v).requires_grad
    with torch.inference_mode():
        tesela.attention(q, k, v)


def test_changed_inputs_are_noticed() -> None:
    q, k, v = leaves(*inputs())
    work = k * 1
    out = tesela.attention(q, work, v)
    work.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_equal_bits() -> None:
    case = next(each for each in CASES if each.name == "documents_causal")
    q, k, v = inputs(**case.sizes, dtype=torch.bfloat16)
    grad = random(*q.shape, seed=4, dtype=q.dtype)
    parameters = case.parameters()

    def once() -> Gradients:
        return gradients(
            lambda *a: tesela.attention(*a, case.variant, **parameters), (q, k, v), grad
        )

    first = once()
    for _ in range(20):
        assert all(map(torch.equal, once(), first))


def test_gradcheck() -> None:
    """Against finite differences in float32."""
    dense = leaves(*inputs(1, 2, 1, 5, 6, head_dim=8))
    for variant in ("causal", "softcap"):
        assert torch.autograd.gradcheck(
            lambda *a, variant=variant: tesela.attention(*a, variant),
            dense,
            eps=1e-2,
            atol=1e-2,
            rtol=1e-2,
        )


def _value(parameter: Any, extents: dict[str, int]) -> Any:
    """A value for a parameter of a library variant: a small number, or a random tensor."""
    if parameter.shape is None:
        return min(parameter.default, 5)
    shape = [extents.get(name, 40) for name in parameter.shape]
    generator = torch.Generator().manual_seed(len(parameter.name))
    if parameter.type == "bool":
        return torch.rand(shape, generator=generator) > 0.4
    if parameter.type == "i32":
        return torch.randint(0, 6, shape, generator=generator, dtype=torch.int32)
    numbers = torch.rand(shape, generator=generator)
    return numbers.bfloat16() if parameter.type == "bf16" else numbers


@pytest.mark.parametrize("name", tesela.library())
def test_finite_differences_of_the_library(name: str) -> None:
    """Along one direction in q, k and v together, so that an error in any block is seen."""
    batch, heads, length, step = 2, 4, 70, 1e-2
    dense = [each.double() for each in inputs(batch, heads, 2, length, length, head_dim=16)]
    extents = {"B": batch, "H": heads, "Sq": length, "Sk": length}
    parameters = tesela.variant(name).parameters
    variant = tesela.variant(name).bind(**{p.name: _value(p, extents) for p in parameters})
    grad = random(batch, heads, length, 16, seed=4, dtype=torch.float64)

    def loss(*dense: Tensor) -> Tensor:
        out = tesela.attention(*(each.float() for each in dense), variant)
        return (out.double() * grad).sum()

    found = torch.autograd.grad(loss(*(leaf := leaves(*dense))), leaf)
    for place, gradient in enumerate(found):
        direction = random(*gradient.shape, seed=5, dtype=torch.float64)
        moved = [
            [each + sign * step * direction if i == place else each for i, each in enumerate(dense)]
            for sign in (1, -1)
        ]
        slope = ((loss(*moved[0]) - loss(*moved[1])) / (2 * step)).item()
        exact = (gradient * direction).sum().item()
        limit = 1e-2 * gradient.norm().item() + 1e-2
        assert abs(slope - exact) <= limit, f"d{'qkv'[place]}: {exact}, not {slope}"


def test_autocast() -> None:
    q, k, v = inputs()
    grad = random(*q.shape, seed=4, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = gradients(lambda *a: tesela.attention(*a, "causal"), (q, k, v), grad)
    halves = tuple(each.bfloat16() for each in (q, k, v))
    wanted = gradients(lambda *a: tesela.attention(*a, "causal"), halves, grad)
    for got, exact in zip(low, wanted, strict=True):
        assert got.dtype is torch.float32
        assert torch.equal(got, exact.float())


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoint(use_reentrant: bool) -> None:
    dense = inputs()
    grad = random(*dense[0].shape, seed=4, dtype=torch.float32)

    def layer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tesela.attention(q * 2, k, v, "sliding_window", window=9).sin()

    wanted = gradients(layer, dense, grad)
    actual = gradients(lambda *a: checkpoint(layer, *a, use_reentrant=use_reentrant), dense, grad)
    assert all(map(torch.equal, actual, wanted))


def test_selective_checkpoint_can_keep_it() -> None:
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    calls = []

    def policy(context: Any, operator: Any, *arguments: Any, **named: Any) -> Any:
        from torch.utils.checkpoint import CheckpointPolicy

        is_ours = operator is torch.ops.tesela.attention.default
        calls.append((is_ours, context.is_recompute))
        return CheckpointPolicy.MUST_SAVE if is_ours else CheckpointPolicy.PREFER_RECOMPUTE

    dense = inputs()
    grad = random(*dense[0].shape, seed=4, dtype=torch.float32)

    def layer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tesela.attention(q * 2, k, v, "causal").sin()

    wanted = gradients(layer, dense, grad)
    actual = gradients(
        lambda *a: checkpoint(
            layer,
            *a,
            use_reentrant=False,
            context_fn=lambda: create_selective_checkpoint_contexts(policy),
        ),
        dense,
        grad,
    )
    assert (True, False) in calls
    assert all(map(torch.equal, actual, wanted))


def test_opcheck() -> None:
    q, k, v = leaves(*inputs())
    text = tesela.variant("sliding_window").text
    rest = (text, ["window"], [9], [], [], None, False)
    forward = torch.ops.tesela.attention.default
    torch.library.opcheck(forward, (q, k, v, *rest, False))
    torch.library.opcheck(forward, (q, k, v, *rest, True))
    with torch.no_grad():
        out, lse = torch.ops.tesela.attention(q, k, v, *rest, True)
    given = (torch.rand_like(q), *(each.detach() for each in (q, k, v, out, lse)))
    for grad_of_lse in (None, torch.rand_like(lse)):
        torch.library.opcheck(
            torch.ops.tesela.attention_backward.default, (*given, grad_of_lse, *rest)
        )


def test_profiles_and_modes_see_it() -> None:
    """An eager call skips the dispatcher, unless something watches it. The bits are the same."""
    watch = Watch()
    dense = inputs()
    grad = random(*dense[0].shape, seed=4, dtype=torch.float32)
    slope = torch.rand(6)

    def attend(*dense: Tensor) -> Tensor:
        return tesela.attention(*dense, "alibi", slope=slope)

    eager = gradients(attend, dense, grad)
    with watch:
        assert all(map(torch.equal, gradients(attend, dense, grad), eager))
    out = attend(*(given := leaves(*dense)))
    with watch:  # only the backward pass is watched
        assert all(map(torch.equal, torch.autograd.grad(out, given, grad), eager))
    assert watch.seen.count("tesela.attention.default") == 1
    assert watch.seen.count("tesela.attention_backward.default") == 2
    with torch.profiler.profile() as profile:
        gradients(attend, dense, grad)
    events = {event.key for event in profile.key_averages()}
    assert {"tesela::attention", "tesela::attention_backward"} <= events


# torch.func


def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return tesela.attention(q, k, v, "causal").sin().sum()


def test_functions() -> None:
    dense = inputs()
    wanted = torch.autograd.grad(loss(*(given := leaves(*dense))), given)
    for actual in (
        torch.func.grad(loss, (0, 1, 2))(*dense),
        torch.func.vjp(loss, *dense)[1](torch.ones(())),
    ):
        for got, exact in zip(actual, wanted, strict=True):
            assert torch.equal(got, exact)


def test_vmap_of_gradients() -> None:
    q, k, v = inputs()
    many = torch.stack([q, q.flip(0), q * 2])
    for function in (torch.func.grad(loss, (0, 1, 2)),):
        mapped = torch.vmap(function, (0, None, None))(many, k, v)
        for index in range(3):
            for got, exact in zip(mapped, function(many[index], k, v), strict=True):
                torch.testing.assert_close(got[index], exact)


def test_gradients_of_vmap() -> None:
    q, k, v = inputs()
    many = torch.stack([q, q.flip(0), q * 2])

    def mapped(many: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.vmap(loss, (0, None, None))(many, k, v).sum()

    def looped(many: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.stack([loss(each, k, v) for each in many]).sum()

    for differentiate in (
        lambda function: torch.func.grad(function, (0, 1, 2))(many, k, v),
        lambda function: torch.autograd.grad(function(*(a := leaves(many, k, v))), a),
    ):
        for got, exact in zip(differentiate(mapped), differentiate(looped), strict=True):
            torch.testing.assert_close(got, exact, rtol=1e-5, atol=1e-5)


# torch.compile


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled(backend: str) -> None:
    def step(q: Tensor, k: Tensor, v: Tensor, slope: Tensor, size: int) -> Tensor:
        text = """attention both(window: i32, slope: f32[H]) {
          mask  = q >= k && q - k < window
          score = s + slope[h] * (k - q)
        }"""
        out = tesela.attention(q * 2, k, v, text, window=size, slope=slope)
        return (out + 1).sin().sum()

    torch.compiler.reset()
    compiled = torch.compile(step, fullgraph=True, backend=backend, dynamic=True)
    slope = torch.rand(6)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for length, size in ((37, 9), (64, 5), (101, 20)):
            given = leaves(*inputs(queries=length, keys=length + 3))
            wanted = torch.autograd.grad(step(*given, slope, size), given)
            actual = torch.autograd.grad(compiled(*given, slope, size), given)
            for got, exact in zip(actual, wanted, strict=True):
                torch.testing.assert_close(got, exact, rtol=1e-5, atol=1e-5)


def test_compiled_with_logarithms() -> None:
    def detached(q: Tensor) -> tuple[Tensor, Tensor]:
        out, lse = tesela.attention(q, q, q, "causal", return_lse=True)
        return out, lse.detach()

    torch.compiler.reset()
    (q,) = leaves(random(2, 4, 37, 32, seed=1, dtype=torch.float32))
    compiled = torch.compile(detached, fullgraph=True, backend="aot_eager")
    out, lse = compiled(q)
    assert not lse.requires_grad
    (actual,) = torch.autograd.grad(out.sum(), q)
    (wanted,) = torch.autograd.grad(detached(q)[0].sum(), q)
    torch.testing.assert_close(actual, wanted)

    def attached(q: Tensor) -> Any:
        return tesela.attention(q, q, q, "causal", return_lse=True)

    compiled = torch.compile(attached, fullgraph=True, backend="aot_eager")
    for loss in (lambda out, lse: out.sum(), lambda out, lse: out.sum() + lse.square().sum()):
        (actual,) = torch.autograd.grad(loss(*compiled(q)), q)
        (wanted,) = torch.autograd.grad(loss(*attached(q)), q)
        torch.testing.assert_close(actual, wanted)


@pytest.mark.parametrize("is_observed", [False, True])
def test_compiled_autograd(is_observed: bool) -> None:
    """The backward pass of an eager call as one graph."""
    from torch._dynamo import compiled_autograd

    given = leaves(*inputs())
    wanted = torch.autograd.grad(loss(*given), given)
    torch.compiler.reset()
    with torch.profiler.profile() if is_observed else contextlib.nullcontext():
        value = loss(*given)
    with compiled_autograd._enable(torch.compile(backend="aot_eager", fullgraph=True)):
        value.backward()
    for each, exact in zip(given, wanted, strict=True):
        torch.testing.assert_close(each.grad, exact)


# Refusals


def test_out_is_refused() -> None:
    q, k, v = leaves(*inputs())
    with pytest.raises(tesela.UnsupportedError, match=r"out is given.*omit out"):
        tesela.attention(q, k, v, out=torch.empty(2, 6, 37, 64))
    with pytest.raises(tesela.UnsupportedError, match=r"out is given"):
        tesela.attention(*inputs(), out=torch.empty(2, 6, 37, 64, requires_grad=True))
    with torch.no_grad():
        tesela.attention(q, k, v, out=torch.empty(2, 6, 37, 64))


def test_forward_mode_is_refused() -> None:
    q, k, v = inputs()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
        with pytest.raises(tesela.UnsupportedError, match=r"forward-mode.*backward\(\)"):
            tesela.attention(dual, k, v)
        with pytest.raises(tesela.UnsupportedError, match="forward-mode"):
            tesela.attention(dual, *leaves(k, v))
    with pytest.raises(tesela.UnsupportedError, match="forward-mode"):
        torch.func.jvp(lambda q: tesela.attention(q, k, v), (q,), (torch.ones_like(q),))


def test_second_gradients_are_refused() -> None:
    q, k, v = inputs()
    given = leaves(q, k, v)
    first = torch.autograd.grad(loss(*given), given, create_graph=True)
    for got, exact in zip(first, torch.autograd.grad(loss(*given), given), strict=True):
        assert torch.equal(got, exact)  # the first gradients exist
    with pytest.raises(tesela.UnsupportedError, match=r"double backward.*create_graph"):
        first[0].sum().backward()
    with pytest.raises(tesela.UnsupportedError, match="double backward"):
        torch.func.grad(lambda q: torch.func.grad(loss)(q, k, v).sum())(q)
    with pytest.raises(tesela.UnsupportedError, match="forward-mode"):
        torch.func.hessian(loss)(q, k, v)
    with pytest.raises(tesela.UnsupportedError, match="double backward"):
        torch.vmap(torch.func.grad(lambda q: torch.func.grad(loss)(q, k, v).sum()))(q[None])


def test_the_same_bits_have_a_kernel_of_their_own_on_a_gpu_alone() -> None:
    variant = tesela.variant("attention switched() { mask = q >= k + 3 }")
    found = []
    for asks in (True, False):
        given = leaves(*inputs())
        torch.use_deterministic_algorithms(asks)
        try:
            tesela.attention(*given, variant).sum().backward()
            assert gradient_algorithm(is_cuda=True) == ("backward" if asks else "backward_fast")
        finally:
            torch.use_deterministic_algorithms(False)
        found.append([each.grad for each in given])
    assert {key[5] for key in variant._program.kernels} == {"forward", "backward_fast"}
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_gradients_compile_beside_the_forward_pass() -> None:
    """The backward pass's kernel is asked for before the forward pass is computed."""

    def algorithms(variant: tesela.Variant) -> set[str]:
        return {key[5] for key in variant._program.kernels}

    q, k, v = inputs()
    plain = tesela.variant("attention early() { mask = q >= k + 2 }")
    tesela.attention(q, k, v, plain)
    assert "backward_fast" not in algorithms(plain)
    with torch.no_grad():
        tesela.attention(*leaves(q, k, v), plain)
    assert "backward_fast" not in algorithms(plain)
    out = tesela.attention(*leaves(q, k, v), plain)
    assert "backward_fast" in algorithms(plain)
    out.sum().backward()

    sloped = tesela.variant("attention early(w: f32[H]) { score = s * w[h] + 2 }")
    weight = torch.rand(6, requires_grad=True)
    out = tesela.attention(q, k, v, sloped, w=weight)
    assert "backward_fast" not in algorithms(sloped)
    assert "backward_parameters" in algorithms(sloped)
    out.sum().backward()
    assert len(sloped._program.kernels) == 2  # the very kernel that was made
    with pytest.raises(tesela.Error, match="head dimension"):
        tesela.attention(*leaves(*(each[..., :7] for each in (q, k, v))), plain)
