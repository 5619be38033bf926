# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares python/src/XlaAbi.h with the header of the installed jaxlib."""

import shutil
import subprocess
from pathlib import Path

import pytest
from jax_support import jax

SOURCES = Path(__file__).parents[2] / "python" / "src"

# Our structure -> theirs, and the fields that both have.
STRUCTURES = {
    ("Extension", "XLA_FFI_Extension_Base"): "size:struct_size type:type next:next",
    (
        "Version",
        "XLA_FFI_Api_Version",
    ): "size:struct_size extensions:extension_start major:major_version minor:minor_version",
    (
        "Metadata",
        "XLA_FFI_Metadata",
    ): "size:struct_size version:api_version traits:traits",
    ("MetadataExtension", "XLA_FFI_Metadata_Extension"): "base:extension_base metadata:metadata",
    (
        "Buffer",
        "XLA_FFI_Buffer",
    ): "size:struct_size extensions:extension_start type:dtype data:data rank:rank extents:dims",
    (
        "Buffers",
        "XLA_FFI_Args",
    ): "size:struct_size extensions:extension_start count:size kinds:types items:args",
    (
        "Buffers",
        "XLA_FFI_Rets",
    ): "size:struct_size extensions:extension_start count:size kinds:types items:rets",
    ("ByteSpan", "XLA_FFI_ByteSpan"): "data:ptr length:len",
    ("Scalar", "XLA_FFI_Scalar"): "type:dtype value:value",
    ("Array", "XLA_FFI_Array"): "type:dtype count:size data:data",
    (
        "Attributes",
        "XLA_FFI_Attrs",
    ): "size:struct_size extensions:extension_start count:size kinds:types names:names items:attrs",
    (
        "ErrorCreate",
        "XLA_FFI_Error_Create_Args",
    ): "size:struct_size extensions:extension_start message:message code:errc",
    ("ErrorDestroy", "XLA_FFI_Error_Destroy_Args"): "size:struct_size error:error",
    ("StreamGet", "XLA_FFI_Stream_Get_Args"): "size:struct_size context:ctx stream:stream",
    (
        "MemoryAllocate",
        "XLA_FFI_DeviceMemory_Allocate_Args",
    ): "size:struct_size context:ctx bytes:size alignment:alignment data:data",
    (
        "MemoryFree",
        "XLA_FFI_DeviceMemory_Free_Args",
    ): "size:struct_size context:ctx bytes:size data:data",
    (
        "DeviceOrdinalGet",
        "XLA_FFI_DeviceOrdinal_Get_Args",
    ): "size:struct_size context:ctx ordinal:device_ordinal",
    (
        "Api",
        "XLA_FFI_Api",
    ): "size:struct_size version:api_version createError:XLA_FFI_Error_Create "
    "destroyError:XLA_FFI_Error_Destroy getStream:XLA_FFI_Stream_Get "
    "allocate:XLA_FFI_DeviceMemory_Allocate free:XLA_FFI_DeviceMemory_Free "
    "getDeviceOrdinal:XLA_FFI_DeviceOrdinal_Get",
    (
        "CallFrame",
        "XLA_FFI_CallFrame",
    ): "size:struct_size extensions:extension_start api:api context:ctx stage:stage "
    "arguments:args results:rets attributes:attrs",
}

VALUES = {
    "DataType::Pred": "XLA_FFI_DataType_PRED",
    "DataType::S32": "XLA_FFI_DataType_S32",
    "DataType::S64": "XLA_FFI_DataType_S64",
    "DataType::U8": "XLA_FFI_DataType_U8",
    "DataType::F16": "XLA_FFI_DataType_F16",
    "DataType::F32": "XLA_FFI_DataType_F32",
    "DataType::BF16": "XLA_FFI_DataType_BF16",
    "AttributeKind::Array": "XLA_FFI_AttrType_ARRAY",
    "AttributeKind::Dictionary": "XLA_FFI_AttrType_DICTIONARY",
    "AttributeKind::Scalar": "XLA_FFI_AttrType_SCALAR",
    "AttributeKind::String": "XLA_FFI_AttrType_STRING",
    "ErrorCode::Cancelled": "XLA_FFI_Error_Code_CANCELLED",
    "ErrorCode::InvalidArgument": "XLA_FFI_Error_Code_INVALID_ARGUMENT",
    "ErrorCode::DeadlineExceeded": "XLA_FFI_Error_Code_DEADLINE_EXCEEDED",
    "ErrorCode::NotFound": "XLA_FFI_Error_Code_NOT_FOUND",
    "ErrorCode::ResourceExhausted": "XLA_FFI_Error_Code_RESOURCE_EXHAUSTED",
    "ErrorCode::Unimplemented": "XLA_FFI_Error_Code_UNIMPLEMENTED",
    "ErrorCode::Internal": "XLA_FFI_Error_Code_INTERNAL",
    "ErrorCode::Unavailable": "XLA_FFI_Error_Code_UNAVAILABLE",
    "metadataExtension": "XLA_FFI_Extension_Metadata",
    "bufferKind": "XLA_FFI_ArgType_BUFFER",
    "majorVersion": "XLA_FFI_API_MAJOR",
    "commandBufferCompatible": "XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE",
}


def program():
    lines = [
        '#include "XlaAbi.h"',
        '#include "xla/ffi/api/c_api.h"',
        "namespace ours = tesela::python::xla;",
        "static_assert(ours::minorVersion <= XLA_FFI_API_MINOR);",
    ]
    for (ours, theirs), fields in STRUCTURES.items():
        for field in fields.split():
            mine, other = field.split(":")
            lines += [
                f"static_assert(offsetof(ours::{ours}, {mine}) == offsetof({theirs}, {other}));",
                f"static_assert(sizeof(ours::{ours}::{mine}) == sizeof({theirs}::{other}));",
            ]
    lines += [
        f"static_assert(int(ours::{ours}) == int({theirs}));" for ours, theirs in VALUES.items()
    ]
    return "\n".join(lines)


def test_layout(tmp_path):
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler to read jaxlib's header with")
    source = tmp_path / "abi.cpp"
    source.write_text(program())
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wno-invalid-offsetof"]
    command += [f"-I{SOURCES}", f"-I{jax.ffi.include_dir()}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
