/*===----------------------------------------------------------------------===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
\*===----------------------------------------------------------------------===*/
/*
 * libtesela.so by its C API alone: the compiler's programs, what it tells of tiles, and a kernel
 * whose result is right.
 */
#include "CApiTest.h"

enum { length = 200, head_dim = 16, heads = 2 };

static const char *const window_text = "attention window(w: i32) {\n"
                                       "  mask = q >= k && q - k < w\n"
                                       "}\n";

static void test_programs(void) {
  tesela_bytes *program = NULL;
  tesela_kernel_options options = kernel_options_of(window_text, TESELA_BF16, 64);
  expect(tesela_emit_stage(&options, "tile", &program) == TESELA_OK, "a program");
  expect(strstr(tesela_bytes_data(program), "tile.kernel") != NULL, "of tiles");
  tesela_bytes_destroy(program);
  expect(tesela_emit_stage(&options, "object", &program) == TESELA_OK, "an object file");
  expect(tesela_bytes_size(program) > 4 && memcmp(tesela_bytes_data(program), "\177ELF", 4) == 0,
         "by its magic number");
  tesela_bytes_destroy(program);
  options.target = "sm_90";
  expect(tesela_emit_stage(&options, "ptx", &program) == TESELA_OK, "PTX");
  expect(strstr(tesela_bytes_data(program), ".target sm_90a") != NULL, "for a GPU");
  tesela_bytes_destroy(program);
}

static void test_explain(void) {
  tesela_kernel_options options = kernel_options_of(window_text, TESELA_F32, head_dim);
  tesela_explain_arguments arguments;
  tesela_explanation *explanation = NULL;
  tesela_explanation_info info;
  tesela_head_tiles tiles;
  tesela_lost_proof lost;
  tesela_parameter window;
  int keeps = -1;
  int64_t of_kinds[3] = {0, 0, 0}, tile;

  memset(&window, 0, sizeof window);
  window.name = "w";
  window.scalar = 4;
  memset(&arguments, 0, sizeof arguments);
  arguments.size = sizeof arguments;
  arguments.batch = 1;
  arguments.heads = arguments.kv_heads = heads;
  arguments.length = arguments.kv_length = length;
  expect_error(tesela_explain(&options, NULL, &explanation), TESELA_INVALID_ARGUMENT,
               "tesela_explain_arguments is NULL");
  expect_error(tesela_explain(&options, &arguments, &explanation), TESELA_INVALID_ARGUMENT,
               "the parameter 'w' is missing");
  arguments.parameters = &window;
  arguments.parameter_count = 1;
  expect(tesela_explain(&options, &arguments, &explanation) == TESELA_OK, "an explanation");

  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  expect(tesela_explanation_describe(explanation, &info) == TESELA_OK, "its facts");
  expect(strcmp(info.variant, "window") == 0 && strcmp(info.target, "host") == 0 &&
             strstr(info.schedule, "block_m") != NULL,
         "the kernel's");
  expect(info.rows == (length + info.block_m - 1) / info.block_m &&
             info.columns == (length + info.block_n - 1) / info.block_n,
         "its tiles");
  expect(info.form == TESELA_KEY_RANGES && info.runs == 1, "a run of keys");
  expect(info.head_count == 1 && info.lost_proof_count == 0 && strcmp(info.lost_proofs, "") == 0,
         "all proved, for all heads at once");

  memset(&tiles, 0, sizeof tiles);
  tiles.size = sizeof tiles;
  expect(tesela_explanation_head(explanation, 0, &tiles) == TESELA_OK, "their tiles");
  for (tile = 0; tile < info.rows * info.columns; ++tile)
    ++of_kinds[tiles.kinds[tile]];
  expect(of_kinds[TESELA_TILE_EMPTY] == tiles.empty && tiles.empty > 0 &&
             of_kinds[TESELA_TILE_PARTIAL] == tiles.partial &&
             of_kinds[TESELA_TILE_FULL] == tiles.full,
         "counted");
  expect(info.cell == 1 && tiles.cells == tiles.kinds, "one by one");
  expect(tiles.batch == -1 && tiles.head == -1, "of every head");
  expect(tiles.kept_pairs == 4 * length - 6, "the window's pairs");
  expect_error(tesela_explanation_head(explanation, 1, &tiles), TESELA_INVALID_ARGUMENT,
               "there are 1 heads");

  expect(tesela_explanation_keeps(explanation, 0, 1, 7, 4, &keeps) == TESELA_OK && keeps == 1,
         "a pair that is kept");
  expect(tesela_explanation_keeps(explanation, 0, 1, 7, 3, &keeps) == TESELA_OK && keeps == 0,
         "one that is not");
  expect_error(tesela_explanation_keeps(explanation, 0, heads, 0, 0, &keeps),
               TESELA_INVALID_ARGUMENT, "h is 2, it must lie in [0, 2)");
  expect_error(tesela_explanation_keeps(explanation, 0, 0, 0, 0, NULL), TESELA_INVALID_ARGUMENT,
               "keeps is NULL");
  memset(&lost, 0, sizeof lost);
  lost.size = sizeof lost;
  expect_error(tesela_explanation_lost_proof(explanation, 0, &lost), TESELA_INVALID_ARGUMENT,
               "there are 0 lost proofs");
  tesela_explanation_destroy(explanation);

  options.variant = "attention waves() {\n  mask = sqrt((q - k) * 1.0) < 4.0\n}\n";
  arguments.parameter_count = 0;
  expect(tesela_explain(&options, &arguments, &explanation) == TESELA_OK, "what cannot be proved");
  expect(tesela_explanation_lost_proof(explanation, 0, &lost) == TESELA_OK, "is told");
  expect(lost.line == 2 && lost.column > 1 && strlen(lost.reason) > 0, "with its place");
  tesela_explanation_destroy(explanation);

  expect_error(tesela_explanation_describe(NULL, &info), TESELA_INVALID_ARGUMENT,
               "explanation is NULL: make one by tesela_explain");
  expect_error(tesela_explanation_head(NULL, 0, &tiles), TESELA_INVALID_ARGUMENT,
               "explanation is NULL");
  expect_error(tesela_explanation_lost_proof(NULL, 0, &lost), TESELA_INVALID_ARGUMENT,
               "explanation is NULL");
  expect_error(tesela_explanation_keeps(NULL, 0, 0, 0, 0, &keeps), TESELA_INVALID_ARGUMENT,
               "explanation is NULL");
  tesela_explanation_destroy(NULL);
}

