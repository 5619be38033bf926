# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The engines of the backward pass. Each runs its forward pass once, before the timing. The times
# are those of the gradients alone, with all of their launches. A Prepared's launch gives (dq, dk,
# dv).

from collections.abc import Sequence
from typing import Any

import torch

import c_api
import engines
import fa3
import tiles
from cases import Case
from engines import Prepared, Unavailable

NAN = float("nan")


class Data(engines.Data):
    """A case's inputs and the gradients of its output."""

    def __init__(self, case: Case, seed: int, device: str = "cuda"):
        super().__init__(case, seed, device)
        shape = (case.batch, case.heads, case.queries, case.head_dim_v)
        self.do = [self.normal(*shape) for _ in range(self.count)]
        # (batch, key head) -> its reference gradients for the first set of inputs. gradients.py
        # computes them once for all engines.
        self.references: dict[tuple[int, int], tuple[torch.Tensor, ...]] = {}


class Tesela:
    """The gradients of a variant by one of Tesela's algorithms."""

    def __init__(
        self,
        name: str,
        algorithm: str,
        forward: engines.Tesela,
        schedule: str | None,
        deterministic: bool,
    ):
        self.name, self.algorithm, self.forward = name, algorithm, forward
        self.schedule, self.deterministic = schedule, deterministic

    def applies(self, case: Case) -> bool:
        return True

    def prepare(self, case: Case, data: Data) -> Prepared:
        kernel = self.forward.compile(case.variant.text, case, self.schedule, self.algorithm)
        forward = self.forward.prepare(case, data)
        parameters = engines.tesela_parameters(data.setting)

        def view(tensor: torch.Tensor) -> c_api.Tensor:
            type_name = "f32" if tensor.dtype == torch.float32 else case.type_name
            return c_api.tensor(tensor.data_ptr(), type_name, tensor.shape, tensor.stride())

        results, calls, keep = [], [], []
        for index in range(data.count):
            q, k, v = data.q[index], data.k[index], data.v[index]
            gradients = tuple(torch.full_like(each, NAN) for each in (q, k, v))
            named = {"q": q, "k": k, "v": v, "o": forward.launch(index), "lse": forward.lse(index)}
            named |= {"do": data.do[index], **dict(zip(("dq", "dk", "dv"), gradients))}
            views = {name: view(tensor) for name, tensor in named.items()}
            stream = engines.stream_of(data.device)
            results.append(gradients)
            calls.append(kernel.tensor_launcher(views, data.scale, parameters, stream))
            keep.append(named)

        def launch(index: int) -> tuple[torch.Tensor, ...]:
            calls[index]()
            return results[index]

        launch.keep = keep  # the launches point to these tensors
        info = kernel.info()
        # The fused algorithm's row blocks are blocks of keys.
        keys, queries = tiles.extents(info["schedule"])
        tile = None if self.deterministic else (queries, keys)
        return Prepared(launch, notes=info, tile=tile, deterministic=self.deterministic)


def tesela(
    library: c_api.Library, schedule: str | None, deterministic_schedule: str | None, device: str
) -> list[Tesela]:
    """Tesela's two engines: the faster gradients, and those that give the same bits in each
    launch."""
    forward = engines.Tesela(library, None, device)
    return [
        Tesela("tesela", "backward_fast", forward, schedule, deterministic=False),
        Tesela("deterministic", "backward", forward, deterministic_schedule, deterministic=True),
    ]


