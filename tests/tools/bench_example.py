# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Results of the benchmark, as it writes them, for tests of what is made of them.


def entry(median):
    times = {"median_ms": median, "quartile1_ms": 0.99 * median, "quartile3_ms": 1.01 * median}
    return {"status": "ok", "bursts": {**times, "count": 9}}


KERNEL = {
    "target": "sm_90",
    "schedule": "block_m = 192, block_n = 96",
    "assembler": "ptxas 13.0",
    "origin": "compiled",
    "compile_ms": 334.4,
    "registers": 160,
    "spill_bytes": 0,
    "shared_bytes": 99000,
    "threads": 512,
}


def example():
    """Results in which Tesela takes 1 ms, then 2 ms, and the third case is wrong."""
    shape = {"variant": "full", "dtype": "bf16", "head_dim_qk": 64, "head_dim_v": 64}
    first = {"tesela": {**entry(1.0), **KERNEL}, "cudnn": entry(1.25), "fa2": entry(2.0)}
    first.update({"prototype/a": entry(0.9), "prototype/b": entry(0.8)})
    again = {**KERNEL, "origin": "memory cache", "compile_ms": 0.1}
    second = {"tesela": {**entry(2.0), **again}, "cudnn": entry(2.5)}
    second["fa2"] = {"status": "left out", "reason": "No kernel.\nTraceback"}
    third = {"tesela": {"status": "wrong", "reason": "off"}, "cudnn": entry(1.0)}
    described = [("512", first), ("1k", second), ("2k & <more>", third)]
    return {
        "device": "A <device> & co",
        "tesela": {"version": "0.1.0", "source": None},
        "torch": "2.11.0",
        "cudnn": 91900,
        "triton": None,
        "settings": {"modes": ["bursts", "sustained"]},
        "cases": [
            {
                "group": "D 64 full",
                "label": label,
                "shape": shape,
                "flops": 5e11,
                "engines": engines,
            }
            for label, engines in described
        ],
    }


def sparse_example():
    """Results of a mask beside full attention: two thirds of the pairs in its tiles are kept."""
    results = example()
    full, masked = results["cases"][:2]
    full["engines"]["tesela"].update(tiles=512, tile_flops=5e11)
    masked["shape"] = {**masked["shape"], "variant": "window 256"}
    masked["engines"] = {
        "tesela": {**entry(0.5), **KERNEL, "tiles": 9, "tile_flops": 1.5e11},
        "classified": {**entry(0.55), **KERNEL, "schedule": "block_m = 128, block_n = 96"},
        "flex": {**entry(1.0), "block_mask_ms": 0.257},
    }
    masked["flops"] = 1e11
    results["cases"] = [full, masked]
    return results