/* bf16 by the C API only: tensors, a launch, and the comparison with a reference. */
static void test_kernel(void) {
  static uint16_t q[heads * length * head_dim], k[heads * length * head_dim],
      v[heads * length * head_dim], o[heads * length * head_dim];
  static float lse[heads * length];
  void *const memory[] = {q, k, v, o, lse};
  const int64_t extents[] = {1, heads, length, head_dim};
  tesela_kernel_options options = kernel_options_of(window_text, TESELA_BF16, head_dim);
  tesela_context *context = host_context();
  tesela_kernel *kernel = NULL;
  tesela_reference *reference = NULL;
  tesela_tensor tensors[5];
  tesela_tensor_arguments arguments;
  tesela_parameter window;
  tesela_comparison comparison;
  int i;
  for (i = 0; i < 5; ++i) {
    memset(&tensors[i], 0, sizeof tensors[i]);
    tensors[i].size = sizeof tensors[i];
    expect(tesela_tensor_contiguous(memory[i], i < 4 ? TESELA_BF16 : TESELA_F32, i < 4 ? 4 : 3,
                                    extents, &tensors[i]) == TESELA_OK,
           "a tensor");
  }
  expect(tesela_fill_inputs("jumping", &tensors[0], &tensors[1], &tensors[2], 1) == TESELA_OK,
         "inputs that are hard");
  memset(&window, 0, sizeof window);
  window.name = "w";
  window.scalar = 30;
  memset(&arguments, 0, sizeof arguments);
  arguments.size = sizeof arguments;
  arguments.q = &tensors[0];
  arguments.k = &tensors[1];
  arguments.v = &tensors[2];
  arguments.o = &tensors[3];
  arguments.lse = &tensors[4];
  arguments.parameters = &window;
  arguments.parameter_count = 1;
  expect(tesela_compile(context, &options, &kernel) == TESELA_OK, "a kernel");
  expect(tesela_launch_tensors(kernel, &arguments, NULL) == TESELA_OK, "a launch");
  expect(tesela_reference_on_host(&options, &arguments, 0, &reference) == TESELA_OK, "a reference");
  memset(&comparison, 0, sizeof comparison);
  comparison.size = sizeof comparison;
  expect(tesela_reference_compare(reference, &tensors[3], &tensors[4], &comparison) == TESELA_OK,
         "a comparison");
  expect(comparison.passed, comparison.failure);
  tesela_reference_destroy(reference);
  expect_error(tesela_reference_on_device(context, &options, &arguments, &reference),
               TESELA_INVALID_ARGUMENT, "");
  expect(reference == NULL, "the host has no oracle");
  tesela_kernel_destroy(kernel);
  tesela_context_destroy(context);
}

