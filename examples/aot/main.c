/*
 * Causal attention compiled ahead of time, in plain C. It needs no CUDA toolkit or header, and no
 * library except the driver. Two commands build it:
 *
 *   tesela export causal --target sm_80,sm_90 --head-dim 64 -o causal_bundle
 *   cc main.c causal_bundle/causal.c -I causal_bundle -o main -lm
 *
 * (with a glibc before 2.34 also -ldl). The program computes the same on the CPU. The exit code is
 * 0 if the two results agree.
 */
#include "causal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { batch = 1, heads = 4, kv_heads = 2, length = 300, head_dim = 64 };

/* A bf16 is the upper half of a float. */
static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* A number in [-1, 1) for each seed. */
static float random_number(uint32_t seed) {
  seed = (seed ^ seed >> 16) * 0x45d9f3b;
  seed = (seed ^ seed >> 16) * 0x45d9f3b;
  return (float)((seed ^ seed >> 16) & 0xffff) / 32768.0f - 1.0f;
}

static int check(int status, const causal_error *error) {
  if (status != causal_ok) {
    fprintf(stderr, "error: %s\n", error->message);
    exit(1);
  }
  return status;
}

/* Random numbers on the host and on the device, [batch, heads, length, head_dim]. */
static uint16_t *make_input(const causal_kernel *kernel, int64_t its_heads, uint32_t seed,
                            causal_tensor *tensor) {
  const size_t count = (size_t)(batch * its_heads * length * head_dim);
  uint16_t *values = malloc(count * sizeof *values);
  causal_error error;
  size_t i;
  if (values == NULL)
    exit(1);
  for (i = 0; i < count; ++i)
    values[i] = to_bf16(random_number(seed + (uint32_t)i));
  tensor->extents[0] = batch;
  tensor->extents[1] = its_heads;
  tensor->extents[2] = length;
  tensor->extents[3] = head_dim;
  causal_contiguous(4, tensor->extents, tensor->strides);
  check(causal_allocate(kernel, count * sizeof *values, &tensor->data, &error), &error);
  check(causal_copy_to_device(kernel, tensor->data, values, count * sizeof *values, &error),
        &error);
  return values;
}

/* Computes one row of the result on the CPU, from the definition of attention. */
static void reference(const uint16_t *q, const uint16_t *k, const uint16_t *v, int row,
                      double *result) {
  double scores[length], largest = -HUGE_VAL, sum = 0;
  int key, d;
  for (key = 0; key <= row; ++key) {
    scores[key] = 0;
    for (d = 0; d < head_dim; ++d)
      scores[key] += (double)from_bf16(q[row * head_dim + d]) * from_bf16(k[key * head_dim + d]);
    scores[key] /= sqrt(head_dim);
    largest = scores[key] > largest ? scores[key] : largest;
  }
  memset(result, 0, head_dim * sizeof *result);
  for (key = 0; key <= row; ++key) {
    const double weight = exp(scores[key] - largest);
    sum += weight;
    for (d = 0; d < head_dim; ++d)
      result[d] += weight * from_bf16(v[key * head_dim + d]);
  }
  for (d = 0; d < head_dim; ++d)
    result[d] /= sum;
}

static double largest_error(const uint16_t *q, const uint16_t *k, const uint16_t *v,
                            const uint16_t *o) {
  double largest = 0, row[head_dim];
  int head, query, d;
  for (head = 0; head < heads; ++head) {
    const size_t plane = (size_t)head * length * head_dim;
    const size_t kv_plane = (size_t)(head / (heads / kv_heads)) * length * head_dim;
    for (query = 0; query < length; ++query) {
      reference(q + plane, k + kv_plane, v + kv_plane, query, row);
      for (d = 0; d < head_dim; ++d) {
        const double error = fabs(from_bf16(o[plane + (size_t)(query * head_dim + d)]) - row[d]);
        largest = error > largest || isnan(error) ? error : largest;
      }
    }
  }
  return largest;
}

int main(void) {
  const size_t bytes = (size_t)batch * heads * length * head_dim * sizeof(uint16_t);
  causal_kernel *kernel;
  causal_arguments arguments;
  causal_error error;
  uint16_t *q, *k, *v, *o;
  double difference;

  check(causal_create(0, &kernel, &error), &error);
  causal_set_defaults(&arguments);
  q = make_input(kernel, heads, 1, &arguments.q);
  k = make_input(kernel, kv_heads, 100000, &arguments.k);
  v = make_input(kernel, kv_heads, 200000, &arguments.v);
  o = make_input(kernel, heads, 300000, &arguments.o); /* overwritten */
  check(causal_allocate(kernel, (size_t)batch * heads * length * sizeof(float), &arguments.lse,
                        &error),
        &error);
  check(causal_workspace_bytes(kernel, &arguments, &arguments.workspace_bytes, &error), &error);
  check(causal_allocate(kernel, arguments.workspace_bytes, &arguments.workspace, &error), &error);

  check(causal_launch(kernel, &arguments, NULL, &error), &error);
  check(causal_synchronize(kernel, NULL, &error), &error);
  check(causal_copy_to_host(kernel, o, arguments.o.data, bytes, &error), &error);

  difference = largest_error(q, k, v, o);
  printf("%s: the largest error is %g\n", causal_target(kernel), difference);

  causal_release(kernel, arguments.q.data);
  causal_release(kernel, arguments.k.data);
  causal_release(kernel, arguments.v.data);
  causal_release(kernel, arguments.o.data);
  causal_release(kernel, arguments.lse);
  causal_release(kernel, arguments.workspace);
  causal_destroy(kernel);
  free(q);
  free(k);
  free(v);
  free(o);
  /* bf16 has 8 significant bits. Results are at most 1, so rounding changes them, and the weights,
   by at most 2^-9. */
  return difference < 0.01 ? 0 : 1;
}
