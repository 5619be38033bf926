/*===----------------------------------------------------------------------===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
\*===----------------------------------------------------------------------===*/
/*
 * Launches by tensors and DLPack from C99, and the check of their results. dlpack.h comes before
 * Tesela's header; c_api_abi_test.py has it behind.
 */
#include "DLPack.h"

#include "CApiTest.h"

#include <math.h>

enum { heads = 2, queries = 3, keys = 5, head_dim = 8 };

/* A launch of the fake compiler's kernel in the layout [batch, length, heads, head_dim]. */
struct problem {
  float q[queries * heads * head_dim], k[keys * heads * head_dim], v[keys * heads * head_dim];
  float o[queries * heads * head_dim], lse[heads * queries], slope[heads];
  tesela_tensor tensors[5], slopes;
  tesela_parameter parameters[2];
  tesela_tensor_arguments arguments;
};

static void make_problem(struct problem *problem) {
  const int64_t lse_extents[] = {1, heads, queries}, slope_extents[] = {heads};
  tesela_tensor *tensors = problem->tensors;
  int i;
  memset(problem, 0, sizeof *problem);
  for (i = 0; i < 5; ++i)
    tensors[i].size = sizeof tensors[i];
  problem->slopes.size = sizeof problem->slopes;
  expect(tesela_tensor_bshd(problem->q, TESELA_F32, 1, heads, queries, head_dim, &tensors[0]) ==
                 TESELA_OK &&
             tesela_tensor_bshd(problem->k, TESELA_F32, 1, heads, keys, head_dim, &tensors[1]) ==
                 TESELA_OK &&
             tesela_tensor_bshd(problem->v, TESELA_F32, 1, heads, keys, head_dim, &tensors[2]) ==
                 TESELA_OK &&
             tesela_tensor_bshd(problem->o, TESELA_F32, 1, heads, queries, head_dim, &tensors[3]) ==
                 TESELA_OK,
         "views of [batch, length, heads, head_dim]");
  expect(tensors[0].extents[1] == heads && tensors[0].strides[1] == head_dim &&
             tensors[0].strides[2] == heads * head_dim,
         "as [batch, heads, length, head_dim]");
  expect(tesela_tensor_contiguous(problem->lse, TESELA_F32, 3, lse_extents, &tensors[4]) ==
                 TESELA_OK &&
             tesela_tensor_contiguous(problem->slope, TESELA_F32, 1, slope_extents,
                                      &problem->slopes) == TESELA_OK,
         "tensors without gaps");
  expect(tensors[4].strides[0] == heads * queries && tensors[4].strides[2] == 1, "their strides");
  expect(tesela_fill_inputs("normal", &tensors[0], &tensors[1], &tensors[2], 7) == TESELA_OK,
         "inputs");
  expect(tesela_fill_normal(&problem->slopes, 11) == TESELA_OK, "slopes");

  problem->parameters[0].name = "slope";
  problem->parameters[0].tensor = &problem->slopes;
  problem->parameters[1].name = "window";
  problem->parameters[1].scalar = 2;
  problem->arguments.size = sizeof problem->arguments;
  problem->arguments.q = &tensors[0];
  problem->arguments.k = &tensors[1];
  problem->arguments.v = &tensors[2];
  problem->arguments.o = &tensors[3];
  problem->arguments.lse = &tensors[4];
  problem->arguments.parameters = problem->parameters;
  problem->arguments.parameter_count = 2;
}

/* Compares the results with the interpreter's. */
static void expect_right(const struct problem *problem) {
  tesela_kernel_options options = kernel_options_of(variant_text, TESELA_F32, head_dim);
  tesela_reference *reference = NULL;
  tesela_comparison comparison;
  memset(&comparison, 0, sizeof comparison);
  comparison.size = sizeof comparison;
  expect(tesela_reference_on_host(&options, &problem->arguments, 1, &reference) == TESELA_OK,
         "a reference");
  expect(tesela_reference_compare(reference, problem->arguments.o, problem->arguments.lse,
                                  &comparison) == TESELA_OK,
         "a comparison");
  expect(comparison.passed, comparison.failure);
  expect(comparison.tolerance > 0 && comparison.nan_count == 0, "its figures");
  expect(comparison.row_error > 0 && comparison.row_error < comparison.row_tolerance,
         "those of its worst row");
  tesela_reference_destroy(reference);
}