/* Arguments that a launch may leave out, and ways to pass parameters: all give the same bits. */
static void test_ways_to_launch(void) {
  static const char *const text =
      "attention ways(w: i32 = 9, from: i32[Sk], bias: f32[H], z: f32) {\n"
      "  mask = q - k < w && q >= from[k]\n"
      "  score = s + bias[h] * z\n"
      "}\n";
  static float q[heads * length * head_dim], o[heads * length * head_dim],
      expected[heads * length * head_dim], bias[heads] = {0.5f}, lse[heads * length];
  static int32_t from[length];
  static int64_t wide[2 * length];
  const int64_t o_bytes = sizeof o, q_strides[] = {0, length * head_dim, head_dim};
  const int64_t keys[] = {length}, two[] = {2}, bias_extents[] = {heads};
  tesela_kernel_options options = kernel_options_of(text, TESELA_F32, head_dim);
  tesela_context *context = host_context();
  tesela_kernel *kernel = NULL;
  tesela_launch_arguments arguments;
  tesela_parameter parameters[4];
  tesela_tensor tensor, view, o_view, from_view;
  tesela_tensor_arguments tensors;
  const int64_t extents[] = {1, heads, length, head_dim};
  int i;
  memset(&view, 0, sizeof view);
  view.size = sizeof view;
  expect(tesela_tensor_contiguous(q, TESELA_F32, 4, extents, &view) == TESELA_OK, "a tensor");
  expect(tesela_fill_normal(&view, 1) == TESELA_OK, "inputs");
  for (i = 0; i < length; ++i) {
    from[i] = i % 3 == 0 ? i : -i;
    wide[2 * i] = from[i] + ((int64_t)(i % 5) << 40); /* wraps to the same i32 */
    wide[2 * i + 1] = 1000000;
  }
  memset(parameters, 0, sizeof parameters);
  parameters[0].scalar = 9;
  parameters[0].name = "w";
  parameters[1].name = "from";
  parameters[1].data = from;
  parameters[1].type = TESELA_I32;
  parameters[1].rank = 1;
  parameters[1].extents = keys;
  parameters[2].name = "bias";
  parameters[2].data = bias;
  parameters[2].type = TESELA_F32;
  parameters[2].rank = 1;
  parameters[2].extents = bias_extents;
  parameters[3].name = "z";
  parameters[3].scalar = 2;
  memset(&arguments, 0, sizeof arguments);
  arguments.size = sizeof arguments;
  arguments.batch = 1;
  arguments.heads = arguments.kv_heads = heads;
  arguments.length = arguments.kv_length = length;
  arguments.q.data = q;
  arguments.q.batch_stride = q_strides[0];
  arguments.q.head_stride = q_strides[1];
  arguments.q.length_stride = q_strides[2];
  arguments.k = arguments.v = arguments.o = arguments.q;
  arguments.o.data = expected;
  arguments.lse = lse;
  arguments.parameters = parameters;
  arguments.parameter_count = 4;
  expect(tesela_compile(context, &options, &kernel) == TESELA_OK, "a kernel");
  expect(tesela_launch(kernel, &arguments, NULL) == TESELA_OK, "a launch");
  expect(lse[length - 1] != 0, "with its lse");

  arguments.o.data = o;
  arguments.lse = NULL;
  memset(o, 0xff, sizeof o);
  expect(tesela_launch(kernel, &arguments, NULL) == TESELA_OK, "a launch without lse");
  expect(memcmp(o, expected, (size_t)o_bytes) == 0, "the same bits without lse");

  arguments.parameters_in_order = 1;
  for (i = 0; i < 4; ++i)
    parameters[i].name = NULL;
  memset(o, 0xff, sizeof o);
  expect(tesela_launch(kernel, &arguments, NULL) == TESELA_OK, "parameters in order");
  expect(memcmp(o, expected, (size_t)o_bytes) == 0, "the same bits in order");
  arguments.parameter_count = 3;
  expect_error(tesela_launch(kernel, &arguments, NULL), TESELA_INVALID_ARGUMENT,
               "parameter_count is 3, the kernel has 4: pass a value for each");
  arguments.parameter_count = 4;
  parameters[3].data = bias;
  expect_error(tesela_launch(kernel, &arguments, NULL), TESELA_INVALID_ARGUMENT,
               "the parameter 'z' has an address and rank 0");
  parameters[3].data = NULL;

  parameters[1].data = wide;
  parameters[1].type = TESELA_I64;
  parameters[1].strides = two;
  memset(o, 0xff, sizeof o);
  expect(tesela_launch(kernel, &arguments, NULL) == TESELA_OK, "an i64 tensor");
  expect(memcmp(o, expected, (size_t)o_bytes) == 0, "the same bits by i64");

  memset(&from_view, 0, sizeof from_view);
  from_view.size = sizeof from_view;
  expect(tesela_tensor_contiguous(wide, TESELA_I64, 1, keys, &from_view) == TESELA_OK, "i64");
  from_view.strides[0] = 2;
  parameters[1].tensor = &from_view;
  o_view = view;
  o_view.data = o;
  memset(&tensors, 0, sizeof tensors);
  tensors.size = sizeof tensors;
  tensors.q = tensors.k = tensors.v = &view;
  tensors.o = &o_view;
  tensors.parameters = parameters;
  tensors.parameter_count = 4;
  tensors.parameters_in_order = 1;
  memset(o, 0xff, sizeof o);
  expect(tesela_launch_tensors(kernel, &tensors, NULL) == TESELA_OK, "by tensors, without lse");
  expect(memcmp(o, expected, (size_t)o_bytes) == 0, "the same bits by tensors");
  tensor = view;
  tensor.type = TESELA_I64;
  tensors.q = &tensor;
  expect_error(tesela_launch_tensors(kernel, &tensors, NULL), TESELA_INVALID_ARGUMENT,
               "q: the type is i64, which only captured tensors may have: convert it to i32");
  tesela_kernel_destroy(kernel);
  tesela_context_destroy(context);
}

