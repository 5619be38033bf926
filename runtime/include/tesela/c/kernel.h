/*===- kernel.h - Compile, describe, launch ---------------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
#ifndef TESELA_C_KERNEL_H
#define TESELA_C_KERNEL_H

#include "tesela/c/context.h"
#include "tesela/c/tensor.h"
#include "tesela/c/variant.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The value of a variant's parameter. For a scalar, data and tensor are NULL and rank is 0. A
 * captured tensor lies in the device's memory; give it by `tensor`, or by the fields before
 * that. */
typedef struct tesela_parameter {
  const char *name;
  double scalar;               /* i32: a whole number; f32: rounded to f32 */
  void *data;                  /* a captured tensor */
  tesela_type type;            /* of the captured tensor */
  int rank;                    /* of the captured tensor, 1 to TESELA_MAX_RANK */
  const int64_t *extents;      /* `rank` of them */
  const int64_t *strides;      /* `rank` of them, in elements; NULL: contiguous */
  const tesela_tensor *tensor; /* not NULL: the captured tensor; the fields above are ignored */
} tesela_parameter;

/* The sizes of a launch. */
typedef struct tesela_sizes {
  int64_t batch;
  int64_t heads;     /* of queries, a multiple of kv_heads */
  int64_t kv_heads;  /* of keys and values */
  int64_t length;    /* queries */
  int64_t kv_length; /* keys */
} tesela_sizes;

/* Compiling. */

typedef struct tesela_kernel_options {
  size_t size;              /* sizeof(tesela_kernel_options) */
  const char *variant;      /* the text, `attention name(...) { ... }`; NULL: see `algorithm` */
  const char *variant_file; /* its name in messages; NULL: "variant" */
  tesela_type input_type;   /* of q, k, v and o: bf16, f16, or f32 (host only) */
  /* Multiples of 8, at most 256; for forward attention 576 and 512. 0: the algorithm has none. */
  int head_dim_qk;
  int head_dim_v;
  const char *schedule; /* NULL: chosen by the library */
  /* The usual number of keys of a launch; 0: unknown or large. The schedule is chosen for it.
   * The kernel is correct for every length. */
  int64_t expected_length;
  /* The usual number of queries of a sequence; 0: unknown or large. If it is small, as in
   * decoding, the query heads of one key/value head share a tile. */
  int64_t expected_queries;
  /* The variant's `const` parameters, which are not arguments of a launch. Those with a default
   * may be left out. Every set of values is a separate kernel, compiled and cached on its own. */
  const tesela_parameter *constants;
  size_t constant_count;
  /* NULL: the context's device, or "host" if there is no context. Otherwise the target, for
   * example "sm_80", whose code an sm_90 runs too. */
  const char *target;
  /* The sizes of most launches; NULL: unknown. All launches then run the schedule that was tuned
   * for these sizes. Without, each launch runs the schedule that was tuned for its own sizes. If
   * nothing was tuned, the heuristic chooses. Sizes that no launch can have are refused. */
  const tesela_sizes *sizes;
  /* The template. NULL or "forward": attention. "backward": its gradients, with the same bits in
   * each launch. "backward_fused": with fewer products, dq summed in no fixed order.
   * "backward_in_parts": for the host. "backward_fast": the fastest on the target.
   * "forward_in_parts": with split keys (docs/serving.md). "merge", "write_pages",
   * "write_latents" and "matmul": need no variant. Or a template of tesela_use_template_folder.
   * Each declares its tensors; launch them by tesela_launch_tensors (see docs/runtime.md). */
  const char *algorithm;
  const char *const *bindings; /* the template's parameters; where sequences lie
                                  (docs/serving.md) */
  size_t binding_count;
  /* Not 0: launches drop pairs of queries and keys at random, in "forward" and in its gradients.
   * Which pairs are dropped depends only on a 64-bit seed and a 64-bit offset, so both passes
   * drop the same ones (docs/numerics.md). A launch then also has these scalars: "dropout.p",
   * the probability, in [0, 1]; "dropout.seed" and "dropout.seed_high", the lower and upper half
   * of the seed, each a whole number from 0 to 4294967295; "dropout.offset" and
   * "dropout.offset_high", the same for the offset; "dropout.first_q" and "dropout.first_k",
   * multiples of 16, the launch's place in a larger problem; and the captured tensor
   * "dropout.state", 4 i32 that are xored with the 4 words. All but the first two are optional. */
  int dropout;
  /* Not 0: the kernel may start with a simple schedule (see tesela_context_options' tiers). */
  int tiers;
} tesela_kernel_options;