static void test_reference(void) {
  struct problem problem;
  tesela_kernel_options options = kernel_options_of(variant_text, TESELA_F32, head_dim);
  tesela_reference *reference = NULL;
  tesela_reference_info info;
  tesela_comparison comparison;
  make_problem(&problem);
  problem.arguments.o = problem.arguments.lse = NULL;
  memset(&info, 0, sizeof info);
  memset(&comparison, 0, sizeof comparison);
  info.size = sizeof info;
  comparison.size = sizeof comparison;
  expect(tesela_reference_on_host(&options, &problem.arguments, 1, &reference) == TESELA_OK,
         "a reference without results");
  expect(tesela_reference_describe(reference, &info) == TESELA_OK, "its facts");
  expect(info.batch == 1 && info.heads == heads && info.length == queries &&
             info.head_dim_v == head_dim && info.type == TESELA_F32 && !info.score_uses_tanh,
         "its shape");
  expect(info.kept_pairs == heads * 5, "a window of 2 over 3 queries keeps 1 + 2 + 2 pairs a head");
  expect(info.ref && info.base && info.magnitude && info.term_norm[0] > 0 &&
             isfinite(info.lse[heads * queries - 1]),
         "its arrays");
  /* A launch that never happened: the results are zeros. */
  expect(tesela_reference_compare(reference, &problem.tensors[3], &problem.tensors[4],
                                  &comparison) == TESELA_OK,
         "a comparison with zeros");
  expect(!comparison.passed && strlen(comparison.failure) > 0, "which is not passed");
  problem.tensors[3].data = NULL;
  expect_error(
      tesela_reference_compare(reference, &problem.tensors[3], &problem.tensors[4], &comparison),
      TESELA_INVALID_ARGUMENT, "o is f32[1, 2, 3, 8] and has no address");
  tesela_reference_destroy(reference);
}

