#!/usr/bin/env python3
# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# tools/bench/distributed.py [--ranks 2] [--lengths 65536 262144] [--cases causal window ...] [--seconds 60]: times
# attention whose context is split over GPUs, beside one GPU that has the whole context. D 128, bf16, 32 heads and 8 kv
# heads; forward alone, and forward with backward. First it compares each case, with gradients, with one GPU, for each
# scheme (--check-length; 0 skips this). Rank 0 prints a line of JSON for each case: milliseconds of one GPU and of all
# GPUs, the efficiency (one GPU's time over the number of ranks times theirs), the scheme, and the busiest rank's work
# over the mean. A time is the slowest rank's. It is the mean of calls that follow each other, as the layers of a model
# do, and the lesser of two such series; a long call is timed once. --pytorch adds PyTorch's context_parallel on the
# causal case. tools/bench/simulate.py reads the lines.
"""Efficiency of a context that is split over GPUs."""

import argparse
import itertools
import json
import os
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128


def documents(length: int):
    """Documents of random length: 1 to 32 thousand tokens at length 262144, and proportionally at others."""
    generator = torch.Generator().manual_seed(1)
    ends = torch.cumsum(torch.randint(length // 256, length // 8, (256,), generator=generator), 0)
    return torch.searchsorted(ends, torch.arange(length), right=True).int()[None]


def case_of(name: str, length: int, device: str):
    """(the variant's name, its parameters)."""
    if name == "window":
        return "sliding_window", {"window": 4096}
    if name == "documents":
        return "documents_causal", {"id": documents(length).to(device)}
    if name == "prefix":
        return "prefix_lm", {"prefix": torch.tensor([length // 4], dtype=torch.int32, device=device)}
    if name == "alibi":
        return "alibi", {"slope": 2.0 ** -torch.arange(1, HEADS + 1, device=device).float()}
    return name, {}


def learned_of(parameters) -> list[torch.Tensor]:
    """Makes the floating-point captured tensors trainable, and gives them."""
    return [x.requires_grad_() for x in parameters.values() if torch.is_tensor(x) and x.is_floating_point()]


def timed(call, calls: int, series: int, group) -> float:
    """Milliseconds of a call: the mean of a series of calls by the slowest rank; the least over the series."""
    times = []
    for _ in range(series):
        torch.cuda.synchronize()
        dist.barrier(group)
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        spent = torch.tensor([(time.perf_counter() - begin) / calls])
        dist.all_reduce(spent, dist.ReduceOp.MAX, group=group)
        times.append(spent.item() * 1e3)
    return min(times)


def error_of(found, wanted) -> float:
    """The norm of the difference over the norm of `wanted`."""
    return float((found.double() - wanted.double()).norm() / wanted.double().norm().clamp_min(1e-30))


def dense(length: int, device: str):
    """q, k, v and the gradient of the result."""
    torch.manual_seed(0)
    q, g = torch.randn(2, 1, HEADS, length, HEAD_DIM, device=device, dtype=torch.bfloat16)
    k, v = torch.randn(2, 1, KV_HEADS, length, HEAD_DIM, device=device, dtype=torch.bfloat16)
    return q, k, v, g


def compile_all(cases, length: int, device: str) -> None:
    """Compiles the kernels of all cases at the same time, both those for parts and those for the whole context."""
    import tesela
    from tesela.distributed._positions import Part, Sizes, placed

    q, k, v, g = dense(length, device)
    sizes = Sizes(1, HEADS, KV_HEADS, length, length)

    def run(name: str, is_part: bool) -> None:
        torch.cuda.set_device(device)
        variant, parameters = case_of(name, length, device)
        learned_of(parameters)
        if is_part:
            part = placed(tesela.variant(variant))
            variant, parameters = part.variant, part.values(parameters, Part(0, 0), sizes, (length, length))
        own = [x.detach().requires_grad_() for x in (q, k, v)]
        tesela.attention(*own, variant, **parameters).backward(g)

    with ThreadPoolExecutor(2 * len(cases)) as pool:
        for each in [pool.submit(run, name, is_part) for name in cases for is_part in (False, True)]:
            each.result()
    torch.cuda.synchronize()


def check(names, length: int, device: str, rank: int, host) -> None:
    """Compares the result and the gradients of each case with those of one GPU, for each scheme."""
    import tesela
    import tesela.distributed

    q, k, v, g = dense(length, device)
    for name in names:
        variant, parameters = case_of(name, length, device)
        learned = learned_of(parameters)
        whole = [x.detach().requires_grad_() for x in (q, k, v)]
        out = tesela.attention(*whole, variant, **parameters)
        wanted = [out.detach(), *torch.autograd.grad(out, [*whole, *learned], g)]
        for scheme in ("gather", "ring", "heads"):
            plan = tesela.distributed.plan(
                variant, length=length, scheme=scheme, heads=HEADS, kv_heads=KV_HEADS, **parameters
            )
            found = []
            for _ in range(2):
                own = [plan.shard(x).requires_grad_() for x in (q, k, v)]
                out = tesela.distributed.attention(*own, plan=plan, **parameters)
                found.append([out.detach(), *torch.autograd.grad(out, [*own, *learned], plan.shard(g))])
            errors = [
                error_of(a, plan.shard(b) if a.dim() == 4 else b) for a, b in zip(found[0], wanted, strict=True)
            ]
            same = torch.equal(found[0][0], found[1][0])  # not gradients: the fast kernels do not repeat their bits
            worst = torch.tensor([*errors, float(not same)])
            dist.all_reduce(worst, dist.ReduceOp.MAX, group=host)
            if rank == 0:
                *errors, differs = worst.tolist()
                print(json.dumps({"check": name, "scheme": scheme, "layout": plan.layout, "errors": errors,
                                  "right": max(errors) < 1e-2, "same_result": not differs}), flush=True)


def link(device: str, rank: int, ranks: int, host) -> None:
    """Prints the bytes per second that a rank sends to the next rank while it receives from the previous one."""
    for size in (1 << 20, 1 << 24, 1 << 28):
        sent, came = torch.empty(2, size, dtype=torch.uint8, device=device)

        def call():
            operations = [dist.P2POp(dist.isend, sent, (rank + 1) % ranks),
                          dist.P2POp(dist.irecv, came, (rank - 1) % ranks)]
            for each in dist.batch_isend_irecv(operations):
                each.wait()

        call()
        spent = timed(call, 10, 3, host)
        if rank == 0:
            print(json.dumps({"link_bytes": size, "ms": round(spent, 4), "GB/s": round(size / spent / 1e6, 1)}),
                  flush=True)


def pytorch_context_parallel(mesh, q, k, v, g, wanted, way, is_training: bool, calls: int, host):
    """PyTorch's context_parallel on its shards of a causal call: (milliseconds, the error of the result)."""
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import context_parallel_unshard, set_rotate_method
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backend, rotate, is_grouped = way
    set_rotate_method(rotate)
    if not is_grouped:
        k, v = (x.repeat_interleave(HEADS // KV_HEADS, 1) for x in (k, v))
    buffers = [x.detach().clone() for x in (q, k, v, g)]
    with context_parallel(
        mesh, buffers=buffers, buffer_seq_dims=[2] * 4, no_restore_buffers=set(buffers)
    ), sdpa_kernel(getattr(SDPBackend, backend)):
        *own, own_g = buffers
        own = [x.requires_grad_(is_training) for x in own]

        def call():
            # Looked up in the module at each call, because context_parallel replaces the function there.
            out = torch.nn.functional.scaled_dot_product_attention(*own, is_causal=True, enable_gqa=is_grouped)
            if is_training:
                out.backward(own_g)
            return out.detach()

        out = call()
        spent = timed(call, calls, 2, host)
    (whole,) = context_parallel_unshard(mesh, [out], [2])
    return spent, error_of(whole, wanted)


def work(rank: int, options: argparse.Namespace, port: int) -> None:
    import tesela
    import tesela.distributed

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), NCCL_NVLS_ENABLE="0")
    warnings.filterwarnings("ignore")
    torch.cuda.set_device(rank)
    device = f"cuda:{rank}"
    dist.init_process_group("nccl", rank=rank, world_size=options.ranks, device_id=torch.device(device))
    host = dist.new_group(backend="gloo")
    begin = time.monotonic()

    def is_late() -> bool:
        late = torch.tensor([int(time.monotonic() > begin + options.seconds)])
        dist.all_reduce(late, dist.ReduceOp.MAX, group=host)
        return bool(late.item())

    def tell(**what) -> None:
        if rank == 0:
            print(json.dumps(what), flush=True)

    for each in range(options.ranks):  # the later ranks find the first rank's kernels in the cache
        if rank == each:
            compile_all(options.cases, 4096, device)
        dist.barrier(host)
    tell(seconds=round(time.monotonic() - begin, 1), of="compiling")
    if options.check_length:
        check(options.cases, options.check_length, device, rank, host)
        tell(seconds=round(time.monotonic() - begin, 1), of="checks")
    link(device, rank, options.ranks, host)
    for length in options.lengths:
        q, k, v, g = dense(length, device)
        whole = [x.detach().requires_grad_() for x in (q, k, v)]
        causal = None
        is_long = length > 65536
        for name in options.cases:
            variant, parameters = case_of(name, length, device)
            for layout, scheme in itertools.product(options.layouts, options.schemes):
                plan = tesela.distributed.plan(
                    variant, length=length, scheme=scheme, layout=layout, heads=HEADS, kv_heads=KV_HEADS,
                    **parameters,
                )
                own, own_g = [plan.shard(x).requires_grad_() for x in (q, k, v)], plan.shard(g)

                def forward():
                    with torch.no_grad():
                        return tesela.distributed.attention(*own, plan=plan, **parameters)

                def step():
                    tesela.distributed.attention(*own, plan=plan, **parameters).backward(own_g)

                def forward_alone():
                    with torch.no_grad():
                        return tesela.attention(q, k, v, variant, **parameters)

                def step_alone():
                    tesela.attention(*whole, variant, **parameters).backward(g)

                for what, split, alone in (("forward", forward, forward_alone), ("step", step, step_alone)):
                    if is_late():
                        continue
                    # The series take about 0.2 s each; a call that takes longer than 0.1 s on a long context runs once.
                    split()
                    first = timed(split, 1, 1, host)
                    calls, series = (1, 1) if is_long and first > 100 else (max(1, min(20, int(200 / first))), 2)
                    together = timed(split, calls, series, host)
                    for x in own:
                        x.grad = None
                    # Warm-up. Every rank also runs the call of one GPU, so that none is idle.
                    if not is_long or first < 100:
                        alone()
                    one = timed(alone, calls, series, host)
                    if name == "causal" and what == "forward":
                        causal = forward_alone()
                    for x in whole:
                        x.grad = None
                    tell(
                        case=name, length=length, what=what, one_ms=round(one, 3), split_ms=round(together, 3),
                        efficiency=round(one / options.ranks / together, 4), scheme=plan.choice().scheme,
                        layout=plan.layout, imbalance=round(plan.imbalance, 4),
                        launches=plan.launches.int().tolist(), predicted=round(plan.choice().efficiency, 4),
                    )
                del own, own_g
        if options.pytorch and causal is not None:
            from torch.distributed.device_mesh import init_device_mesh

            mesh = init_device_mesh("cuda", (options.ranks,))
            for way in options.pytorch:
                backend, rotate, grouped = way.split(":")
                for is_training in (False, True):
                    if is_late():
                        continue
                    try:
                        spent, error = pytorch_context_parallel(
                            mesh, q, k, v, g, causal, (backend, rotate, grouped == "grouped"), is_training, 1 if is_long else 4, host
                        )
                        tell(case="context_parallel", way=way, length=length, what="step" if is_training else "forward",
                             split_ms=round(spent, 3), error=error)
                    except Exception as error:  # this backend or this version does not support this way
                        tell(case="context_parallel", way=way, length=length, is_training=is_training,
                             failed=str(error).split("\n")[0][:300])
    tell(seconds=round(time.monotonic() - begin, 1), of="all")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--lengths", type=int, nargs="+", default=[65536, 262144])
    parser.add_argument("--cases", nargs="+", default=["causal", "window", "documents", "prefix", "alibi"])
    parser.add_argument("--schemes", nargs="+", default=["auto"])
    parser.add_argument("--layouts", nargs="+", default=["search"])
    parser.add_argument("--seconds", type=float, default=60, help="no measurement begins later")
    parser.add_argument("--check-length", type=int, default=6144)
    parser.add_argument("--pytorch", nargs="*", help="backend:rotation:grouped or repeated, of context_parallel",
                        default=[])
    options = parser.parse_args()
    mp.spawn(work, (options, 29517), nprocs=options.ranks)


if __name__ == "__main__":
    main()
