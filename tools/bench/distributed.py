#!/usr/bin/env python3
# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# tools/bench/distributed.py [--ranks 2] [--lengths 65536 262144] [--cases causal window ...] [--seconds 60]: attention
# whose context is split over GPUs, against one GPU that has all of it. D 128, bf16, 32 heads and 8 kv heads; forward,
# and forward with backward. Before timing, the result of the smallest length is held against one GPU's. Rank 0 prints,
# for each case: milliseconds of one GPU, of all, the efficiency (one GPU's time by ranks times theirs), the scheme and the
# busiest rank's work by the mean. A time is the slowest rank's, the median of some calls between barriers. --pytorch adds
# PyTorch's context_parallel on the causal case.
"""Efficiency of a context that is split over GPUs."""

import argparse
import json
import os
import statistics
import time
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128


def documents(length: int):
    """Documents of random length, 1 to 32 thousand tokens at 256 thousand, and so in proportion."""
    generator = torch.Generator().manual_seed(1)
    ends = torch.cumsum(torch.randint(length // 256, length // 8, (256,), generator=generator), 0)
    return torch.searchsorted(ends, torch.arange(length), right=True).int()[None]


def case_of(name: str, length: int, device: str):
    """The variant's name, and its parameters."""
    if name == "window":
        return "sliding_window", {"window": 4096}
    if name == "documents":
        return "documents_causal", {"id": documents(length).to(device)}
    if name == "prefix":
        return "prefix_lm", {"prefix": torch.tensor([length // 4], dtype=torch.int32, device=device)}
    if name == "alibi":
        return "alibi", {"slope": 2.0 ** -torch.arange(1, HEADS + 1, device=device).float()}
    return name, {}


def timed(call, repeats: int, group) -> float:
    """Milliseconds: the median over calls of the slowest rank."""
    call()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        dist.barrier(group)
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        spent = torch.tensor([time.perf_counter() - begin])
        dist.all_reduce(spent, dist.ReduceOp.MAX, group=group)
        times.append(spent.item() * 1e3)
    return statistics.median(times)


def pytorch_context_parallel(mesh, q, k, v, is_training: bool):
    """PyTorch's own, on its shards of a causal call with as many heads of keys as of queries."""
    from torch.distributed.tensor.experimental import context_parallel
    from torch.nn.functional import scaled_dot_product_attention
    from torch.nn.attention import SDPBackend, sdpa_kernel

    k, v = (x.repeat_interleave(HEADS // KV_HEADS, 1) for x in (k, v))
    q, k, v = (x.detach().clone().requires_grad_(is_training) for x in (q, k, v))
    times = []
    with context_parallel(mesh, buffers=(q, k, v), buffer_seq_dims=(2, 2, 2), no_restore_buffers={q, k, v}):
        host = dist.new_group(backend="gloo")

        def call():
            with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION]):
                out = scaled_dot_product_attention(q, k, v, is_causal=True)
            if is_training:
                out.backward(torch.ones_like(out))

        times.append(timed(call, 3, host))
    return times[0]


def work(rank: int, options: argparse.Namespace, port: int) -> None:
    import tesela
    import tesela.distributed

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), NCCL_NVLS_ENABLE="0")
    warnings.filterwarnings("ignore")
    torch.cuda.set_device(rank)
    device = f"cuda:{rank}"
    dist.init_process_group("nccl", rank=rank, world_size=options.ranks, device_id=torch.device(device))
    host = dist.new_group(backend="gloo")
    end = time.monotonic() + options.seconds
    is_first = True
    for length in options.lengths:
        torch.manual_seed(0)
        q, g = torch.randn(2, 1, HEADS, length, HEAD_DIM, device=device, dtype=torch.bfloat16)
        k, v = torch.randn(2, 1, KV_HEADS, length, HEAD_DIM, device=device, dtype=torch.bfloat16)
        for name in options.cases:
            variant, parameters = case_of(name, length, device)
            plan = tesela.distributed.plan(
                variant, length=length, scheme=options.scheme, layout=options.layout, heads=HEADS, kv_heads=KV_HEADS,
                **parameters,
            )
            own, own_g = [plan.shard(x).requires_grad_() for x in (q, k, v)], plan.shard(g)
            whole = [x.detach().requires_grad_() for x in (q, k, v)]
            if is_first or options.check:
                with torch.no_grad():
                    got = tesela.distributed.attention(*own, plan=plan, **parameters)
                    wanted = plan.shard(tesela.attention(q, k, v, variant, **parameters))
                error = (got.float() - wanted.float()).abs().max().item()
                assert error < 2e-2, f"rank {rank}: {name} differs by {error}"
                del got, wanted
                is_first = options.check

            def forward():
                with torch.no_grad():
                    tesela.distributed.attention(*own, plan=plan, **parameters)

            def step():
                tesela.distributed.attention(*own, plan=plan, **parameters).backward(own_g)

            def forward_alone():
                with torch.no_grad():
                    tesela.attention(q, k, v, variant, **parameters)

            def step_alone():
                tesela.attention(*whole, variant, **parameters).backward(g)

            for what, split, alone in (("forward", forward, forward_alone), ("step", step, step_alone)):
                late = torch.tensor([int(time.monotonic() > end)])
                dist.all_reduce(late, dist.ReduceOp.MAX, group=host)
                if late.item():
                    continue
                repeats = 7 if length <= 65536 else 3
                together = timed(split, repeats, host)
                # Every rank computes it, so that none waits cold.
                one = timed(alone, repeats, host)
                if rank == 0:
                    told = {
                        "case": name, "length": length, "what": what, "one_ms": round(one, 3),
                        "split_ms": round(together, 3), "efficiency": round(one / options.ranks / together, 4),
                        "scheme": plan.choice().scheme, "layout": plan.layout, "imbalance": round(plan.imbalance, 4),
                        "predicted": round(plan.choice().efficiency, 4),
                        "predicted_ms": round(plan.choice().seconds * 1e3, 3),
                    }
                    print(json.dumps(told), flush=True)
            for x in whole:
                x.grad = None
        if options.pytorch and "causal" in options.cases:
            from torch.distributed.device_mesh import init_device_mesh

            mesh = init_device_mesh("cuda", (options.ranks,))
            for is_training in (False, True):
                try:
                    spent = pytorch_context_parallel(mesh, q, k, v, is_training)
                except Exception as error:  # another version's interface
                    spent = str(error).split("\n")[0]
                if rank == 0:
                    what = "step" if is_training else "forward"
                    print(json.dumps({"case": "causal by PyTorch's context_parallel", "length": length, "what": what,
                                      "split_ms": spent}), flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--lengths", type=int, nargs="+", default=[65536, 262144])
    parser.add_argument("--cases", nargs="+", default=["causal", "window", "documents", "prefix", "alibi"])
    parser.add_argument("--scheme", default="auto")
    parser.add_argument("--layout", default="search")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--check", action="store_true", help="hold every case against one GPU")
    parser.add_argument("--pytorch", action="store_true")
    options = parser.parse_args()
    mp.spawn(work, (options, 29517), nprocs=options.ranks)


if __name__ == "__main__":
    main()