static void test_launch(tesela_kernel *kernel) {
  struct problem problem;
  tesela_tensor other;
  make_problem(&problem);
  expect(tesela_check_tensors(kernel, &problem.arguments) == TESELA_OK, "arguments that fit");
  expect(problem.lse[0] == 0, "nothing is launched");
  expect(tesela_launch_tensors(kernel, &problem.arguments, NULL) == TESELA_OK, "a launch");
  expect_right(&problem);

  /* Arguments that do not fit give a message, and nothing is launched. */
  memset(problem.lse, 0, sizeof problem.lse);
  other = problem.tensors[0];
  problem.arguments.q = &other;
  other.type = TESELA_BF16;
  expect_error(tesela_launch_tensors(kernel, &problem.arguments, NULL), TESELA_INVALID_ARGUMENT,
               "q is bf16[1, 2, 3, 8], the kernel was compiled for f32");
  other.type = (tesela_type)7;
  expect_error(tesela_launch_tensors(kernel, &problem.arguments, NULL), TESELA_INVALID_ARGUMENT,
               "q: the type 7 is not a value of tesela_type");
  other.type = TESELA_F32;
  other.rank = 3;
  expect_error(tesela_launch_tensors(kernel, &problem.arguments, NULL), TESELA_INVALID_ARGUMENT,
               "its rank must be 4");
  other.rank = 4;
  other.memory = TESELA_MEMORY_CUDA;
  other.device_index = 1;
  expect_error(tesela_launch_tensors(kernel, &problem.arguments, NULL), TESELA_INVALID_ARGUMENT,
               "q is in the memory of cuda:1, but it is used on the host: copy it there");
  other.memory = (tesela_memory)5;
  expect_error(tesela_check_tensors(kernel, &problem.arguments), TESELA_INVALID_ARGUMENT,
               "memory of kind 5, which is not a value of tesela_memory");
  other.memory = TESELA_MEMORY_PINNED;
  expect(tesela_check_tensors(kernel, &problem.arguments) == TESELA_OK, "pinned memory");
  other.memory = TESELA_MEMORY_MANAGED;
  expect(tesela_check_tensors(kernel, &problem.arguments) == TESELA_OK, "managed memory");
  other.size = 0;
  expect_error(tesela_launch_tensors(kernel, &problem.arguments, NULL), TESELA_INVALID_ARGUMENT,
               "q: tesela_tensor's size is 0");
  problem.arguments.q = NULL;
  expect_error(tesela_launch_tensors(kernel, &problem.arguments, NULL), TESELA_INVALID_ARGUMENT,
               "q: tesela_tensor is NULL");
  problem.arguments.q = &problem.tensors[0];
  problem.tensors[3].read_only = 1;
  expect_error(tesela_launch_tensors(kernel, &problem.arguments, NULL), TESELA_INVALID_ARGUMENT,
               "o is read-only");
  problem.tensors[3].read_only = 0;
  problem.tensors[0].read_only = 1;
  problem.slopes.read_only = 1;
  expect(tesela_check_tensors(kernel, &problem.arguments) == TESELA_OK, "inputs are only read");
  problem.slopes.memory = TESELA_MEMORY_CUDA;
  expect_error(tesela_check_tensors(kernel, &problem.arguments), TESELA_INVALID_ARGUMENT,
               "the captured tensor 'slope' is in the memory of cuda:0");
  problem.slopes.memory = TESELA_MEMORY_HOST;
  problem.parameters[1].data = problem.slope;
  expect_error(tesela_check_tensors(kernel, &problem.arguments), TESELA_INVALID_ARGUMENT,
               "the parameter 'window' has an address and rank 0");
  problem.parameters[1].data = NULL;
  problem.arguments.parameter_count = 0;
  expect_error(tesela_check_tensors(kernel, &problem.arguments), TESELA_INVALID_ARGUMENT,
               "'slope' is missing");
  expect(problem.lse[0] == 0, "nothing was launched");
}

/* The contexts of these tests verify each kernel's first launch (CApiTest.h). */
static void test_verify(tesela_context *context) {
  tesela_kernel_options options = kernel_options_of(variant_text, TESELA_F32, head_dim);
  tesela_kernel *kernel = NULL;
  struct problem problem;
  make_problem(&problem);
  options.schedule = "wrong"; /* it writes nothing */
  expect(tesela_compile(context, &options, &kernel) == TESELA_OK, "a kernel that is wrong");
  expect_error(tesela_launch_tensors(kernel, &problem.arguments, NULL), TESELA_DEFECT,
               "the first launch of 'sliding_alibi'");
  expect_error(tesela_launch_tensors(kernel, &problem.arguments, NULL), TESELA_DEFECT,
               "gives a wrong result");
  tesela_kernel_destroy(kernel);
}

static void test_parameters(const tesela_kernel *kernel) {
  tesela_parameter_info info;
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  expect(tesela_kernel_parameter_count(kernel) == 2, "a kernel's parameters");
  expect(tesela_kernel_parameter(kernel, 0, &info) == TESELA_OK, "the first");
  expect(strcmp(info.name, "window") == 0 && info.has_default && info.default_value == 1024,
         "its default");
  expect(tesela_kernel_parameter(kernel, 1, &info) == TESELA_OK, "the second");
  expect(strcmp(info.name, "slope") == 0 && info.rank == 1 &&
             strcmp(info.extents[0].name, "H") == 0 && info.extents[0].coefficient == 1,
         "its extent");
  expect_error(tesela_kernel_parameter(kernel, 2, &info), TESELA_INVALID_ARGUMENT,
               "there are 2 parameters");
}

