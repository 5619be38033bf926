# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Training steps of a small Llama-shaped model with scaled_dot_product_attention, FlexAttention and Tesela: time, peak
# memory, first step and losses, in Markdown.
#
#     PYTHONPATH=build/release/python python tools/bench/training_step.py [--length 4096] [--steps 50] [--processes 3]
#
# Every case of every implementation has a process of its own, whose caches are empty. It trains the same weights on the
# same tokens with AdamW, under autocast to bfloat16. The first step includes all compilation. The time is the median of
# the steps after the fifth, by CUDA events on a GPU. The peak is the most memory that PyTorch's allocator holds during
# these steps. Each step has another text, the same for all implementations. The losses are compared with those of the
# case's first implementation: the largest difference at a step. Only attention is compiled, not the rest of the model.
#
# The host's time differs from process to process, because the threads run on cores that may be shared. So --processes N
# gives each implementation N processes, which take turns. The table has the medians of the processes' medians, and the
# least of them.
#
# "Host" is the time that the host takes to queue a step, from an idle GPU. If it is near the step's time, the host
# limits the step. With --profile FOLDER, three more steps run under PyTorch's profiler. FOLDER/IMPLEMENTATION-CASE.txt
# then has the kernels by GPU time and the operators by host time, and the table gets a column with the GPU's time of a
# step.
#
# --device cpu only tries the script out: FlexAttention has no gradients there.

import argparse
import json
import math
import os
import statistics
import sys
import time

import fresh_process

IMPLEMENTATIONS = ("sdpa", "flex_attention", "tesela")
CASES = {
    "causal": "one document, causal",
    "documents": "packed documents, causal in each",
    "softcap": "causal, scores in (-50, 50) by tanh",
}
CAP = 50.0
VOCABULARY, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, WIDE = 4096, 1024, 16, 4, 64, 2816
UNMEASURED, PROFILED = 5, 3  # steps
NO_CAP = "it has no soft cap"


def document_ids(length: int, device: str):
    """Seven documents of different lengths in one sequence."""
    import torch

    ends = torch.tensor([0.05, 0.1, 0.3, 0.35, 0.6, 0.9], device=device) * length
    return (torch.arange(length, device=device)[:, None] >= ends).sum(1).int()


def sdpa(case: str, length: int, device: str):
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    if case == "softcap":
        raise SystemExit(NO_CAP)
    if case == "causal":
        return lambda q, k, v: scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True
        )
    ids = document_ids(length, device)
    places = torch.arange(length, device=device)
    mask = (ids[:, None] == ids) & (places[:, None] >= places)
    return lambda q, k, v: scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)


def flex_attention(case: str, length: int, device: str):
    import torch
    from torch.nn.attention import flex_attention as flex

    ids = document_ids(length, device)

    def causal(b, h, q, k):
        return q >= k

    def documents(b, h, q, k):
        return (ids[q] == ids[k]) & (q >= k)

    def softcap(score, b, h, q, k):
        return CAP * torch.tanh(score / CAP)

    mask = documents if case == "documents" else causal
    block_mask = flex.create_block_mask(mask, None, None, length, length, device=device)
    compiled = torch.compile(flex.flex_attention, dynamic=False)
    score = softcap if case == "softcap" else None
    return lambda q, k, v: compiled(q, k, v, score, block_mask, enable_gqa=True)


def with_tesela(case: str, length: int, device: str):
    import tesela

    if case == "causal":
        variant = tesela.variant("causal")
    elif case == "softcap":
        variant = tesela.variant("softcap", cap=CAP)
    else:
        variant = tesela.variant("documents_causal", id=document_ids(length, device)[None])
    return lambda q, k, v: tesela.attention(q, k, v, variant)