/* A kernel that takes values from the keys does not declare v. */
static void test_tensors_that_are_not_declared(void) {
  enum { length = 64 };
  static float q[length * head_dim], o[length * head_dim];
  const char *binding = "values=keys";
  const int64_t extents[] = {1, 1, length, head_dim};
  tesela_kernel_options options = kernel_options_of("attention full() {}", TESELA_F32, head_dim);
  tesela_context *context = host_context();
  tesela_kernel *kernel = NULL;
  tesela_tensor q_view, o_view;
  tesela_tensor_arguments tensors;
  size_t bytes = 0;
  memset(&q_view, 0, sizeof q_view);
  q_view.size = sizeof q_view;
  expect(tesela_tensor_contiguous(q, TESELA_F32, 4, extents, &q_view) == TESELA_OK, "a tensor");
  o_view = q_view;
  o_view.data = o;
  options.bindings = &binding;
  options.binding_count = 1;
  expect(tesela_compile(context, &options, &kernel) == TESELA_OK, "values of keys");
  memset(&tensors, 0, sizeof tensors);
  tensors.size = sizeof tensors;
  tensors.q = tensors.k = &q_view;
  tensors.o = &o_view;
  expect(tesela_launch_tensors(kernel, &tensors, NULL) == TESELA_OK, "v is NULL");
  expect(tesela_check_tensors(kernel, &tensors) == TESELA_OK, "its check");
  expect(tesela_kernel_workspace_bytes_of_tensors(kernel, &tensors, &bytes) == TESELA_OK, "bytes");
  tensors.v = &q_view;
  expect_error(tesela_launch_tensors(kernel, &tensors, NULL), TESELA_INVALID_ARGUMENT,
               "there is no tensor 'v'");
  tensors.v = tensors.k = NULL;
  expect_error(tesela_launch_tensors(kernel, &tensors, NULL), TESELA_INVALID_ARGUMENT,
               "k: tesela_tensor is NULL");
  tesela_kernel_destroy(kernel);
  tesela_context_destroy(context);
}

static void test_ptxas(void) {
  expect_error(tesela_use_ptxas("/no/such/ptxas"), TESELA_NOT_FOUND,
               "there is no program ptxas at /no/such/ptxas: No such file");
  expect_error(tesela_use_ptxas("/tmp"), TESELA_NOT_FOUND,
               "there is no program ptxas at /tmp: Is a directory");
  expect(tesela_use_ptxas("/bin/true") == TESELA_OK, "a program");
  expect(tesela_use_ptxas(NULL) == TESELA_OK, "as the environment says");
}