static void test_reads(void) {
  struct problem problem;
  tesela_kernel_options options = kernel_options_of(
      "attention late(t: i32[Sk]) {\n  mask = t[k + 1] == 0\n}\n", TESELA_F32, head_dim);
  int32_t table[keys] = {0};
  const int64_t extents[] = {keys};
  tesela_tensor view;
  tesela_reads *reads = NULL;
  tesela_outside_reads outside;
  make_problem(&problem);
  memset(&view, 0, sizeof view);
  memset(&outside, 0, sizeof outside);
  view.size = sizeof view;
  outside.size = sizeof outside;
  expect(tesela_tensor_contiguous(table, TESELA_I32, 1, extents, &view) == TESELA_OK, "a table");
  expect(tesela_fill_uniform(&view, 3, 4, 4) == TESELA_OK && table[keys - 1] == 4, "of fours");
  expect_error(tesela_fill_uniform(&view, 3, 4, 3), TESELA_INVALID_ARGUMENT, "low is 4");
  expect_error(tesela_fill_uniform(&view, 3, 0, INT64_C(1) << 40), TESELA_INVALID_ARGUMENT,
               "the range of i32");
  expect_error(tesela_fill_normal(&view, 3), TESELA_INVALID_ARGUMENT,
               "tensor is i32[5], its type must be f32, f16 or bf16");
  problem.parameters[0].name = "t";
  problem.parameters[0].tensor = &view;
  problem.arguments.parameter_count = 1;
  expect(tesela_check_reads(&options, &problem.arguments, 1, &reads) == TESELA_OK, "a check");
  expect(tesela_reads_count(reads) == 1, "one axis is left");
  expect(tesela_reads_describe(reads, 0, &outside) == TESELA_OK, "it is told of");
  expect(strcmp(outside.capture, "t") == 0 && outside.axis == 0 && outside.extent == keys &&
             outside.index == keys && outside.k == keys - 1 && outside.count == heads * queries,
         "exactly");
  expect_error(tesela_reads_describe(reads, 1, &outside), TESELA_INVALID_ARGUMENT,
               "there are 1 reads");
  tesela_reads_destroy(reads);
}

/* A DLPack tensor as another library exports it. */
struct exported {
  int64_t shape[4], strides[4];
  int deleted;
  DLManagedTensorVersioned managed;
};

static void delete_exported(DLManagedTensorVersioned *self) {
  ++((struct exported *)self->manager_ctx)->deleted;
}

static void export_tensor(struct exported *to, const tesela_tensor *from, uint64_t offset) {
  DLTensor *tensor = &to->managed.dl_tensor;
  memset(to, 0, sizeof *to);
  memcpy(to->shape, from->extents, sizeof to->shape);
  memcpy(to->strides, from->strides, sizeof to->strides);
  to->managed.version.major = 1;
  to->managed.version.minor = 1;
  to->managed.manager_ctx = to;
  to->managed.deleter = delete_exported;
  tensor->data = (char *)from->data - offset;
  tensor->byte_offset = offset;
  tensor->device.device_type = kDLCPU;
  tensor->ndim = from->rank;
  tensor->dtype.code = kDLFloat;
  tensor->dtype.bits = 32;
  tensor->dtype.lanes = 1;
  tensor->shape = to->shape;
  tensor->strides = to->strides;
}

