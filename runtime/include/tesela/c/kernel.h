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

/* The value of a variant's parameter. A scalar has data and tensor NULL and rank 0. A captured
 * tensor lies in the device's memory, and is given by `tensor`, or by the fields before it. */
typedef struct tesela_parameter {
  const char *name;
  double scalar;               /* i32: a whole number; f32: rounded to f32 */
  void *data;                  /* a captured tensor */
  tesela_type type;            /* of the captured tensor */
  int rank;                    /* of the captured tensor, 1 to TESELA_MAX_RANK */
  const int64_t *extents;      /* `rank` of them */
  const int64_t *strides;      /* `rank` of them, in elements; NULL: without gaps */
  const tesela_tensor *tensor; /* not NULL: the captured tensor, whatever the fields above say */
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
  /* Multiples of 8 up to 256; of forward attention up to 576 and 512. 0: the algorithm has none. */
  int head_dim_qk;
  int head_dim_v;
  const char *schedule; /* NULL: chosen by the library */
  /* How many keys launches tend to have; 0: not known, or many. A kernel is right for every length.
   */
  int64_t expected_length;
  /* How many queries a sequence tends to have; 0: not known, or many. Few, as in decoding, let the
   * query heads of a key/value head share a tile. */
  int64_t expected_queries;
  /* The variant's `const` parameters, scalars that a launch does not have; those with a default may
   * be left out. Every set of values is a kernel of its own, compiled and cached apart. */
  const tesela_parameter *constants;
  size_t constant_count;
  /* NULL: the context's device, or "host" where there is no context. Else what the kernel is for:
   * "sm_80", say, which an sm_90 runs too. */
  const char *target;
  /* The sizes that most launches will have; NULL: not known. The schedule is then the tuned one for
   * these, if there is one, for all launches; without, each launch has the tuned one for its own
   * sizes, if there is one. */
  const tesela_sizes *sizes;
  /* What to compute of the variant: NULL or "forward", attention; "backward", its gradients, with
   * the same bits in each launch; "backward_fused", the same with fewer products and sums of dq in
   * no fixed order; "backward_in_parts", the host's; "backward_fast", the fastest on the target;
   * "forward_in_parts", with split keys (docs/serving.md); "merge", "write_pages" and "matmul",
   * which need no variant; or a template of tesela_use_template_folder's. Each declares tensors
   * of its own, which tesela_launch_tensors takes (see docs/runtime.md). */
  const char *algorithm;
  const char *const *bindings; /* the template's; where sequences lie (docs/serving.md) */
  size_t binding_count;
  /* Not 0: launches drop pairs of queries and keys at random, of "forward" and of its
   * gradients. Which pairs follows from a seed and an offset of 64
   * bits alone, so that both passes drop the same ones (docs/numerics.md). A launch's parameters
   * are then also the scalars
   * "dropout.p", the probability, in [0, 1]; "dropout.seed" and "dropout.seed_high", the seed's
   * lower and upper half, each a whole number from 0 to 4294967295; "dropout.offset" and
   * "dropout.offset_high" likewise; "dropout.first_q" and "dropout.first_k", multiples of 16, where
   * the launch lies in a whole; "dropout.state", 4 i32 xored to the 4 words; all but 2 optional. */
  int dropout;
  /* Not 0: the kernel may begin with a simple schedule, as with tesela_context_options' tiers. */
  int tiers;
} tesela_kernel_options;

typedef struct tesela_kernel tesela_kernel; /* compiled and loaded */

/* Takes the kernel from the cache or compiles it now. Asked for the same kernel from several
 * threads at once, it is compiled once. On success *kernel must be given to tesela_kernel_destroy.
 */
TESELA_API tesela_code tesela_compile(tesela_context *context, const tesela_kernel_options *options,
                                      tesela_kernel **kernel);

/* NULL is allowed. What was launched must be done. */
TESELA_API void tesela_kernel_destroy(tesela_kernel *kernel);

/* The program after one stage of its compilation: "attn", "tile", "pipe", "llvm" or "ptx" as text,
 * "object" (host) or "cubin" (GPU; needs ptxas) as bytes. No GPU is needed. On success *program
 * must be given to tesela_bytes_destroy. */
TESELA_API tesela_code tesela_emit_stage(const tesela_kernel_options *options, const char *stage,
                                         tesela_bytes **program);

/* Among how many work items a kernel of "forward_in_parts" best shares the keys of its launches on
 * the context's device: N of the binding "workers=N". `options`: the kernel's, without that
 * binding. `sizes`: of a launch, as far as the host knows it; length and kv_length are the most
 * queries and keys of a sequence, or more. */
TESELA_API tesela_code tesela_workers_for(const tesela_context *context,
                                          const tesela_kernel_options *options,
                                          const tesela_sizes *sizes, int64_t *workers);

/* Templates are read from this folder instead of the built-in ones; NULL or "": the built-in ones
 * again. For those who write templates. Holds for the whole process. */
