/*===- bundle.h - Kernels compiled ahead of time ----------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
/*
 * A bundle is a folder with one variant's kernels for several targets: their launch plans with the
 * code, a manifest (manifest.json), and for GPUs a C header and a launcher that needs the driver
 * alone. docs/export.md describes the files.
 */
#ifndef TESELA_C_BUNDLE_H
#define TESELA_C_BUNDLE_H

#include "tesela/c/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tesela_bundle tesela_bundle; /* what a manifest tells */

typedef struct tesela_bundle_options {
  size_t size;                         /* sizeof(tesela_bundle_options) */
  const tesela_kernel_options *kernel; /* its `target` is not looked at */
  const char *const *targets;          /* "sm_90", "host"; each once, at least one */
  size_t target_count;
  /* What the files and the C functions are called after, an identifier of C; NULL: the variant's
   * name. */
  const char *name;
  /* Not 0: GPUs get PTX even where there is a ptxas: newer GPUs run it too, after the driver has
   * assembled it. Else a cubin where a ptxas is found. */
  int ptx;
  /* Not 0: no launcher in C: the bundle is for tesela_bundle_load. So it may have kernels that no
   * launcher knows: those with dropout, or with a tensor without strides that has an extent which no
   * other argument gives. */
  int no_launcher;
} tesela_bundle_options;

/* Compiles the kernel for each target and writes the bundle into `folder`, which is made where it
 * is not there. A folder with other files and no bundle is left alone (TESELA_INVALID_ARGUMENT).
 * Needs no GPU. `bundle` may be NULL; else *bundle must be given to tesela_bundle_destroy. */
TESELA_API tesela_code tesela_bundle_export(const tesela_bundle_options *options,
                                            const char *folder, tesela_bundle **bundle);

/* Reads the manifest of the bundle at `path`, its folder or the manifest itself, and nothing else.
 * Nothing in it is trusted: whatever is damaged is TESELA_INPUT_OUTPUT. On success *bundle must be
 * given to tesela_bundle_destroy. */
TESELA_API tesela_code tesela_bundle_read(const char *path, tesela_bundle **bundle);
TESELA_API void tesela_bundle_destroy(tesela_bundle *bundle); /* NULL is allowed; removes no file */

/* Texts live as long as the bundle's handle. */
typedef struct tesela_bundle_info {
  size_t size; /* sizeof(tesela_bundle_info) */
  const char *name;
  const char *version;      /* Tesela's, which made it */
  const char *variant;      /* its name */
  const char *variant_text; /* as it was given */
  tesela_type input_type;
  int head_dim_qk;
  int head_dim_v;
  size_t target_count; /* of tesela_bundle_target_describe */
} tesela_bundle_info;

/* Writes *info, whose size the caller has set. */
TESELA_API tesela_code tesela_bundle_describe(const tesela_bundle *bundle,
                                              tesela_bundle_info *info);

/* A target's part of a bundle. */
typedef struct tesela_bundle_target {
  size_t size;        /* sizeof(tesela_bundle_target) */
  const char *target; /* "host", "sm_90" */
  /* What the code was assembled for, which decides where it runs: "sm_80", "sm_90a"; of the host
   * the CPU's features that it needs, as LLVM names them: "avx2,fma". */
  const char *architecture;
  const char *file;        /* the launch plan with its code, in the bundle's folder */
  const char *digest;      /* SHA-256 of the file, 64 hexadecimal digits */
  uint64_t bytes;          /* of the file */
  const char *code_format; /* "cubin", "ptx" or "object" */
  const char *schedule;    /* as it was chosen */
} tesela_bundle_target;

/* Writes *target, whose size the caller has set. */
TESELA_API tesela_code tesela_bundle_target_describe(const tesela_bundle *bundle, size_t index,
                                                     tesela_bundle_target *target);

/* The kernel of the bundle at `path` (as for tesela_bundle_read) for the context's device: that of
 * the newest target that runs there. Files are held against the digests in the manifest.
 * TESELA_NOT_FOUND where no target runs on the device; the sentence lists those that the bundle
 * has. Neither cache is looked at. On success *kernel must be given to tesela_kernel_destroy.
 *
 * Digests show damage, not intent: a bundle is code, to be loaded from where programs are. */
TESELA_API tesela_code tesela_bundle_load(tesela_context *context, const char *path,
                                          tesela_kernel **kernel);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_BUNDLE_H */
