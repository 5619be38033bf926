# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Random data for the library's variants. PyTorch is imported only when data are drawn, so that the
# variants can be listed without it.

from typing import Any

from cases import Case


class Draw:
    """Random data for a case, on its device."""

    def __init__(self, case: Case, device: str, seed: int):
        import torch

        self.torch = torch
        self.device = device
        self.batch, self.heads = case.batch, case.heads
        self.queries, self.length = case.queries, case.length
        # Arguments for each function that makes a random tensor.
        generator = torch.Generator(device).manual_seed(seed)
        self.random = {"device": device, "generator": generator}

    def bounded(self, extent: int) -> int:
        """`extent`, but at most a quarter of the keys, so that a window or a prefix has an
        effect at short lengths too."""
        return min(extent, max(2, self.length // 4))

    def width(self) -> int:
        """The width of a picture that has one pixel for each key: 128 for 8192 keys (64 rows)."""
        return 2 ** -(-(self.length - 1).bit_length() // 2)

    def tensor(self, values: Any, type_name: str) -> Any:
        """`values`, a tensor or a list, as f32, bf16, i32 or bool on the device."""
        types = {"f32": "float32", "bf16": "bfloat16", "i32": "int32", "bool": "bool"}
        result = self.torch.as_tensor(values)
        return result.to(self.device, getattr(self.torch, types[type_name])).contiguous()

    def normal(self, *extents: int) -> Any:
        return self.torch.randn(*extents, **self.random)

    def integers(self, low: int, high: int, *extents: int) -> Any:
        """Uniform integers from `low` to `high` - 1, as i32."""
        return self.torch.randint(low, high, extents, dtype=self.torch.int32, **self.random)

    def places(self) -> Any:
        return self.torch.arange(self.length, dtype=self.torch.int32, device=self.device)

    def slopes(self) -> Any:
        """The slopes of the ALiBi paper (arXiv:2108.12409); the number of heads must be a power
        of two."""
        values = [2.0 ** (-8 * (head + 1) / self.heads) for head in range(self.heads)]
        return self.tensor(values, "f32")

    def documents(self) -> Any:
        """[B, Sk]: the document of each position. Documents end anywhere; their mean length is
        700."""
        count = max(4, self.length // 700)
        ends = self.integers(1, self.length, self.batch, count - 1).sort().values
        places = self.places().expand(self.batch, -1).contiguous()
        return self.torch.searchsorted(ends, places, right=True, out_int32=True)

    def permutations(self, count: int, extent: int) -> Any:
        """[count, extent]: random permutations, as i32."""
        rows = [self.torch.randperm(extent, **self.random) for _ in range(count)]
        return self.tensor(self.torch.stack(rows), "i32")
