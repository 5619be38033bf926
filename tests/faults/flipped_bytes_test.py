# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Every byte of an entry is flipped in turn: it is never loaded. Some of them (with --long: each) go the whole
# way: a context compiles the kernel anew, replaces the entry, and the next one finds it.

from faults import Faults

faults = Faults("every byte of an entry flipped in turn")
lines, warnings = faults.work("flip", 1 if faults.long else 100)
report = lines[-1]
faults.expect(report.get("bytes", 0) > 1000, f"{report}")
faults.expect(report.get("warnings") == report.get("whole_way"), "a warning for each that was asked for")
faults.expect_whole(1)
faults.end()
