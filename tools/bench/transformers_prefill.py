# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A prefill by layers of the shape of Llama's 8B model in transformers, with random weights, by sdpa,
# flex_attention and Tesela: time, peak memory, first call, in Markdown. Needs a GPU.
#
#     PYTHONPATH=build/release/python python tools/bench/transformers_prefill.py [--length 8192] [--layers 4]
#
# Every case of every implementation has a process of its own, whose caches are empty. The first call is the first
# forward pass in it, with all that it compiles, after a matrix product has brought up CUDA. The time is
# the median of forward passes by CUDA events. The peak is what PyTorch's allocator has at most during
# a pass, less what it has before.

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

IMPLEMENTATIONS = ("sdpa", "flex_attention", "tesela")
CASES = {
    "causal": "one sequence",
    "padding": "two sequences, one with 1000 tokens of padding on the left",
    "packed": "eight sequences in one, by position ids",
    "window": "one sequence, Mistral's layers with a window of 1024",
}
PADDING, PARTS, WINDOW = 1000, 8, 1024


def model(implementation: str, case: str, layers: int, length: int):
    import torch
    import transformers

    shape = {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": layers,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 1024,
        "max_position_embeddings": length,
        "attn_implementation": implementation,
    }
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        if case == "window":
            made = transformers.MistralModel(
                transformers.MistralConfig(**shape, sliding_window=WINDOW)
            )
        else:
            made = transformers.LlamaModel(transformers.LlamaConfig(**shape))
    torch.set_default_dtype(torch.float32)
    return made.eval()


def inputs(case: str, length: int):
    """The arguments of a pass, and which of its rows are no padding."""
    import torch

    batch = 2 if case == "padding" else 1
    generator = torch.Generator("cuda").manual_seed(1)
    ids = torch.randint(1, 1024, (batch, length), device="cuda", generator=generator)
    kept = torch.ones(batch, length, device="cuda", dtype=torch.long)
    given = {"input_ids": ids, "use_cache": case != "packed"}
    if case == "padding":
        kept[0, :PADDING] = 0
        given["attention_mask"] = kept
    if case == "packed":
        parts = torch.arange(length, device="cuda").split(-(-length // PARTS))
        given["position_ids"] = torch.cat([part - part[0] for part in parts])[None]
    return given, kept.bool()


def measure(implementation: str, case: str, layers: int, length: int, passes: int, file: str):
    """One process: prints what was measured as JSON, and writes the rows that are no padding."""
    import torch

    if implementation == "tesela":
        import tesela.transformers

        tesela.transformers.register()
    layers_model = model(implementation, case, layers, length)
    given, kept = inputs(case, length)
    square = torch.ones(256, 256, device="cuda", dtype=torch.bfloat16)
    square @ square
    torch.cuda.synchronize()

    def run():
        return layers_model(**given).last_hidden_state

    with torch.no_grad():
        start = time.perf_counter()
        out = run()
        torch.cuda.synchronize()
        first = time.perf_counter() - start
        torch.save(out[kept].float().cpu(), file)
        del out
        for _ in range(2):
            run()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        times = []
        for _ in range(passes):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
        peak = torch.cuda.max_memory_allocated() - before
    versions = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name()}
    print(json.dumps({"first": first, "ms": statistics.median(times), "peak": peak, **versions}))


def measured(implementation: str, case: str, file: str, options: argparse.Namespace):
    """What a fresh process measures; a sentence where it fails."""
    numbers = (options.layers, options.length, options.passes)
    command = [sys.executable, __file__, "--one", implementation, case, file]
    for name, number in zip(("--layers", "--length", "--passes"), numbers, strict=True):
        command += [name, str(number)]
    with tempfile.TemporaryDirectory() as folder:
        caches = ("TESELA_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
        environment = {**os.environ, **{name: os.path.join(folder, name) for name in caches}}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["no message"])[-1][:160]
    return json.loads(done.stdout.strip().splitlines()[-1])


def difference(file: str, other: str) -> str:
    """The norm of the difference by the norm of what sdpa gives."""
    import torch

    if not (os.path.exists(file) and os.path.exists(other)):
        return "-"
    one, base = torch.load(file), torch.load(other)
    return f"{((one - base).norm() / base.norm()).item():.1e}"


def main() -> int:
    import torch
    import transformers

    parser = argparse.ArgumentParser(description="prefill of transformers' models by attention")
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: torch.cuda.is_available() is false", file=sys.stderr)
        return 77
    if options.one:
        implementation, case, file = options.one
        measure(implementation, case, options.layers, options.length, options.passes, file)
        return 0
    print(
        f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, transformers "
        f"{transformers.__version__}; {options.length} tokens, {options.layers} layers, bfloat16, "
        f"median of {options.passes} passes\n"
    )
    print("| case | implementation | ms | peak, MiB | first call, s | difference from sdpa |")
    print("|---|---|---:|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for case in options.cases:
            for name in IMPLEMENTATIONS:
                files = {each: os.path.join(folder, f"{case}-{each}") for each in IMPLEMENTATIONS}
                got = measured(name, case, files[name], options)
                if isinstance(got, str):
                    print(f"| {CASES[case]} | {name} | {got} | | | |", flush=True)
                    continue
                print(
                    f"| {CASES[case]} | {name} | {got['ms']:.2f} | {got['peak'] / 2**20:.0f} "
                    f"| {got['first']:.2f} | {difference(files[name], files['sdpa'])} |",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