typedef struct tesela_kernel tesela_kernel; /* compiled and loaded */

/* Takes the kernel from a cache or compiles it now. If several threads ask for the same
 * kernel at once, it is compiled once. On success give *kernel to
 * tesela_kernel_destroy. */
TESELA_API tesela_code tesela_compile(tesela_context *context, const tesela_kernel_options *options,
                                      tesela_kernel **kernel);

/* NULL is allowed. Launches of the kernel must have ended. */
TESELA_API void tesela_kernel_destroy(tesela_kernel *kernel);

/* The program after one stage of its compilation. "attn", "tile", "pipe", "llvm" and "ptx" are
 * text. "object" (host) and "cubin" (GPU; needs ptxas) are bytes. No GPU is needed. On success
 * give *program to tesela_bytes_destroy. */
TESELA_API tesela_code tesela_emit_stage(const tesela_kernel_options *options, const char *stage,
                                         tesela_bytes **program);

/* The best number of work items among which a kernel of "forward_in_parts" shares its keys on
 * the context's device: N of the binding "workers=N". `options`: the kernel's, without that
 * binding. `sizes`: of a launch, as far as the host knows them; length and kv_length are upper
 * bounds of a sequence's queries and keys. Sizes that no launch can have are refused. */
TESELA_API tesela_code tesela_workers_for(const tesela_context *context,
                                          const tesela_kernel_options *options,
                                          const tesela_sizes *sizes, int64_t *workers);

/* Templates are read from this folder instead of the built-in ones; NULL or "": the built-in
 * ones. Meant for authors of templates. Applies to the whole process. */
TESELA_API tesela_code tesela_use_template_folder(const char *folder);

/* The ptxas for contexts that are created from now on. NULL or "": the first of those in $PATH,
 * $CUDA_HOME/bin and /usr/local/cuda/bin. TESELA_NOT_FOUND: there is no program at `path`.
 * Applies to the whole process. */
TESELA_API tesela_code tesela_use_ptxas(const char *path);

typedef enum tesela_origin TESELA_AS_INT {
  TESELA_COMPILED = 0,
  TESELA_MEMORY_CACHE = 1,
  TESELA_DISK_CACHE = 2,
  TESELA_BUNDLE = 3,
  TESELA_PACKAGE = 4 /* shipped with the library */
} tesela_origin;

/* Who chose a schedule. */
typedef enum tesela_schedule_origin TESELA_AS_INT {
  TESELA_SCHEDULE_GIVEN = 0,     /* tesela_kernel_options' schedule, in part or whole */
  TESELA_SCHEDULE_HEURISTIC = 1, /* the library, without measurements */
  TESELA_SCHEDULE_TUNED = 2,     /* measurements */
  TESELA_SCHEDULE_SIMPLE = 3     /* compiles soonest: the first of two tiers */
} tesela_schedule_origin;

/* What is known about a kernel; with two tiers, about the one that launches run now. Texts and
 * stages live as long as the kernel. A number that is not known is -1, as are those of GPUs on
 * the host. */
typedef struct tesela_kernel_info {
  size_t size;           /* sizeof(tesela_kernel_info) */
  const char *target;    /* what the kernel was compiled for: "host", "sm_90" */
  const char *schedule;  /* the chosen one, in the syntax of tesela_kernel_options */
  const char *assembler; /* the path of a ptxas, or "driver 13.0"; for a shipped kernel the
                            version of the ptxas that made it; "" on the host */
  tesela_origin origin;  /* where the kernel came from */
  double compile_ms;     /* time of that call, from text or cache to loaded code */
  int registers;         /* per thread; this and the next three are of the plan's most demanding
                            kernel */
  int spill_bytes;       /* per thread, stores plus loads */
  int64_t shared_bytes;  /* per thread block, static plus dynamic */
  int threads;           /* per thread block */
  tesela_type input_type;
  const char *variant; /* its name */
  int head_dim_qk;
  int head_dim_v;
  const tesela_stage *stages; /* the parts of compile_ms, in order */
  size_t stage_count;
  /* Launches with other sizes may run other schedules (tesela_context_options' tuning). */
  tesela_schedule_origin schedule_origin;
  const char *tuned_record; /* the file with the measurements; "" if there is none */
} tesela_kernel_info;

