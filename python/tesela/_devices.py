# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The devices that kernels can run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tesela import _native
from tesela._contexts import HOST
from tesela._errors import InvalidArgumentError, NotFoundError


@dataclass(frozen=True)
class Device:
    """A GPU, or the host.

    Attributes:
        kind: "cuda" or "host".
        index: CUDA's ordinal; 0 for the host.
        name: "NVIDIA H200", or the CPU's name.
        target: what kernels are compiled for: "sm_90", or "host".
        driver: the CUDA version of the driver, "13.0"; "" for the host.
        sm: the compute capability, 90 for 9.0; 0 for the host.
        processors: multiprocessors, or the host's hardware threads.
        memory_bytes: the memory of the device.
    """

    kind: str
    index: int
    name: str
    target: str
    driver: str
    sm: int
    processors: int
    memory_bytes: int

    def __str__(self) -> str:
        return "host" if self.kind == "host" else f"cuda:{self.index}"


def devices() -> tuple[Device, ...]:
    """The GPUs in the driver's order, followed by the host."""
    try:
        gpus = _native.devices("cuda")
    except NotFoundError:
        gpus = []
    return tuple(Device(**each) for each in gpus + _native.devices("host"))


def device_number(device: Any) -> int:
    """The number of "host", "cuda" or "cuda:1", also as a :class:`Device` or a ``torch.device``.

    For None it is that of the first GPU, or of the host.
    """
    if device is None:
        return 0 if devices()[0].kind == "cuda" else HOST
    text = str(device)
    if text in ("host", "cpu"):
        return HOST
    kind, _, index = text.partition(":")
    if kind == "cuda" and (index.isdecimal() or text == "cuda"):
        return int(index or 0)
    raise InvalidArgumentError(
        f"the device is {device!r}, it must be 'host', 'cuda', or 'cuda:1' with CUDA's number"
    )
