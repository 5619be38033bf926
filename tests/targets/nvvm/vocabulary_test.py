# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Checks that no word of attention stands in the code of the pipe dialect and of the GPU target, because they must
# compile any kernel. Comments may say what the code is for. Arguments: the folders.

import pathlib
import re
import sys

words = re.compile(r"softmax|mask|attn", re.IGNORECASE)
found, count = [], 0
for folder in sys.argv[1:]:
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.suffix not in {".cpp", ".h", ".td"}:
            continue
        count += 1
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = line.split("//")[0]
            if words.search(code):
                found.append(f"{path}:{number}: {code.strip()}")
if count == 0:
    sys.exit(f"no sources in {sys.argv[1:]}; check the folders")
if found:
    sys.exit("words of attention in code that is for any kernel:\n" + "\n".join(found))
print(f"{count} files are free of them")