def model(attend, layers: int, length: int, device: str):
    """Embeddings, layers of attention and a gated product (as in Llama), and the logits of the tokens."""
    import torch
    from torch import nn

    angles = torch.arange(length, device=device)[:, None] / 10000 ** (
        torch.arange(0, HEAD_DIM, 2, device=device) / HEAD_DIM
    )
    cosine, sine = angles.cos(), angles.sin()

    def turned(x):
        first, second = x.float().chunk(2, -1)
        both = (first * cosine - second * sine, second * cosine + first * sine)
        return torch.cat(both, -1).to(x.dtype)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.before_attention, self.before_product = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
            self.q = nn.Linear(HIDDEN, HEADS * HEAD_DIM, bias=False)
            self.kv = nn.Linear(HIDDEN, 2 * KV_HEADS * HEAD_DIM, bias=False)
            self.o = nn.Linear(HEADS * HEAD_DIM, HIDDEN, bias=False)
            self.gate = nn.Linear(HIDDEN, 2 * WIDE, bias=False)
            self.down = nn.Linear(WIDE, HIDDEN, bias=False)

        def forward(self, x):
            y = self.before_attention(x)
            q = self.q(y).unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)
            k, v = self.kv(y).unflatten(-1, (2, KV_HEADS, HEAD_DIM)).permute(2, 0, 3, 1, 4)
            x = x + self.o(attend(turned(q), turned(k), v).transpose(1, 2).flatten(2))
            gate, up = self.gate(self.before_product(x)).chunk(2, -1)
            return x + self.down(nn.functional.silu(gate) * up)

    torch.manual_seed(0)
    with torch.device(device):
        made = nn.Sequential(
            nn.Embedding(VOCABULARY, HIDDEN),
            *(Layer() for _ in range(layers)),
            nn.RMSNorm(HIDDEN),
            nn.Linear(HIDDEN, VOCABULARY, bias=False),
        )
    for parameter in made.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    return made


def tokens(length: int, number: int, device: str):
    """A step's text, which attention helps to predict: 64 random tokens repeat, and each time one in eight is new."""
    import torch

    generator = torch.Generator().manual_seed(number)
    rows = [torch.randint(VOCABULARY, (64,), generator=generator)]
    while len(rows) * 64 <= length:
        new = torch.randint(VOCABULARY, (64,), generator=generator)
        rows.append(torch.where(torch.rand(64, generator=generator) < 0.125, new, rows[-1]))
    return torch.cat(rows)[: length + 1][None].to(device)


def measure(implementation: str, case: str, options: argparse.Namespace):
    """Runs in one process: prints the measurements as JSON."""
    import torch

    device, length = options.device, options.length
    is_gpu = device == "cuda"
    make = {"sdpa": sdpa, "flex_attention": flex_attention, "tesela": with_tesela}[implementation]
    trained = model(make(case, length, device), options.layers, length, device)
    optimizer = torch.optim.AdamW(trained.parameters(), lr=5e-4)
    texts = [tokens(length, number, device) for number in range(options.steps)]

    def step(text):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16):
            logits = trained(text[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), text[0, 1:])
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses, times, queued = [], [], []
    for number in range(options.steps):
        if number == min(UNMEASURED, options.steps - 1) and is_gpu:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        begin = time.perf_counter()
        if is_gpu:
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
        losses.append(step(texts[number]))
        if is_gpu:
            events[1].record()
        queued.append(1e3 * (time.perf_counter() - begin))
        if is_gpu:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        times.append(events[0].elapsed_time(events[1]) if is_gpu else 1e3 * seconds)
        if number == 0:
            first = seconds
    peak = torch.cuda.max_memory_allocated() if is_gpu else 0
    measured = times[UNMEASURED:] or times[-1:]
    busy = None
    if options.profile:
        path = os.path.join(options.profile, f"{implementation}-{case}.txt")
        busy = profiled(step, texts[-1], is_gpu, path)
    print(
        json.dumps(
            {
                "first": first,
                "ms": statistics.median(measured),
                "host": statistics.median(queued[UNMEASURED:] or queued[-1:]),
                "busy": busy,
                "peak": peak,
                "losses": [loss.item() for loss in losses],
            }
        )
    )


