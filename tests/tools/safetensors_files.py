# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Reads and writes .safetensors files without the library that is tested.

import json
import struct


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    return {
        name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }


def write_safetensors(path, tensors):
    """`tensors`: {name: (dtype, shape, bytes)}."""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += content
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)
