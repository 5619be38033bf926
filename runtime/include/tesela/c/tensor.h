/*===- tensor.h - Views of tensors, DLPack ----------------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
#ifndef TESELA_C_TENSOR_H
#define TESELA_C_TENSOR_H

#include "tesela/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TESELA_MAX_RANK 8

/* Where a tensor lies, with DLPack's numbers. */
typedef enum tesela_memory TESELA_AS_INT {
  TESELA_MEMORY_UNKNOWN = 0, /* assumed to be on the device that uses it */
  TESELA_MEMORY_HOST = 1,
  TESELA_MEMORY_CUDA = 2,
  TESELA_MEMORY_PINNED = 3,  /* host memory, locked for a GPU; usable on the host */
  TESELA_MEMORY_MANAGED = 13 /* CUDA's managed memory; usable everywhere */
} tesela_memory;

/* A view: address, type, extents and strides. It does not own the memory. */
typedef struct tesela_tensor {
  size_t size; /* sizeof(tesela_tensor) */
  void *data;  /* of the first element; inputs are only read */
  tesela_type type;
  int rank;                         /* 0 to TESELA_MAX_RANK */
  int64_t extents[TESELA_MAX_RANK]; /* the first `rank` are used */
  int64_t strides[TESELA_MAX_RANK]; /* in elements; the first `rank` are used */
  tesela_memory memory;             /* checked against the device unless it is unknown */
  int device_index;                 /* CUDA's ordinal, for TESELA_MEMORY_CUDA */
  int read_only;                    /* not 0: refused where a kernel writes it */
} tesela_tensor;

/* These functions write *tensor, whose size the caller has set. They access no element. */

/* Row-major without gaps. `memory` becomes unknown. */
TESELA_API tesela_code tesela_tensor_contiguous(void *data, tesela_type type, int rank,
                                                const int64_t *extents, tesela_tensor *tensor);

/* The view [batch, heads, length, head_dim] of memory in the order [batch, length, heads,
 * head_dim]. `memory` becomes unknown. */
TESELA_API tesela_code tesela_tensor_bshd(void *data, tesela_type type, int64_t batch,
                                          int64_t heads, int64_t length, int64_t head_dim,
                                          tesela_tensor *tensor);

/* DLPack's tensors (https://dmlc.github.io/dlpack) of f32, f16, bf16, i32, i64 and bool (also as
 * u8), on the CPU or CUDA. The result is a view of the same memory. The caller keeps the managed
 * tensor until the last launch that uses the view has ended, and then calls its deleter; the
 * library takes no ownership. TESELA_UNSUPPORTED names any other type or device.
 *
 * dlpack.h is not needed, and may be included before or after this header. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* `dl_tensor` is a `const DLTensor *`, a type that cannot be named without dlpack.h. */
TESELA_API tesela_code tesela_tensor_from_dl_tensor(const void *dl_tensor, tesela_tensor *tensor);
TESELA_API tesela_code tesela_tensor_from_dl_managed_tensor(const struct DLManagedTensor *managed,
                                                            tesela_tensor *tensor);

/* For DLPack 1.x; other major versions: TESELA_UNSUPPORTED. The read-only flag becomes
 * `read_only`. */
TESELA_API tesela_code tesela_tensor_from_dl_managed_tensor_versioned(
    const struct DLManagedTensorVersioned *managed, tesela_tensor *tensor);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_TENSOR_H */