/* On the host there is one worker for each thread. ScheduleTest tests the number for GPUs. */
static void test_workers(void) {
  tesela_context_options host;
  tesela_kernel_options options = kernel_options_of(NULL, TESELA_F32, head_dim);
  tesela_sizes sizes = {16, 8, 2, 1, 8192};
  tesela_context *context = NULL;
  tesela_device_info device;
  int64_t workers = -1;

  memset(&host, 0, sizeof host);
  host.size = sizeof host;
  host.device = "host";
  memset(&device, 0, sizeof device);
  device.size = sizeof device;
  expect(tesela_context_create(&host, &context) == TESELA_OK, "a context of the host");
  expect(tesela_context_describe_device(context, &device) == TESELA_OK, "the host");
  options.algorithm = "forward_in_parts";
  expect(tesela_workers_for(context, &options, &sizes, &workers) == TESELA_OK, "workers");
  expect(workers == device.processors, "one a thread");
  expect_error(tesela_workers_for(NULL, &options, &sizes, &workers), TESELA_INVALID_ARGUMENT,
               "context is NULL");
  expect(workers == 0, "none after a failure");
  expect_error(tesela_workers_for(context, &options, NULL, &workers), TESELA_INVALID_ARGUMENT,
               "sizes is NULL");
  expect_error(tesela_workers_for(context, &options, &sizes, NULL), TESELA_INVALID_ARGUMENT,
               "workers is NULL");
  sizes.kv_length = -1;
  expect_error(tesela_workers_for(context, &options, &sizes, &workers), TESELA_INVALID_ARGUMENT,
               "the number of keys is -1, it must lie in [0, 2147483647]");
  sizes.kv_length = 8192;
  sizes.kv_heads = 3;
  expect_error(tesela_workers_for(context, &options, &sizes, &workers), TESELA_INVALID_ARGUMENT,
               "there are 8 query heads and 3 key/value heads");
  sizes.kv_heads = 0;
  expect_error(tesela_workers_for(context, &options, &sizes, &workers), TESELA_INVALID_ARGUMENT,
               "there are 8 query heads and 0 key/value heads");
  options.algorithm = "merge";
  expect_error(tesela_workers_for(context, &options, &sizes, &workers), TESELA_INVALID_ARGUMENT,
               "share keys only in the algorithm 'forward_in_parts', not in 'merge'");
  tesela_context_destroy(context);
}

static void test_gradient(void) {
  const char *text = "attention capped(const cap: f32 = 2, slope: f32[H]) {\n"
                     "  score = cap * tanh(s / cap) + slope[h] * floor(s)\n"
                     "  sink = slope[h]\n"
                     "}\n";
  tesela_kernel_options options = kernel_options_of(text, TESELA_F32, head_dim);
  tesela_parameter cap;
  tesela_gradient *gradient = NULL;

  expect_error(tesela_variant_gradient(&options, NULL), TESELA_INVALID_ARGUMENT, "gradient");
  expect(tesela_variant_gradient(&options, &gradient) == TESELA_OK, "derivatives");
  text = tesela_gradient_text(gradient);
  expect(strstr(text, "d score / d s = ") != NULL, "by s");
  expect(strstr(text, "d score / d slope[h] = ") != NULL, "by a tensor's elements");
  expect(strstr(text, "d sink / d slope[h] = 1\n") != NULL, "of the sink");
  expect(strstr(tesela_gradient_notes(gradient), "note: ") != NULL, "a floor passes nothing on");
  tesela_gradient_destroy(gradient);

  memset(&cap, 0, sizeof cap);
  cap.name = "cup";
  options.constants = &cap;
  options.constant_count = 1;
  gradient = NULL;
  expect_error(tesela_variant_gradient(&options, &gradient), TESELA_INVALID_ARGUMENT, "cup");
  options.constant_count = 0;
  options.variant = "attention wrong() { score = t }";
  expect_error(tesela_variant_gradient(&options, &gradient), TESELA_INVALID_VARIANT, "t");
  expect(gradient == NULL, "nothing is made");
  expect(strcmp(tesela_gradient_text(NULL), "") == 0, "no handle, no text");
  tesela_gradient_destroy(NULL);
}

int main(void) {
  test_ways_to_launch();
  test_tensors_that_are_not_declared();
  test_ptxas();
  test_workers();
  test_programs();
  test_explain();
  test_gradient();
  test_kernel();
  return report_result("the library does as its C API says");
}
