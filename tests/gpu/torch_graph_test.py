# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# torch_graph_test.py LIBRARY VARIANTS: launches under torch.cuda.graph, on PyTorch's own capture
# stream, after a warm-up on another stream. Replays must give the bits of eager launches. Exit code
# 77: PyTorch or a GPU is missing.

import os
import sys

sys.path.insert(
    0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "bench")
)
import c_api  # noqa: E402

try:
    import torch
except ImportError:
    print("skipped: there is no PyTorch")
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: PyTorch finds no GPU")
    sys.exit(77)

SHAPE = (2, 8, 1000, 128)
LAYERS, REPLAYS = 200, 100


def main(library: str, variants: str) -> None:
    context = c_api.Library(library).context("cuda")
    torch.manual_seed(0)
    q, k, v = (torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    documents = torch.arange(SHAPE[2], device="cuda", dtype=torch.int32).div(170).int()
    documents = documents.expand(SHAPE[0], -1).contiguous()
    slopes = torch.linspace(0.1, 1, SHAPE[1], device="cuda")
    parameters = {
        "full": [],
        "causal": [],
        "sliding_window": [c_api.scalar("window", 200)],
        "alibi": [c_api.capture("slope", slopes.data_ptr(), "f32", slopes.shape)],
        "documents": [c_api.capture("id", documents.data_ptr(), "i32", documents.shape)],
    }
    for name, values in parameters.items():
        with open(os.path.join(variants, name + ".attn"), encoding="utf-8") as file:
            kernel = context.compile(file.read(), "bf16", SHAPE[3], SHAPE[3])

        def attend(o: torch.Tensor, lse: torch.Tensor) -> None:
            batch, heads, length, _ = SHAPE
            views = (c_api.contiguous(t.data_ptr(), SHAPE) for t in (q, k, v, o))
            kernel.launcher(
                (batch, heads, heads, length, length),
                *views,
                lse.data_ptr(),
                parameters=values,
                stream=torch.cuda.current_stream().cuda_stream,
            )()

        outputs = [torch.full_like(q, float("nan")) for _ in range(LAYERS)]
        lse = torch.full(SHAPE[:3], float("nan"), device="cuda")
        warm = torch.cuda.Stream()
        with torch.cuda.stream(warm):
            attend(outputs[0], lse)
        warm.synchronize()
        eager, eager_lse = outputs[0].clone(), lse.clone()
        for mode in ("global", "thread_local", "relaxed"):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode=mode):
                for output in outputs:
                    attend(output, lse)
            for output in outputs:
                output.fill_(float("nan"))
            for _ in range(REPLAYS):
                graph.replay()
            torch.cuda.synchronize()
            for layer, output in enumerate(outputs):
                assert torch.equal(output, eager), f"{name}, {mode}, layer {layer}"
            assert torch.equal(lse, eager_lse), f"{name}, {mode}"
            del graph
        print(f"{name}: {LAYERS} launches, {REPLAYS} replays, three modes: the eager bits")


main(*sys.argv[1:])
