# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A prefill with layers of the shape of Llama's 8B model in transformers, with random weights, by
# sdpa, flex_attention and Tesela: time, peak memory and first call, in Markdown. Needs a GPU.
#
#     PYTHONPATH=build/release/python python3 tools/bench/transformers_prefill.py
#
# Every case of every implementation has a process of its own, whose caches are empty. The first
# call is the first forward pass in it, with everything that it compiles; a matrix product has
# started CUDA before. The time is the median of forward passes, by CUDA events. The peak is the
# most memory that PyTorch's allocator holds during a pass, minus what it held before. --tiny only
# tries the script out on the CPU, with small layers. Exit status: 0 done, 1 an implementation
# failed, 2 bad usage, 3 a GPU or a package is missing.

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import fresh_process

IMPLEMENTATIONS = ("sdpa", "flex_attention", "tesela")
CASES = {
    "causal": "one sequence",
    "padding": "two sequences, one with an eighth of padding on the left",
    "packed": "eight sequences in one, by position ids",
    "window": "one sequence, Mistral's layers with a window of an eighth",
}
PARTS = 8


def model(implementation: str, case: str, options: argparse.Namespace):
    import torch
    import transformers

    scale = 16 if options.tiny else 1
    shape = {
        "hidden_size": 4096 // scale,
        "intermediate_size": 14336 // scale,
        "num_hidden_layers": options.layers,
        "num_attention_heads": 4 if options.tiny else 32,
        "num_key_value_heads": 1 if options.tiny else 8,
        "vocab_size": 1024,
        "max_position_embeddings": options.length,
        "attn_implementation": implementation,
    }
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(options.device):
        if case == "window":
            made = transformers.MistralModel(
                transformers.MistralConfig(**shape, sliding_window=options.length // 8)
            )
        else:
            made = transformers.LlamaModel(transformers.LlamaConfig(**shape))
    torch.set_default_dtype(torch.float32)
    return made.eval()


def inputs(case: str, length: int, device: str):
    """The arguments of a pass, and a mask of the rows that are not padding."""
    import torch

    batch = 2 if case == "padding" else 1
    generator = torch.Generator(device).manual_seed(1)
    ids = torch.randint(1, 1024, (batch, length), device=device, generator=generator)
    kept = torch.ones(batch, length, device=device, dtype=torch.long)
    given = {"input_ids": ids, "use_cache": case != "packed"}
    if case == "padding":
        kept[0, : length // 8] = 0
        given["attention_mask"] = kept
    if case == "packed":
        parts = torch.arange(length, device=device).split(-(-length // PARTS))
        given["position_ids"] = torch.cat([part - part[0] for part in parts])[None]
    return given, kept.bool()


def timer(device: str):
    """A function that gives the milliseconds of a call: GPU time, or wall time on the CPU."""
    import torch

    def on_gpu(call) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end)

    def on_cpu(call) -> float:
        start = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - start)

    return on_gpu if device == "cuda" else on_cpu


def measure(implementation: str, case: str, file: str, options: argparse.Namespace):
    """Runs in one process: prints the measurements as JSON, and writes the rows that are not
    padding."""
    import torch

    if implementation == "tesela":
        import tesela.transformers

        tesela.transformers.register()
    device = options.device
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    layers_model = model(implementation, case, options)
    given, kept = inputs(case, options.length, device)
    square = torch.ones(256, 256, device=device, dtype=torch.bfloat16)
    square @ square
    synchronize()

    def run():
        return layers_model(**given).last_hidden_state

    with torch.no_grad():
        start = time.perf_counter()
        out = run()
        synchronize()
        first = time.perf_counter() - start
        torch.save(out[kept].float().cpu(), file)
        del out
        for _ in range(2):
            run()
        synchronize()
        peak = 0
        if device == "cuda":
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        milliseconds = timer(device)
        times = [milliseconds(run) for _ in range(options.passes)]
        if device == "cuda":
            peak = torch.cuda.max_memory_allocated() - before
    print(json.dumps({"first": first, "ms": statistics.median(times), "peak": peak}))


def measured(implementation: str, case: str, file: str, options: argparse.Namespace):
    """The measurements of a fresh process, or a sentence if it fails."""
    numbers = (options.layers, options.length, options.passes)
    command = [sys.executable, __file__, "--one", implementation, case, file]
    for name, number in zip(("--layers", "--length", "--passes"), numbers, strict=True):
        command += [name, str(number)]
    command += ["--tiny"] if options.tiny else []
    result, errors = fresh_process.measured(command, options.seconds)
    if errors:
        say(f"{implementation}, {case}: {errors[-2000:]}")
    return result.replace("|", "\\|") if isinstance(result, str) else result


def difference(file: str, other: str) -> str:
    """The norm of the difference over the norm of sdpa's result."""
    import torch

    if not (os.path.exists(file) and os.path.exists(other)):
        return "-"
    one, base = torch.load(file), torch.load(other)
    return f"{((one - base).norm() / base.norm()).item():.1e}"


def say(sentence: str) -> None:
    print(f"transformers_prefill: {sentence}", file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="prefill of transformers' models by attention")
    add = parser.add_argument
    add("--length", type=int, help="tokens of a sequence; default: 8192, tiny 256")
    add("--layers", type=int, help="default: 4, tiny 2")
    add("--passes", type=int, help="that are timed; default: 20, tiny 2")
    add("--cases", nargs="+", choices=CASES, default=list(CASES))
    add("--implementations", nargs="+", choices=IMPLEMENTATIONS, default=list(IMPLEMENTATIONS))
    add("--seconds", type=float, default=120, help="that a process may take; default: 120")
    add("--tiny", action="store_true", help="small layers on the CPU, to try the script out")
    add("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.device = "cpu" if options.tiny else "cuda"
    for name, default, tiny in (("length", 8192, 256), ("layers", 4, 2), ("passes", 20, 2)):
        if getattr(options, name) is None:
            setattr(options, name, tiny if options.tiny else default)
        if getattr(options, name) < 1:
            parser.error(f"argument --{name}: {getattr(options, name)} is less than 1")
    if options.length % PARTS:
        parser.error(f"argument --length: {options.length} is not a multiple of {PARTS}")
    return options


def main() -> int:
    options = parse()
    try:
        import torch
        import transformers

        if "tesela" in options.implementations:
            import tesela.transformers  # noqa: F401
    except ImportError as error:
        say(f"{error}: install torch and transformers, and set PYTHONPATH to a build's python")
        return 3
    if options.device == "cuda" and not torch.cuda.is_available():
        say("PyTorch finds no CUDA device: name --tiny to try the script out on the CPU")
        return 3
    if options.one:
        measure(*options.one, options)
        return 0
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU, tiny layers"
    print(
        f"{where}, PyTorch {torch.__version__}, transformers "
        f"{transformers.__version__}; {options.length} tokens, {options.layers} layers, bfloat16, "
        f"median of {options.passes} passes\n"
    )
    print("| case | implementation | ms | peak, MiB | first call, s | difference from sdpa |")
    print("|---|---|---:|---:|---:|---:|", flush=True)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for case in options.cases:
            for name in options.implementations:
                files = {each: os.path.join(folder, f"{case}-{each}") for each in IMPLEMENTATIONS}
                got = measured(name, case, files[name], options)
                if isinstance(got, str):
                    print(f"| {CASES[case]} | {name} | {got} | | | |", flush=True)
                    failed = True
                    continue
                print(
                    f"| {CASES[case]} | {name} | {got['ms']:.2f} | {got['peak'] / 2**20:.0f} "
                    f"| {got['first']:.2f} | {difference(files[name], files['sdpa'])} |",
                    flush=True,
                )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
