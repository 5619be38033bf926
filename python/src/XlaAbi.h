//===- XlaAbi.h - XLA's interface for handlers, in C ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The part of XLA's FFI (xla/ffi/api/c_api.h in jaxlib) that a stateless handler needs. Its
// structures only grow at their ends, and versions from 0.1 (jaxlib 0.8) on agree in everything
// here. tests/python/jax_abi_test.py compares it with the header of the installed jaxlib. So jaxlib
// is not needed to build the package.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_PYTHON_XLA_ABI_H
#define TESELA_PYTHON_XLA_ABI_H

#include <cstddef>
#include <cstdint>

namespace tesela::python::xla {

/// The version for which the handler says it was written. XLA accepts every version from 0.1 up to
/// its own.
constexpr int majorVersion = 0, minorVersion = 1;

struct Extension {
  size_t size;
  int32_t type;
  Extension *next;
};

/// XLA asks for metadata before it registers a handler: the call's first extension is then this
/// one.
constexpr int32_t metadataExtension = 1;
struct Version {
  size_t size;
  Extension *extensions;
  int major, minor; ///< written by the handler
};
struct Metadata {
  size_t size;
  Version version;
  uint32_t traits; ///< written by the handler
};
/// A trait: XLA may record calls into its command buffers, which are CUDA graphs.
constexpr uint32_t commandBufferCompatible = 1;
struct MetadataExtension {
  Extension base;
  Metadata *metadata;
};

/// xla::PrimitiveType's numbers.
enum class DataType : int32_t {
  Pred = 1,
  S32 = 4,
  S64 = 5,
  U8 = 6,
  F16 = 10,
  F32 = 11,
  F64 = 12,
  BF16 = 16
};

/// Row-major and contiguous.
struct Buffer {
  size_t size;
  Extension *extensions;
  DataType type;
  void *data;
  int64_t rank;
  int64_t *extents;
};

/// For arguments and for results. All are buffers in this version.
struct Buffers {
  size_t size;
  Extension *extensions;
  int64_t count;
  int32_t *kinds;
  void **items; ///< Buffer *
};
constexpr int32_t bufferKind = 1;

struct ByteSpan {
  const char *data;
  size_t length;
};
struct Scalar {
  DataType type;
  void *value;
};
struct Array {
  DataType type;
  size_t count;
  void *data;
};
enum class AttributeKind : int32_t { Array = 1, Dictionary = 2, Scalar = 3, String = 4 };
/// Sorted by name.
struct Attributes {
  size_t size;
  Extension *extensions;
  int64_t count;
  AttributeKind *kinds;
  ByteSpan **names;
  void **items; ///< Array *, Scalar * or ByteSpan *
};

struct Error;
struct Context;

/// absl::StatusCode's numbers.
enum class ErrorCode : int32_t {
  Cancelled = 1,
  InvalidArgument = 3,
  DeadlineExceeded = 4,
  NotFound = 5,
  ResourceExhausted = 8,
  Unimplemented = 12,
  Internal = 13,
  Unavailable = 14
};
struct ErrorCreate {
  size_t size;
  Extension *extensions;
  const char *message;
  ErrorCode code;
};
struct ErrorMessage {
  size_t size;
  Extension *extensions;
  Error *error;
  const char *message; ///< output
};
struct ErrorDestroy {
  size_t size;
  Extension *extensions;
  Error *error;
};
struct StreamGet {
  size_t size;
  Extension *extensions;
  Context *context;
  void *stream; ///< output: a CUstream
};
struct MemoryAllocate {
  size_t size;
  Extension *extensions;
  Context *context;
  size_t bytes, alignment;
  void *data; ///< output
};
struct MemoryFree {
  size_t size;
  Extension *extensions;
  Context *context;
  size_t bytes;
  void *data;
};
struct DeviceOrdinalGet {
  size_t size;
  Extension *extensions;
  Context *context;
  int32_t ordinal; ///< output
};

/// The functions that XLA provides for handlers. Whoever receives an error must destroy it.
struct Api {
  size_t size;
  Extension *extensions;
  Version version;
  const void *internal;
  Error *(*createError)(ErrorCreate *);
  void (*getMessage)(ErrorMessage *);
  void (*destroyError)(ErrorDestroy *);
  void *registerHandler;
  Error *(*getStream)(StreamGet *);
  void *registerType, *getContext, *setState, *getState;
  Error *(*allocate)(MemoryAllocate *);
  Error *(*free)(MemoryFree *);
  void *schedule, *threadCount, *createFuture, *setAvailable, *setError, *getRunId;
  Error *(*getDeviceOrdinal)(DeviceOrdinalGet *);
};

struct CallFrame {
  size_t size;
  Extension *extensions;
  const Api *api;
  Context *context;
  int32_t stage;
  Buffers arguments, results;
  Attributes attributes;
};

} // namespace tesela::python::xla

#endif // TESELA_PYTHON_XLA_ABI_H
