/*===- bundle.h - Kernels compiled ahead of time ----------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
/*
 * A bundle is a folder with the kernels of one variant for several targets. It contains launch
 * plans with their code and a manifest (manifest.json); for GPUs also a C header and a launcher
 * that needs only CUDA's driver. docs/export.md describes the files.
 */
#ifndef TESELA_C_BUNDLE_H
#define TESELA_C_BUNDLE_H

#include "tesela/c/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tesela_bundle tesela_bundle; /* the contents of a manifest */

typedef struct tesela_bundle_options {
  size_t size;                         /* sizeof(tesela_bundle_options) */
  const tesela_kernel_options *kernel; /* its `target` is ignored */
  const char *const *targets;          /* "sm_90", "host"; each once, at least one */
  size_t target_count;
  /* The files and the C functions are named after this C identifier; NULL: after the
   * variant. */
  const char *name;
  /* Not 0: GPUs get PTX even if ptxas is installed. The driver assembles it, so newer GPUs run
   * it too. 0: a cubin if ptxas is found, else PTX. */
  int ptx;
  /* Not 0: no launcher in C; only tesela_bundle_load can load the bundle. Such a bundle may
   * contain kernels that a launcher cannot start: those with dropout, and those with a tensor
   * without strides whose extent cannot be derived from another argument. */
  int no_launcher;
} tesela_bundle_options;

/* Compiles the kernel for each target and writes the bundle into `folder`, which is created if
 * it does not exist. A folder that has other files but no bundle is refused
 * (TESELA_INVALID_ARGUMENT). Needs no GPU. `bundle` may be NULL; otherwise give *bundle to
 * tesela_bundle_destroy. */
TESELA_API tesela_code tesela_bundle_export(const tesela_bundle_options *options,
                                            const char *folder, tesela_bundle **bundle);

/* Reads only the manifest of the bundle at `path`, which is the folder or the manifest itself.
 * The contents are checked: any damage is TESELA_INPUT_OUTPUT. On success give *bundle to
 * tesela_bundle_destroy. */
TESELA_API tesela_code tesela_bundle_read(const char *path, tesela_bundle **bundle);
TESELA_API void tesela_bundle_destroy(tesela_bundle *bundle); /* NULL is allowed; removes no file */

/* Texts live as long as the bundle's handle. */
typedef struct tesela_bundle_info {
  size_t size; /* sizeof(tesela_bundle_info) */
  const char *name;
  const char *version;      /* the version of Tesela that made the bundle */
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

/* The part of a bundle for one target. */
typedef struct tesela_bundle_target {
  size_t size;        /* sizeof(tesela_bundle_target) */
  const char *target; /* "host", "sm_90" */
  /* The machine that the code was assembled for, which decides where it runs: "sm_80", "sm_90a".
   * For the host the CPU features that the code needs, in LLVM's names: "avx2,fma". */
  const char *architecture;
  const char *file;        /* the launch plan with its code, in the bundle's folder */
  const char *digest;      /* SHA-256 of the file, 64 hexadecimal digits */
  uint64_t bytes;          /* of the file */
  const char *code_format; /* "cubin", "ptx" or "object" */
  const char *schedule;    /* the chosen one */
} tesela_bundle_target;

/* Writes *target, whose size the caller has set. */
TESELA_API tesela_code tesela_bundle_target_describe(const tesela_bundle *bundle, size_t index,
                                                     tesela_bundle_target *target);

/* Loads a kernel from the bundle at `path` (see tesela_bundle_read) for the context's device. If
 * several targets run there, takes the newest. Files are checked against the manifest's digests.
 * TESELA_NOT_FOUND: no target runs on the device; the message lists the bundle's targets. The
 * caches are not used. On success give *kernel to tesela_kernel_destroy.
 *
 * Digests detect damage, not malice. A bundle is code: load only bundles whose source you trust. */
TESELA_API tesela_code tesela_bundle_load(tesela_context *context, const char *path,
                                          tesela_kernel **kernel);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_BUNDLE_H */