static void test_dlpack_launch(tesela_kernel *kernel) {
  struct problem problem;
  struct exported exported[6];
  DLManagedTensor old;
  int i;
  make_problem(&problem);
  for (i = 0; i < 5; ++i)
    export_tensor(&exported[i], &problem.tensors[i], (uint64_t)(i % 2) * 64);
  export_tensor(&exported[5], &problem.slopes, 0);
  exported[5].managed.dl_tensor.strides = NULL; /* row-major */
  exported[0].managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;

  for (i = 0; i < 5; ++i) {
    memset(&problem.tensors[i], 0x55, sizeof problem.tensors[i]);
    problem.tensors[i].size = sizeof problem.tensors[i];
    expect(tesela_tensor_from_dl_managed_tensor_versioned(&exported[i].managed,
                                                          &problem.tensors[i]) == TESELA_OK,
           "a tensor of DLPack");
  }
  memset(&problem.slopes, 0, sizeof problem.slopes);
  problem.slopes.size = sizeof problem.slopes;
  expect(tesela_tensor_from_dl_tensor(&exported[5].managed.dl_tensor, &problem.slopes) == TESELA_OK,
         "a plain one");
  expect(problem.slopes.strides[0] == 1 && problem.slopes.memory == TESELA_MEMORY_HOST, "its view");
  expect(problem.tensors[0].read_only && !problem.tensors[1].read_only, "what is read-only");
  expect(tesela_launch_tensors(kernel, &problem.arguments, NULL) == TESELA_OK, "a launch");
  expect_right(&problem);
  for (i = 0; i < 6; ++i)
    expect(exported[i].deleted == 0, "the library takes nothing over");

  exported[3].managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  expect(tesela_tensor_from_dl_managed_tensor_versioned(&exported[3].managed,
                                                        &problem.tensors[3]) == TESELA_OK,
         "a result that is read-only");
  expect_error(tesela_launch_tensors(kernel, &problem.arguments, NULL), TESELA_INVALID_ARGUMENT,
               "o is read-only");

  memset(&old, 0, sizeof old);
  old.dl_tensor = exported[3].managed.dl_tensor;
  expect(tesela_tensor_from_dl_managed_tensor(&old, &problem.tensors[3]) == TESELA_OK,
         "a managed tensor without a version");
  expect(tesela_launch_tensors(kernel, &problem.arguments, NULL) == TESELA_OK, "knows no flags");
}

static void test_dlpack_types(void) {
  struct {
    uint8_t code, bits;
    tesela_type type;
  } known[] = {{kDLFloat, 32, TESELA_F32},   {kDLFloat, 16, TESELA_F16},
               {kDLBfloat, 16, TESELA_BF16}, {kDLInt, 32, TESELA_I32},
               {kDLBool, 8, TESELA_BOOL},    {kDLUInt, 8, TESELA_BOOL},
               {kDLInt, 64, TESELA_I64},     {kDLFloat8_e4m3fn, 8, TESELA_E4M3}};
  struct {
    uint8_t code, bits;
    uint16_t lanes;
    const char *sentence;
  } unknown[] = {{kDLFloat, 64, 1, "are f64, they must be f32"},
                 {kDLUInt, 64, 1, "are u64"},
                 {kDLUInt, 16, 1, "are u16"},
                 {kDLBool, 1, 1, "are bool of 1 bits"},
                 {kDLComplex, 64, 1, "are complex of 64 bits"},
                 {kDLFloat8_e5m2, 8, 1, "are a type of code 12 and 8 bits"},
                 {kDLFloat, 32, 4, "are f32 in vectors of 4"}};
  struct problem problem;
  struct exported exported;
  tesela_tensor tensor;
  size_t i;
  make_problem(&problem);
  export_tensor(&exported, &problem.slopes, 0);
  memset(&tensor, 0, sizeof tensor);
  tensor.size = sizeof tensor;
  for (i = 0; i < sizeof known / sizeof *known; ++i) {
    exported.managed.dl_tensor.dtype.code = known[i].code;
    exported.managed.dl_tensor.dtype.bits = known[i].bits;
    expect(tesela_tensor_from_dl_tensor(&exported.managed.dl_tensor, &tensor) == TESELA_OK &&
               tensor.type == known[i].type,
           "a known type");
  }
  for (i = 0; i < sizeof unknown / sizeof *unknown; ++i) {
    exported.managed.dl_tensor.dtype.code = unknown[i].code;
    exported.managed.dl_tensor.dtype.bits = unknown[i].bits;
    exported.managed.dl_tensor.dtype.lanes = unknown[i].lanes;
    expect_error(tesela_tensor_from_dl_tensor(&exported.managed.dl_tensor, &tensor),
                 TESELA_UNSUPPORTED, unknown[i].sentence);
  }
}

