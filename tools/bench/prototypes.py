# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Kernels that exist already as cubins, timed beside the others. A folder has a spec.json, a list of
# {name, file, D, causal, BM, BN, nt (threads), smem, persist, dyn, swz, rev, tail, orows?, l2p?,
# H}. Each file has one function `attn`:
#
#   attn(tensor maps of q, k, v, o; u32 length, row blocks of a head, work items, heads of a group,
#        reversed; f32 scale times log2(e); u64 address of the work counter)
#
# The tensors are bf16, [B, H, S, D] without gaps. The mask is full or causal. There is no LSE.

import ctypes
import json
import math
import os
from ctypes import byref, c_char_p, c_float, c_uint32, c_uint64, c_void_p
from typing import Any

import torch

from cases import Case
from engines import Data, Prepared, Unavailable

BFLOAT16, SWIZZLE_128B, MAX_DYNAMIC_SHARED_SIZE = 9, 3, 8  # the driver API's values


def check(driver: ctypes.CDLL, code: int, what: str) -> None:
    if code:
        name = c_char_p()
        driver.cuGetErrorName(code, byref(name))
        raise Unavailable(f"{what}: {name.value.decode() if name.value else code}")


class Prototype:
    def __init__(self, folder: str, entry: dict[str, Any]):
        self.folder, self.entry = folder, entry
        self.name = f"prototype/{entry['name']}"
        self.driver = ctypes.CDLL("libcuda.so.1")

    def applies(self, case: Case) -> bool:
        entry = self.entry
        return (
            case.variant.plain == ("causal" if entry["causal"] else "full")
            and case.type_name == "bf16"
            and case.head_dim_qk == case.head_dim_v == entry["D"]
            and case.heads == case.kv_heads
            and entry["H"] in (0, case.heads)
            and case.queries == case.length
            and (entry["causal"] or entry["tail"] or case.length % entry["BN"] == 0)
        )

    def tensor_map(self, tensor: torch.Tensor, rows: int) -> tuple[int, Any]:
        """(a tensor map for boxes of `rows` x 64, 128 bytes; the objects that it needs to stay
        alive)."""
        batch, heads, length, head_dim = tensor.shape
        memory = ctypes.create_string_buffer(128 + 64)
        address = -(-ctypes.addressof(memory) // 64) * 64
        code = self.driver.cuTensorMapEncodeTiled(
            c_void_p(address), BFLOAT16, 3, c_void_p(tensor.data_ptr()),
            (c_uint64 * 3)(head_dim, length, batch * heads),
            (c_uint64 * 2)(head_dim * 2, length * head_dim * 2),
            (c_uint32 * 3)(64, rows, 1), (c_uint32 * 3)(1, 1, 1),
            0, SWIZZLE_128B, self.entry.get("l2p", 3), 0,
        )  # fmt: skip
        check(self.driver, code, "cuTensorMapEncodeTiled")
        return address, memory

    def head_group(self, case: Case) -> int:
        """How many heads are worked on together: as many as fit into about 34 MB of the L2
        cache."""
        group = self.entry["swz"]
        if group == 0:
            group = 1
            while group < 16 and group * 2 * case.length * case.head_dim_qk * 4 <= 34e6:
                group *= 2
        while (case.batch * case.heads) % group:
            group //= 2
        return group

    def prepare(self, case: Case, data: Data) -> Prepared:
        driver, entry = self.driver, self.entry
        module, function = c_void_p(), c_void_p()
        with open(os.path.join(self.folder, entry["file"]), "rb") as file:
            check(driver, driver.cuModuleLoadData(byref(module), file.read()), entry["file"])
        check(driver, driver.cuModuleGetFunction(byref(function), module, b"attn"), entry["file"])
        check(
            driver,
            driver.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED_SIZE, entry["smem"]),
            "shared memory",
        )
        row_blocks = -(-case.length // entry["BM"])
        items = row_blocks * case.batch * case.heads
        processors = torch.cuda.get_device_properties(0).multi_processor_count
        grid = min(items, processors) if entry["persist"] else items
        counter = torch.zeros(1, device="cuda", dtype=torch.int32)
        values = [
            *map(c_uint32, (case.length, row_blocks, items, self.head_group(case), entry["rev"])),
            c_float(data.scale * math.log2(math.e)),
            c_uint64(counter.data_ptr()),
        ]
        outputs, arguments, keep = [], [], [values, counter]
        for q, k, v in zip(data.q, data.k, data.v):
            o = torch.full_like(q, float("nan"))
            boxes = ((q, 64), (k, entry["BN"]), (v, entry["BN"]), (o, entry.get("orows", 64)))
            maps = [self.tensor_map(tensor, rows) for tensor, rows in boxes]
            addresses = [address for address, _ in maps] + [ctypes.addressof(x) for x in values]
            outputs.append(o)
            arguments.append((c_void_p * len(addresses))(*addresses))
            keep.append(maps)
        stream = c_void_p(torch.cuda.current_stream().cuda_stream or None)

        def launch(index):
            if entry["dyn"]:
                driver.cuMemsetD32Async(c_uint64(counter.data_ptr()), 0, ctypes.c_size_t(1), stream)
            code = driver.cuLaunchKernel(
                function,
                grid,
                1,
                1,
                entry["nt"],
                1,
                1,
                entry["smem"],
                stream,
                arguments[index],
                None,
            )
            check(driver, code, "cuLaunchKernel")
            return outputs[index]

        launch.keep = keep  # the launches point to these objects
        return Prepared(launch)


def prototypes(folder: str) -> list[Prototype]:
    with open(os.path.join(folder, "spec.json")) as file:
        return [Prototype(folder, entry) for entry in json.load(file)]