def call_by_name(operator: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Calls PyTorch's `operator` with those of `values` that it takes; gives its results by
    name.
    Releases of PyTorch differ in the order of these operators' arguments."""
    schema = operator._schema
    given = {each.name: values[each.name] for each in schema.arguments if each.name in values}
    for argument in schema.arguments:
        if argument.name not in given and not argument.has_default_value():
            raise Unavailable(
                f"{schema.name} of PyTorch {torch.__version__} wants '{argument.name}', which the "
                "benchmark does not know"
            )
    results = operator(**given)
    names = [each.name or str(place) for place, each in enumerate(schema.returns)]
    return dict(zip(names, results, strict=True))


class Sdpa:
    """The gradients of one of PyTorch's scaled_dot_product_attention backends. They call the
    backend's own operator, so the time of autograd is not counted."""

    OPERATORS = {
        "cudnn": "_scaled_dot_product_cudnn_attention",
        "fa2": "_scaled_dot_product_flash_attention",
        "cpu": "_scaled_dot_product_flash_attention_for_cpu",
    }

    def __init__(self, name: str):
        self.name = name

    def applies(self, case: Case) -> bool:
        shares_heads = case.heads != case.kv_heads
        return case.variant.plain is not None and not (shares_heads and self.name == "cpu")

    def prepare(self, case: Case, data: Data) -> Prepared:
        name = self.OPERATORS[self.name]
        operators = [getattr(torch.ops.aten, each, None) for each in (name, f"{name}_backward")]
        if None in operators:
            raise Unavailable(f"PyTorch {torch.__version__} has no operator {name}_backward")
        forward, backward = (operator.default for operator in operators)
        common = {
            "attn_bias": None,
            "compute_log_sumexp": True,
            "dropout_p": 0.0,
            "is_causal": case.variant.plain == "causal",
            "scale": data.scale,
        }
        calls = []
        for q, k, v, do in zip(data.q, data.k, data.v, data.do):
            inputs = {**common, "query": q, "key": k, "value": v, "grad_out": do}
            made = call_by_name(forward, inputs)
            inputs["out"] = made["output"]
            # The state of dropout's random numbers. In some releases the two have other names.
            for older, newer in (("philox_seed", "rng_state"), ("philox_offset", "unused")):
                if newer in made:
                    made[older] = made[newer]
            calls.append({**made, **inputs})

        def launch(index: int) -> tuple[torch.Tensor, ...]:
            return tuple(call_by_name(backward, calls[index]).values())

        return Prepared(launch)


class FlashAttention3:
    """FlashAttention-3's gradients: full, causal and causal windows, on tensors [B, S, H, D]."""

    def __init__(self, name: str, operators: Any, deterministic: bool):
        self.name, self.operators, self.deterministic = name, operators, deterministic

    def applies(self, case: Case) -> bool:
        return fa3.mask(case) is not None

    def prepare(self, case: Case, data: Data) -> Prepared:
        engines.expect_sm_90()
        options = {"softmax_scale": data.scale, **fa3.mask(case)}
        calls, results = [], []
        for tensors in zip(data.do, data.q, data.k, data.v):
            do, *inputs = (tensor.transpose(1, 2).contiguous() for tensor in tensors)
            o, lse, *_ = self.operators.fwd(*inputs, num_splits=1, **options)
            gradients = [torch.full_like(each, NAN) for each in inputs]
            calls.append((do, *inputs, o, lse, *gradients))
            results.append(tuple(each.transpose(1, 2) for each in gradients))

        def launch(index: int) -> tuple[torch.Tensor, ...]:
            self.operators.bwd(*calls[index], deterministic=self.deterministic, **options)
            return results[index]

        return Prepared(launch, deterministic=self.deterministic)


class Flex:
    """FlexAttention's compiled gradients, called through autograd. The host's time of autograd
    is hidden: it passes while the GPU still works on a delay (timing.py)."""

    name = "flex"

    def applies(self, case: Case) -> bool:
        return True

    def prepare(self, case: Case, data: Data) -> Prepared:
        import torch._functorch.config as functorch

        leaves = [
            [tensor.detach().requires_grad_() for tensor in tensors]
            for tensors in zip(data.q, data.k, data.v)
        ]
        # One forward pass serves all launches, so the backward pass must not reuse its memory.
        with torch.enable_grad(), functorch.patch(donated_buffer=False):
            attend, options, notes = engines.Flex().compiled(case, data, time_block_mask=False)
            outputs = [attend(*each, **options) for each in leaves]

            def launch(index: int) -> tuple[torch.Tensor, ...]:
                return torch.autograd.grad(
                    outputs[index], leaves[index], data.do[index], retain_graph=True
                )

            launch(0)  # compiles
        return Prepared(launch, notes=notes)


def peers(names: Sequence[str], fa3_folder: str | None) -> list[Sdpa | FlashAttention3 | Flex]:
    """The engines of these names, in this order: cudnn, fa3 (two engines: its fast and its
    deterministic mode), fa2, flex. `fa3_folder` has fa3's files."""
    result: list[Sdpa | FlashAttention3 | Flex] = []
    for name in names:
        if name == "fa3":
            operators = fa3.load(fa3_folder)
            result.append(FlashAttention3("fa3", operators, deterministic=False))
            result.append(FlashAttention3("fa3_deterministic", operators, deterministic=True))
        else:
            result.append(Flex() if name == "flex" else Sdpa(name))
    return result