static void test_dlpack_places(void) {
  struct {
    DLDeviceType device;
    tesela_memory memory;
  } known[] = {{kDLCPU, TESELA_MEMORY_HOST},
               {kDLCUDA, TESELA_MEMORY_CUDA},
               {kDLCUDAHost, TESELA_MEMORY_PINNED},
               {kDLCUDAManaged, TESELA_MEMORY_MANAGED}};
  struct problem problem;
  struct exported exported;
  tesela_tensor tensor;
  size_t i;
  make_problem(&problem);
  export_tensor(&exported, &problem.slopes, 0);
  memset(&tensor, 0, sizeof tensor);
  tensor.size = sizeof tensor;
  for (i = 0; i < sizeof known / sizeof *known; ++i) {
    exported.managed.dl_tensor.device.device_type = known[i].device;
    exported.managed.dl_tensor.device.device_id = (int32_t)i;
    expect(tesela_tensor_from_dl_tensor(&exported.managed.dl_tensor, &tensor) == TESELA_OK &&
               tensor.memory == known[i].memory && tensor.device_index == (int)i,
           "a known device");
  }
  exported.managed.dl_tensor.device.device_type = kDLROCM;
  expect_error(tesela_tensor_from_dl_tensor(&exported.managed.dl_tensor, &tensor),
               TESELA_UNSUPPORTED, "a device of the type 10, it must be kDLCPU");
}

static void test_dlpack_damage(void) {
  struct problem problem;
  struct exported exported;
  tesela_tensor tensor;
  DLTensor *from = &exported.managed.dl_tensor;
  make_problem(&problem);
  export_tensor(&exported, &problem.tensors[0], 0);
  memset(&tensor, 0, sizeof tensor);
  expect_error(tesela_tensor_from_dl_tensor(from, &tensor), TESELA_INVALID_ARGUMENT,
               "set it to sizeof(tesela_tensor)");
  tensor.size = sizeof tensor;
  expect_error(tesela_tensor_from_dl_tensor(from, NULL), TESELA_INVALID_ARGUMENT,
               "tesela_tensor is NULL");
  exported.managed.version.major = 2;
  expect_error(tesela_tensor_from_dl_managed_tensor_versioned(&exported.managed, &tensor),
               TESELA_UNSUPPORTED, "the tensor has DLPack version 2.1, Tesela supports 1.x");
  from->ndim = 9;
  expect_error(tesela_tensor_from_dl_tensor(from, &tensor), TESELA_INVALID_ARGUMENT,
               "a tensor has rank 9");
  from->ndim = -1;
  expect_error(tesela_tensor_from_dl_tensor(from, &tensor), TESELA_INVALID_ARGUMENT,
               "a tensor has rank -1");
  from->ndim = 4;
  from->shape = NULL;
  expect_error(tesela_tensor_from_dl_tensor(from, &tensor), TESELA_INVALID_ARGUMENT,
               "its shape is NULL");
  from->shape = exported.shape;
  from->strides = NULL;
  exported.shape[1] = exported.shape[2] = (int64_t)1 << 40;
  expect_error(tesela_tensor_from_dl_tensor(from, &tensor), TESELA_INVALID_ARGUMENT,
               "more than 2^63 - 1 elements");
  /* A tensor without elements has no address. */
  exported.shape[1] = 0;
  exported.shape[2] = 3;
  from->data = NULL;
  from->byte_offset = 64;
  expect(tesela_tensor_from_dl_tensor(from, &tensor) == TESELA_OK && tensor.data == NULL,
         "an empty tensor");
}

int main(void) {
  tesela_context *context = host_context();
  tesela_kernel *kernel = NULL;
  tesela_kernel_options options = kernel_options_of(variant_text, TESELA_F32, head_dim);
  expect(tesela_compile(context, &options, &kernel) == TESELA_OK, "a kernel");
  test_verify(context);
  tesela_context_destroy(context);
  test_launch(kernel);
  test_parameters(kernel);
  test_reference();
  test_reads();
  test_dlpack_launch(kernel);
  test_dlpack_types();
  test_dlpack_places();
  test_dlpack_damage();
  tesela_kernel_destroy(kernel);
  return report_result("launches by tensors do as they say");
}
