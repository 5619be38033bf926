# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The source tree, for tests that read it.

import os

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def text_of(*path):
    """The text of the file at ROOT/path/..."""
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()
