/* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Causal attention in a sliding window, on the first GPU, or on the host if there is no GPU. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <tesela/tesela.h>

enum { batch = 1, heads = 4, kv_heads = 2, length = 512, head_dim = 64 };
enum { queries_size = batch * heads * length * head_dim };
enum { keys_size = batch * kv_heads * length * head_dim };

static const char *const text = "attention window(w: i32 = 128) {\n"
                                "  mask = q >= k && q - k < w\n"
                                "}\n";

/* The objects that a program keeps. Each is NULL until it is made. */
struct attention {
  tesela_context *context;
  tesela_kernel *kernel;
  tesela_buffer *q, *k, *v, *o, *lse;
};

static tesela_code make_kernel(struct attention *attention) {
  tesela_kernel_options options;
  tesela_code code = tesela_context_create(NULL, &attention->context);
  if (code != TESELA_OK)
    return code;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.variant = text;
  options.input_type = TESELA_BF16;
  options.head_dim_qk = options.head_dim_v = head_dim;
  return tesela_compile(attention->context, &options, &attention->kernel);
}

/* Allocates `count` bf16 in the device's memory and fills them with random numbers. */
static tesela_code make_input(const tesela_context *context, size_t count, uint64_t seed,
                              tesela_buffer **buffer) {
  static uint16_t numbers[queries_size];
  const int64_t extent = (int64_t)count;
  tesela_tensor tensor;
  tesela_code code;
  memset(&tensor, 0, sizeof tensor);
  tensor.size = sizeof tensor;
  code = tesela_tensor_contiguous(numbers, TESELA_BF16, 1, &extent, &tensor);
  if (code == TESELA_OK)
    code = tesela_fill_normal(&tensor, seed);
  if (code == TESELA_OK)
    code = tesela_buffer_create(context, count * sizeof *numbers, buffer);
  if (code == TESELA_OK)
    code = tesela_buffer_write(*buffer, numbers, count * sizeof *numbers);
  return code;
}

static tesela_code make_memory(struct attention *attention) {
  const tesela_context *context = attention->context;
  tesela_code code = make_input(context, queries_size, 1, &attention->q);
  if (code == TESELA_OK)
    code = make_input(context, keys_size, 2, &attention->k);
  if (code == TESELA_OK)
    code = make_input(context, keys_size, 3, &attention->v);
  if (code == TESELA_OK)
    code = tesela_buffer_create(context, queries_size * sizeof(uint16_t), &attention->o);
  if (code == TESELA_OK)
    code = tesela_buffer_create(context, batch * heads * length * sizeof(float), &attention->lse);
  return code;
}

/* A view [batch, heads, length, head_dim] without gaps. */
static tesela_view view_of(const tesela_buffer *buffer, int64_t heads_of_it) {
  tesela_view view;
  view.data = tesela_buffer_data(buffer);
  view.length_stride = head_dim;
  view.head_stride = length * view.length_stride;
  view.batch_stride = heads_of_it * view.head_stride;
  return view;
}

static tesela_code launch(const struct attention *attention, int window) {
  tesela_parameter parameter;
  tesela_launch_arguments arguments;
  memset(&parameter, 0, sizeof parameter);
  parameter.name = "w";
  parameter.scalar = window;
  memset(&arguments, 0, sizeof arguments);
  arguments.size = sizeof arguments;
  arguments.batch = batch;
  arguments.heads = heads;
  arguments.kv_heads = kv_heads;
  arguments.length = arguments.kv_length = length;
  arguments.q = view_of(attention->q, heads);
  arguments.k = view_of(attention->k, kv_heads);
  arguments.v = view_of(attention->v, kv_heads);
  arguments.o = view_of(attention->o, heads);
  arguments.lse = tesela_buffer_data(attention->lse);
  arguments.parameters = &parameter;
  arguments.parameter_count = 1;
  return tesela_launch(attention->kernel, &arguments, NULL);
}

static void destroy(struct attention *attention) {
  tesela_buffer_destroy(attention->q);
  tesela_buffer_destroy(attention->k);
  tesela_buffer_destroy(attention->v);
  tesela_buffer_destroy(attention->o);
  tesela_buffer_destroy(attention->lse);
  tesela_kernel_destroy(attention->kernel);
  tesela_context_destroy(attention->context);
}

int main(void) {
  struct attention attention = {NULL, NULL, NULL, NULL, NULL, NULL, NULL};
  float lse[batch * heads * length];
  tesela_code code = make_kernel(&attention);
  if (code == TESELA_OK)
    code = make_memory(&attention);
  if (code == TESELA_OK)
    code = launch(&attention, 64);
  if (code == TESELA_OK)
    code = tesela_buffer_read(attention.lse, lse, sizeof lse); /* waits for the launch */
  if (code == TESELA_OK)
    printf("Tesela %s on %s: the last query's lse is %.3f\n", tesela_version(),
           tesela_context_device(attention.context), lse[batch * heads * length - 1]);
  else
    fprintf(stderr, "%s: %s\n", tesela_code_name(code), tesela_last_error());
  destroy(&attention);
  return code != TESELA_OK;
}