def profiled(step, text, is_gpu: bool, path: str):
    """Writes where three steps spend their time. Gives the GPU's milliseconds of one step, or None without a GPU."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if is_gpu else [])
    with profile(activities=activities) as found:
        for _ in range(PROFILED):
            step(text)
        if is_gpu:
            torch.cuda.synchronize()
    averages = found.key_averages()
    orders = ["self_cpu_time_total"] + (["self_device_time_total"] if is_gpu else [])
    with open(path, "w", encoding="utf-8") as file:
        for order in reversed(orders):
            file.write(f"{PROFILED} steps, by {order}\n")
            file.write(averages.table(sort_by=order, row_limit=40, max_name_column_width=90))
            file.write("\n\n")
    if not is_gpu:
        return None
    kernels = [
        each.self_device_time_total
        for each in averages
        if each.device_type == torch.autograd.DeviceType.CUDA
        and not getattr(each, "is_user_annotation", False)  # such entries are spans of kernels, not kernels
    ]
    return sum(kernels) / (1e3 * PROFILED)


def run(implementation: str, case: str, options: argparse.Namespace):
    """The measurements of a fresh process, or a sentence if it fails."""
    command = [sys.executable, __file__, "--one", implementation, case, "--device", options.device]
    for name in ("length", "layers", "steps"):
        command += [f"--{name}", str(getattr(options, name))]
    if options.profile:
        command += ["--profile", options.profile]
    return fresh_process.measured(command, options.seconds)[0]


def in_turns(case: str, options: argparse.Namespace):
    """By implementation: the measurements of its processes, or a sentence if one of them failed."""
    found = {name: [] for name in options.implementations}
    for _ in range(options.processes):
        for name, measured in found.items():
            if isinstance(measured, str):
                continue
            got = run(name, case, options)
            if isinstance(got, str):
                found[name] = got
            else:
                measured.append(got)
    return found


def middle_and_least(values):
    values = list(values)
    return f"{statistics.median(values):.2f} | {min(values):.2f}"


def main() -> int:
    import torch

    parser = argparse.ArgumentParser(description="training steps by attention")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--processes", type=int, default=1, help="of each implementation")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument(
        "--implementations", nargs="+", choices=IMPLEMENTATIONS, default=list(IMPLEMENTATIONS)
    )
    parser.add_argument(
        "--seconds", type=float, default=120, help="that a process may take; default: 120"
    )
    parser.add_argument("--profile", help="a folder for a profile of each process")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.profile:
        os.makedirs(options.profile, exist_ok=True)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("skipped: torch.cuda.is_available() is false", file=sys.stderr)
        return 77
    if options.one:
        measure(*options.one, options)
        return 0
    name = torch.cuda.get_device_name() if options.device == "cuda" else "the CPU"
    print(
        f"{name}, PyTorch {torch.__version__}; {options.steps} steps over {options.length} tokens, "
        f"{options.layers} layers of {HEADS} heads ({KV_HEADS} of keys) of {HEAD_DIM}, AdamW, "
        "autocast to bfloat16\n"
    )
    print(
        "| case | implementation | ms a step | least | host, ms | least | GPU, ms | peak, MiB "
        "| first step, s | first loss | last loss | largest difference |"
    )
    print(f"|---|---{'|---:' * 10}|", flush=True)
    for case in options.cases:
        base = None
        for name, got in in_turns(case, options).items():
            if isinstance(got, str):
                print(f"| {CASES[case]} | {name} | {got} {'| ' * 9}|", flush=True)
                continue
            losses = got[0]["losses"]
            base = losses if base is None else base
            apart = max(abs(a - b) for a, b in zip(losses, base, strict=True))
            difference = "NaN" if math.isnan(sum(losses)) else f"{apart:.1e}"
            busy = "" if got[0]["busy"] is None else f"{got[0]['busy']:.2f}"
            both = " | ".join(middle_and_least(each[key] for each in got) for key in ("ms", "host"))
            first = statistics.median(each["first"] for each in got)
            print(
                f"| {CASES[case]} | {name} | {both} | {busy} | {got[0]['peak'] / 2**20:.0f} "
                f"| {first:.2f} | {losses[0]:.4f} | {losses[-1]:.4f} | {difference} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
