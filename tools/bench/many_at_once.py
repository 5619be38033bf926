# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `many_at_once.py [VARIANT...]`: compiles the kernels of many variants at once, in a process that
# finds no kernels. A server with many variants waits for this at its first start. Prints the
# seconds, and the peak memory of this process and the assemblers that it starts: the sum of their
# resident sets, sampled every 20 ms; shared pages count for each process.

import argparse
import os
import tempfile
import threading
import time

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Resident memory of this process and its children."""
    own = str(os.getpid())
    total = 0
    for process in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/stat") as file:
                # The fields after the name, which may contain spaces and brackets: state, parent, …
                parent = file.read().rpartition(")")[2].split()[1]
            if own in (process, parent):
                with open(f"/proc/{process}/statm") as file:
                    total += int(file.read().split()[1]) * PAGE
        except OSError:
            continue  # the process has ended
    return total


class Peak:
    """A context manager: `bytes` is the peak memory while it is active."""

    def __enter__(self) -> "Peak":
        self.bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.bytes = max(self.bytes, resident_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description="Compiles many kernels at once, from nothing")
    parser.add_argument("variants", nargs="*", help="all of the library where none is named")
    parser.add_argument("--head-dim", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--fast-start", action="store_true", help="simple schedules first")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        os.environ["TESELA_CACHE_DIR"] = folder
        os.environ["TESELA_SHIPPED_KERNELS"] = ""
        import tesela

        variants = options.variants or list(tesela.library())
        requests = [
            tesela.Request(
                variant, head_dim=head_dim, dtype=options.dtype, length=options.length
            )
            for variant in variants
            for head_dim in options.head_dim
        ]
        tesela.devices()  # starts the GPU's driver
        with Peak() as peak:
            begin = time.perf_counter()
            work = tesela.prepare(requests, fast_start=options.fast_start)
            work.wait()
            first = time.perf_counter() - begin
            work.wait(best=True)
            best = time.perf_counter() - begin
        print(
            f"{len(requests)} kernels on {len(os.sched_getaffinity(0))} processors: {first:.2f} s"
            + (f", the best schedules {best:.2f} s" if options.fast_start else "")
            + f", {peak.bytes / 1e9:.2f} GB"
        )


if __name__ == "__main__":
    main()