TESELA_API tesela_code tesela_use_template_folder(const char *folder);

/* The ptxas that assembles kernels for GPUs from now on, in contexts that are made then; NULL or
 * "": the one on PATH, in $CUDA_HOME/bin or in /usr/local/cuda/bin again. TESELA_NOT_FOUND where
 * there is no program at `path`. Holds for the whole process. */
TESELA_API tesela_code tesela_use_ptxas(const char *path);

typedef enum tesela_origin TESELA_AS_INT {
  TESELA_COMPILED = 0,
  TESELA_MEMORY_CACHE = 1,
  TESELA_DISK_CACHE = 2,
  TESELA_BUNDLE = 3,
  TESELA_PACKAGE = 4 /* it came with the library */
} tesela_origin;

/* Who chose a schedule. */
typedef enum tesela_schedule_origin TESELA_AS_INT {
  TESELA_SCHEDULE_GIVEN = 0,     /* tesela_kernel_options' schedule, in part or whole */
  TESELA_SCHEDULE_HEURISTIC = 1, /* the library, without measurements */
  TESELA_SCHEDULE_TUNED = 2,     /* measurements */
  TESELA_SCHEDULE_SIMPLE = 3     /* it is compiled soonest: the first of two tiers */
} tesela_schedule_origin;

/* What is known of a kernel; of one with two tiers, of the one that launches run now. Texts and
 * stages live as long as the kernel; a number that is not known, as those of a GPU are on the host,
 * is -1. */
typedef struct tesela_kernel_info {
  size_t size;           /* sizeof(tesela_kernel_info) */
  const char *target;    /* what it was compiled for: "host", "sm_90" */
  const char *schedule;  /* as it was chosen, in tesela_kernel_options' syntax */
  const char *assembler; /* the path of a ptxas, or "driver 13.0"; of a kernel of the package the
                            version of the ptxas that made it; "" on the host */
  tesela_origin origin;  /* where it was had from */
  double compile_ms;     /* of that call, from the text or the cache to the loaded code */
  int registers;         /* a thread; this and the rest of the plan's most demanding kernel */
  int spill_bytes;       /* a thread, stores and loads */
  int64_t shared_bytes;  /* a block, static and dynamic */
  int threads;           /* a block */
  tesela_type input_type;
  const char *variant; /* its name */
  int head_dim_qk;
  int head_dim_v;
  const tesela_stage *stages; /* the parts of compile_ms, in order */
  size_t stage_count;
  /* Launches of other sizes may run other schedules (tesela_context_options' tuning). */
  tesela_schedule_origin schedule_origin;
  const char *tuned_record; /* the file of the measurements; "" where there are none */
} tesela_kernel_info;

/* Writes *info, whose size the caller has set; of a structure that is shorter than this
 * library's, only that much. */
TESELA_API tesela_code tesela_kernel_describe(const tesela_kernel *kernel,
                                              tesela_kernel_info *info);

/* Writes the element type of the launch's tensor `name`, such as "d_bias"; TESELA_INVALID_ARGUMENT
 * where the kernel has no such tensor. */
TESELA_API tesela_code tesela_kernel_tensor_type(const tesela_kernel *kernel, const char *name,
                                                 tesela_type *type);

/* The parameters of a launch, in the order of the variant's text: without `const` ones, whose
 * values are compiled in. The texts and extents live as long as the kernel. */
TESELA_API size_t tesela_kernel_parameter_count(const tesela_kernel *kernel);
TESELA_API tesela_code tesela_kernel_parameter(const tesela_kernel *kernel, size_t index,
                                               tesela_parameter_info *info);

/* Launching: on `stream` (a CUstream or cudaStream_t of the device's primary context; NULL: the
 * default stream). A launch returns at once; on the host `stream` is NULL and the result is there
 * on return. Where an argument does not fit, nothing is launched. The arguments' structures are
 * read before a launch returns; the tensors' memory must live until it is done.
 *
 *   q    [batch, heads,    length,    head_dim_qk]
 *   k    [batch, kv_heads, kv_length, head_dim_qk]
 *   v    [batch, kv_heads, kv_length, head_dim_v]
 *   o    [batch, heads,    length,    head_dim_v]   written
 *   lse  [batch, heads,    length]                  written: f32, natural logarithm, without gaps;
 *                                                   NULL: it is not, and costs nothing
 *
 * heads is a multiple of kv_heads. The last stride is 1; on a GPU the address and the other strides
 * are multiples of 16 bytes. Strides of extents of 1 are ignored; k and v may repeat heads
 * or batches with a stride of 0. batch or length 0 launches nothing; kv_length 0 gives O = 0 and
 * LSE = -inf. */

