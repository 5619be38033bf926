# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The disk is full: each context warns once, every kernel is right, no incomplete file stays, and kernels are stored
# again when there is room. The disk becomes full in three ways: a preloaded library makes calls fail; the size of files
# is limited; and, where mounts are allowed, a small tmpfs is used.

import os
import resource
import signal

from faults import Faults, in_mount_namespace, mounted

mounts = in_mount_namespace()
faults = Faults("a full disk")
KERNELS = 10


def expect_survival(folder, way, **options):
    lines, warnings = faults.work("compile", 0, KERNELS, folder=folder, **options)
    faults.expect(lines[-1] == {"compiled": KERNELS, "warnings": 1}, f"{way}: {lines[-1]}")
    faults.expect("not kept on disk" in warnings and "TESELA_CACHE_DIR" in warnings,
                  f"{way}: {warnings.strip()}")
    faults.expect(faults.temporaries(folder) == [], f"{way}: nothing unfinished is left")


def expect_recovery(folder, way):
    lines, warnings = faults.work("compile", 0, KERNELS, folder=folder)
    faults.expect(lines[-1]["warnings"] == 0, f"{way}: then there is room: {lines[-1]}")
    faults.expect_whole(KERNELS, folder)


for call, environment in faults.calls_that_fail("error"):
    folder = os.path.join(faults.temporary.name, call)
    expect_survival(folder, f"{call} fails", environment=environment)
    expect_recovery(folder, f"{call} failed")


def limit_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


folder = os.path.join(faults.temporary.name, "limit")
expect_survival(folder, "files of 1000 bytes at most", preexec_fn=limit_files, restore_signals=False)
expect_recovery(folder, "files were limited")

if mounts:
    with mounted("-t", "tmpfs", "-o", "size=64k", "tmpfs",
                 os.path.join(faults.temporary.name, "tmpfs")) as folder:
        filler = os.path.join(folder, "filler")
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError as error:
                faults.say(f"the tmpfs is full: {error}")
        expect_survival(folder, "a full tmpfs")
        os.truncate(filler, 20000)
        lines, _ = faults.work("compile", 0, KERNELS, folder=folder)
        kept = faults.tesela_cache("list", folder=folder)[1]
        faults.expect(lines[-1] == {"compiled": KERNELS, "warnings": 1} and 0 < len(kept) < KERNELS,
                      f"room for some: {len(kept)} kernels are kept, {lines[-1]}")
        faults.expect_whole(len(kept), folder)
        lines, _ = faults.work("compile", 0, KERNELS, folder=folder)
        faults.expect(lines[-1]["compiled"] == KERNELS - len(kept), f"and are found: {lines[-1]}")
else:
    faults.skip("mounts are not allowed here (needs root): no small tmpfs")
faults.end()