/* Writes *info, whose size the caller has set. If that is smaller than this library's structure,
 * only that much is written. */
TESELA_API tesela_code tesela_kernel_describe(const tesela_kernel *kernel,
                                              tesela_kernel_info *info);

/* Writes the element type of the tensor `name` in launches, for example of "d_bias".
 * TESELA_INVALID_ARGUMENT: the kernel has no such tensor. */
TESELA_API tesela_code tesela_kernel_tensor_type(const tesela_kernel *kernel, const char *name,
                                                 tesela_type *type);

/* The parameters of a launch, in the order of the variant's text; without `const` parameters,
 * whose values are compiled in. The texts and extents live as long as the kernel. */
TESELA_API size_t tesela_kernel_parameter_count(const tesela_kernel *kernel);
TESELA_API tesela_code tesela_kernel_parameter(const tesela_kernel *kernel, size_t index,
                                               tesela_parameter_info *info);

/* A launch goes to `stream` (a CUstream or cudaStream_t of the device's primary context; NULL: the
 * default stream) and returns at once. On the host, `stream` is NULL and the result is there on
 * return. If an argument does not fit, nothing is launched. The arguments' structures are read
 * before the call returns; the tensors' memory must live until the launch has ended.
 *
 *   q    [batch, heads,    length,    head_dim_qk]
 *   k    [batch, kv_heads, kv_length, head_dim_qk]
 *   v    [batch, kv_heads, kv_length, head_dim_v]
 *   o    [batch, heads,    length,    head_dim_v]   written
 *   lse  [batch, heads,    length]                  written: f32, natural logarithm, contiguous;
 *                                                   NULL: not written
 *
 * q, k, v and o have the kernel's input type. heads is a multiple of kv_heads. The last stride is
 * 1. The address and other strides are multiples of 16 bytes on a GPU, of an element on the host.
 * Strides of extents of 1 are ignored. k and v may repeat heads or batches with a stride of 0. If
 * batch or length is 0, nothing is launched. If kv_length is 0, o is 0 and lse is -inf. */

/* A view [batch, heads, length, head_dim] in the device's memory. Its extents are in
 * tesela_launch_arguments. Strides are in elements and may describe any order of the axes in
 * memory. */
typedef struct tesela_view {
  void *data;
  int64_t batch_stride;
  int64_t head_stride;
  int64_t length_stride;
} tesela_view;

typedef struct tesela_launch_arguments {
  size_t size; /* sizeof(tesela_launch_arguments) */
  int64_t batch;
  int64_t heads; /* a multiple of kv_heads */
  int64_t kv_heads;
  int64_t length;                     /* queries */
  int64_t kv_length;                  /* keys */
  tesela_view q;                      /* [batch, heads, length, head_dim_qk] */
  tesela_view k;                      /* [batch, kv_heads, kv_length, head_dim_qk] */
  tesela_view v;                      /* [batch, kv_heads, kv_length, head_dim_v] */
  tesela_view o;                      /* [batch, heads, length, head_dim_v], written */
  float *lse;                         /* [batch, heads, length], contiguous, written; or NULL */
  double scale;                       /* finite and positive; 0: 1/sqrt(head_dim_qk) */
  const tesela_parameter *parameters; /* those with a default may be left out */
  size_t parameter_count;
  /* Not 0: a promise that no element of a captured tensor has changed since this kernel's last
   * launch on this stream (with a workspace: since its last launch in that memory, which nothing
   * else has written). The launch then uses again what was computed from tensors with equal
   * address, extents and strides. Never needed for a correct result; a false promise gives wrong
   * results. */
  int captures_unchanged;
  /* Device memory, at a multiple of 256 bytes, of at least tesela_kernel_workspace_bytes; NULL:
   * the kernel uses its own. It must stay allocated and unchanged until the launch has ended on
   * the device. Launches that may run at the same time need one each. A launch can be captured
   * into a graph with or without it; the graph owns whatever else the kernel needs. */
  void *workspace;
  size_t workspace_bytes;
  /* Not 0: `parameters` has a value for each parameter of tesela_kernel_parameter, in that
   * order, also for those with a default. Their names are ignored, which saves the search. */
  int parameters_in_order;
} tesela_launch_arguments;