/* A view [batch, heads, length, head_dim] in the device's memory, in that order whatever
 * the layout; the extents stand in tesela_launch_arguments. Strides in elements. */
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
  float *lse;                         /* [batch, heads, length] without gaps, written; or NULL */
  double scale;                       /* finite and positive; 0: 1/sqrt(head_dim_qk) */
  const tesela_parameter *parameters; /* those with a default may be left out */
  size_t parameter_count;
  /* Not 0: no captured tensor's elements have changed since this kernel's last launch on this
   * stream, or in this workspace where one is given, which nothing else has written since. What is
   * computed of the tensors alone is then kept for those with the same address, extents and
   * strides. Never needed for a right result, and wrong results where it is not true. */
  int captures_unchanged;
  /* Memory of the device, a multiple of 256 bytes, of at least tesela_kernel_workspace_bytes; NULL:
   * the kernel has its own. It must stay as it is until the launch has ended on the device;
   * launches that may run at the same time need one each. A launch can be captured into a graph
   * with it and without it; the graph owns what the kernel needs besides. */
  void *workspace;
  size_t workspace_bytes;
  /* Not 0: parameters has a value for each of tesela_kernel_parameter's, in that order, also for
   * those with a default. Their names are not read, and nothing is searched for. */
  int parameters_in_order;
} tesela_launch_arguments;

TESELA_API tesela_code tesela_launch(const tesela_kernel *kernel,
                                     const tesela_launch_arguments *arguments, void *stream);

/* Only the checks of tesela_launch. */
TESELA_API tesela_code tesela_check_arguments(const tesela_kernel *kernel,
                                              const tesela_launch_arguments *arguments);

/* Writes to *bytes what a launch of `arguments`, whose own workspace is not looked at, takes; 0: it
 * needs none. Arguments that do not fit are an error where the kernel has launches that need one;
 * else the launch tells of them. */
TESELA_API tesela_code tesela_kernel_workspace_bytes(const tesela_kernel *kernel,
                                                     const tesela_launch_arguments *arguments,
                                                     size_t *bytes);

/* A tensor by the name under which the kernel's template declares it, which also says whether it is
 * written: read_only is not looked at. */
typedef struct tesela_named_tensor {
  const char *name;
  const tesela_tensor *tensor;
} tesela_named_tensor;

/* An extent of a launch: "B", "H", "Hkv", "Sq" or "Sk". */
typedef struct tesela_named_extent {
  const char *name;
  int64_t value;
} tesela_named_extent;

/* The same launch by tensors, which bring their types, extents and device with them. */
typedef struct tesela_tensor_arguments {
  size_t size; /* sizeof(tesela_tensor_arguments) */
  const tesela_tensor *q;
  const tesela_tensor *k;
  const tesela_tensor *v;
  const tesela_tensor *o;
  const tesela_tensor *lse; /* NULL, or a tensor without an address: not written */
  double scale;             /* as in tesela_launch_arguments, and so is the rest */
  const tesela_parameter *parameters;
  size_t parameter_count;
  int captures_unchanged;
  void *workspace;
  size_t workspace_bytes;
  /* Of an algorithm that declares others than q, k, v, o and lse: these. Then those five may be
   * NULL where it does not declare them. */
  const tesela_named_tensor *tensors;
  size_t tensor_count;
  /* What no tensor tells: of sequences of different lengths the longest ones, or more. */
  const tesela_named_extent *extents;
  size_t extent_count;
  int parameters_in_order; /* as in tesela_launch_arguments */
} tesela_tensor_arguments;

TESELA_API tesela_code tesela_launch_tensors(const tesela_kernel *kernel,
                                             const tesela_tensor_arguments *arguments,
                                             void *stream);

/* Only the checks of tesela_launch_tensors. */
TESELA_API tesela_code tesela_check_tensors(const tesela_kernel *kernel,
                                            const tesela_tensor_arguments *arguments);

/* tesela_kernel_workspace_bytes for tesela_launch_tensors. */
TESELA_API tesela_code tesela_kernel_workspace_bytes_of_tensors(
    const tesela_kernel *kernel, const tesela_tensor_arguments *arguments, size_t *bytes);

/* Writes to *is_captured whether a launch of the kernel on `stream` would now become part of a
 * graph (1) or run (0; always on the host). Memory that is given back when the call has been made
 * is no workspace for a graph, which runs later: leave workspace NULL there, and the graph owns
 * memory. */
TESELA_API tesela_code tesela_kernel_is_captured(const tesela_kernel *kernel, void *stream,
                                                 int *is_captured);

/* Writes to *is_best whether the best schedule's kernel is there (1), after waiting for
 * `milliseconds` at most: then the next launch outside of a capture runs it. At once 1 for a kernel
 * without two tiers (tesela_context_options). A failure says why it was not compiled, and launches
 * go on with the simple one; TESELA_CANCELLED where the context went before. Compiled once more
 * where the kernel is asked for again. */
TESELA_API tesela_code tesela_kernel_is_best(const tesela_kernel *kernel, int64_t milliseconds,
                                             int *is_best);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_KERNEL_H */