TESELA_API tesela_code tesela_launch(const tesela_kernel *kernel,
                                     const tesela_launch_arguments *arguments, void *stream);

/* The checks of tesela_launch without the launch. */
TESELA_API tesela_code tesela_check_arguments(const tesela_kernel *kernel,
                                              const tesela_launch_arguments *arguments);

/* Writes to *bytes how large a workspace a launch of `arguments` needs; 0: none. `workspace` of
 * the arguments is ignored. If no launch of the kernel can need a workspace, wrong arguments are
 * not reported here; the launch reports them. */
TESELA_API tesela_code tesela_kernel_workspace_bytes(const tesela_kernel *kernel,
                                                     const tesela_launch_arguments *arguments,
                                                     size_t *bytes);

/* A tensor and the name by which the kernel's template declares it. The template also says
 * whether it is written; read_only is ignored. */
typedef struct tesela_named_tensor {
  const char *name;
  const tesela_tensor *tensor;
} tesela_named_tensor;

/* An extent of a launch and its name: "B", "H", "Hkv", "Sq" or "Sk". */
typedef struct tesela_named_extent {
  const char *name;
  int64_t value;
} tesela_named_extent;

/* The same launch, with tensors that carry their own types, extents and devices. */
typedef struct tesela_tensor_arguments {
  size_t size; /* sizeof(tesela_tensor_arguments) */
  const tesela_tensor *q;
  const tesela_tensor *k;
  const tesela_tensor *v;
  const tesela_tensor *o;
  const tesela_tensor *lse; /* NULL, or a tensor whose data is NULL: not written */
  double scale;             /* this and what follows: as in tesela_launch_arguments */
  const tesela_parameter *parameters;
  size_t parameter_count;
  int captures_unchanged;
  void *workspace;
  size_t workspace_bytes;
  /* Tensors of an algorithm that have other names than q, k, v, o and lse. Those of the
   * five that the kernel does not declare may be NULL; NULL is also right for one that is among
   * `tensors`. */
  const tesela_named_tensor *tensors;
  size_t tensor_count;
  /* Extents that no tensor defines. For sequences of different lengths, B is their number, and Sq
   * and Sk are upper bounds of their queries and keys. A missing one is an error, except Sk where
   * only the order of the work depends on it. */
  const tesela_named_extent *extents;
  size_t extent_count;
  int parameters_in_order; /* as in tesela_launch_arguments */
} tesela_tensor_arguments;

TESELA_API tesela_code tesela_launch_tensors(const tesela_kernel *kernel,
                                             const tesela_tensor_arguments *arguments,
                                             void *stream);

/* The checks of tesela_launch_tensors without the launch. */
TESELA_API tesela_code tesela_check_tensors(const tesela_kernel *kernel,
                                            const tesela_tensor_arguments *arguments);

/* tesela_kernel_workspace_bytes for tesela_launch_tensors. */
TESELA_API tesela_code tesela_kernel_workspace_bytes_of_tensors(
    const tesela_kernel *kernel, const tesela_tensor_arguments *arguments, size_t *bytes);

/* Writes 1 to *is_captured if a launch of the kernel on `stream` would now become part of a
 * graph, and 0 if it would run (always on the host). A graph runs later, so memory that is freed
 * after the call cannot be its workspace. Leave workspace NULL there; the graph then owns the
 * memory. */
TESELA_API tesela_code tesela_kernel_is_captured(const tesela_kernel *kernel, void *stream,
                                                 int *is_captured);

/* Waits at most `milliseconds` for the best schedule's kernel. *is_best becomes 1 if the next
 * launch outside of a capture runs it, else 0; always 1 without two tiers
 * (tesela_context_options). A failure says why it was not compiled (TESELA_CANCELLED: the
 * context was destroyed before). Launches then run the simple kernel; the next request for the
 * kernel compiles the best one again. */
TESELA_API tesela_code tesela_kernel_is_best(const tesela_kernel *kernel, int64_t milliseconds,
                                             int *is_best);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_KERNEL_H */
