/*===----------------------------------------------------------------------===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
\*===----------------------------------------------------------------------===*/
/*
 * The cache on disk and launches' workspaces from C99.
 */
#include "CApiFolder.h"
#include "CApiOneKey.h"

/* Two kernels in a new folder. */
static void fill_cache(const char *folder) {
  tesela_context_options context_options;
  tesela_kernel_options options = kernel_options_of(variant_text, TESELA_F32, head_dim);
  tesela_context *context = NULL;
  tesela_kernel *kernel = NULL;
  memset(&context_options, 0, sizeof context_options);
  context_options.size = sizeof context_options;
  context_options.device = "host";
  context_options.cache_folder = folder;
  context_options.cache_bytes = (int64_t)1 << 20;
  context_options.most_kernels = 1;
  expect(tesela_context_create(&context_options, &context) == TESELA_OK, "a context with a cache");
  expect(tesela_compile(context, &options, &kernel) == TESELA_OK, "a kernel");
  tesela_kernel_destroy(kernel);
  options.head_dim_v = 2 * head_dim;
  expect(tesela_compile(context, &options, &kernel) == TESELA_OK, "another kernel");
  tesela_kernel_destroy(kernel);
  tesela_context_destroy(context);
}

static void test_cache(void) {
  char folder[] = "/tmp/tesela_c_api_XXXXXX";
  tesela_cache *cache = NULL;
  tesela_cached_kernels *kernels = NULL;
  tesela_cached_kernel kernel;
  tesela_cache_keep keep;
  tesela_cache_removal removal;
  int64_t bytes, fewest;
  make_folder(folder);
  fill_cache(folder);
  expect(tesela_cache_open(folder, &cache) == TESELA_OK, "the cache");
  expect(strcmp(tesela_cache_folder(cache), folder) == 0, "its folder");
  memset(&kernel, 0, sizeof kernel);
  memset(&keep, 0, sizeof keep);
  memset(&removal, 0, sizeof removal);
  kernel.size = sizeof kernel;
  keep.size = sizeof keep;
  removal.size = sizeof removal;

  expect(tesela_cache_list(cache, &kernels) == TESELA_OK, "its list");
  expect(tesela_cached_kernels_count(kernels) == 2, "of two");
  /* If both were used in the same second, either may count as the older one, which is removed
   * first. */
  expect(tesela_cached_kernels_describe(kernels, 1, &kernel) == TESELA_OK, "the second");
  fewest = kernel.bytes;
  expect(tesela_cached_kernels_describe(kernels, 0, &kernel) == TESELA_OK, "the first");
  expect(strlen(kernel.key) == 64 && kernel.bytes > 0 && kernel.used > 0 && kernel.made > 0 &&
             kernel.damage_code == TESELA_OK && strcmp(kernel.damage, "") == 0,
         "its file");
  expect(strcmp(kernel.variant, "sliding_alibi") == 0 && strcmp(kernel.target, "host") == 0 &&
             kernel.input_type == TESELA_F32 && kernel.head_dim_qk == head_dim &&
             strcmp(kernel.schedule, "rows = 1") == 0,
         "what it is");
  expect_error(tesela_cached_kernels_describe(kernels, 2, &kernel), TESELA_INVALID_ARGUMENT,
               "there are 2 kernels");
  bytes = kernel.bytes;
  if (bytes < fewest)
    fewest = bytes;
  flip_last_bit(kernel.path);
  tesela_cached_kernels_destroy(kernels);
  expect(tesela_cache_verify(cache, &kernels) == TESELA_OK, "both are read");
  expect(tesela_cached_kernels_describe(kernels, 0, &kernel) == TESELA_OK, "again");
  if (kernel.damage_code == TESELA_OK)
    expect(tesela_cached_kernels_describe(kernels, 1, &kernel) == TESELA_OK, "or the other");
  expect(kernel.damage_code == TESELA_INPUT_OUTPUT && strlen(kernel.damage) > 0, "one is damaged");
  tesela_cached_kernels_destroy(kernels);

  expect(tesela_cache_prune(cache, &keep, &removal) == TESELA_OK && removal.kernels == 0,
         "without a limit all stay");
  keep.most_bytes = -1;
  expect_error(tesela_cache_prune(cache, &keep, NULL), TESELA_INVALID_ARGUMENT,
               "most_bytes is -1, it must not be negative");
  keep.most_bytes = bytes;
  removal.size = 0;
  expect_error(tesela_cache_prune(cache, &keep, &removal), TESELA_INVALID_ARGUMENT,
               "set it to sizeof(tesela_cache_removal)");
  removal.size = sizeof removal;
  expect(tesela_cache_prune(cache, &keep, &removal) == TESELA_OK, "half of it");
  expect(removal.kernels >= 1 && removal.bytes >= fewest && removal.bytes_left <= bytes,
         "what is gone and left");
  expect(tesela_cache_clear(cache, NULL) == TESELA_OK, "the rest");
  expect(tesela_cache_list(cache, &kernels) == TESELA_OK &&
             tesela_cached_kernels_count(kernels) == 0,
         "nothing is left");
  tesela_cached_kernels_destroy(kernels);

  expect_error(tesela_cache_open(folder, NULL), TESELA_INVALID_ARGUMENT, "cache is NULL");
  expect_error(tesela_cache_list(NULL, &kernels), TESELA_INVALID_ARGUMENT,
               "cache is NULL: make one by tesela_cache_open");
  expect_error(tesela_cache_verify(cache, NULL), TESELA_INVALID_ARGUMENT, "kernels is NULL");
  expect_error(tesela_cache_prune(cache, NULL, NULL), TESELA_INVALID_ARGUMENT,
               "tesela_cache_keep is NULL");
  expect_error(tesela_cache_clear(NULL, NULL), TESELA_INVALID_ARGUMENT, "cache is NULL");
  expect_error(tesela_cached_kernels_describe(NULL, 0, &kernel), TESELA_INVALID_ARGUMENT,
               "kernels is NULL");
  expect(tesela_cached_kernels_count(NULL) == 0 && strcmp(tesela_cache_folder(NULL), "") == 0,
         "no cache");
  tesela_cached_kernels_destroy(NULL);
  tesela_cache_destroy(NULL);
  tesela_cache_destroy(cache);
  remove_folder(folder);
}

static void test_workspace(void) {
  tesela_context *context = host_context();
  tesela_kernel_options options = kernel_options_of(variant_text, TESELA_F32, head_dim);
  tesela_kernel *kernel = NULL;
  struct one_key one;
  tesela_tensor_arguments tensors;
  size_t bytes = 1;
  prepare_one_key(&one, 1);
  expect(tesela_compile(context, &options, &kernel) == TESELA_OK, "a kernel");
  expect(tesela_kernel_workspace_bytes(kernel, &one.arguments, &bytes) == TESELA_OK && bytes == 0,
         "a kernel without summaries needs no workspace");
  one.arguments.workspace = one.q;
  one.arguments.workspace_bytes = sizeof one.q;
  expect(tesela_launch(kernel, &one.arguments, NULL) == TESELA_OK,
         "one that is given all the same");
  expect_error(tesela_kernel_workspace_bytes(kernel, &one.arguments, NULL), TESELA_INVALID_ARGUMENT,
               "bytes is NULL");
  expect_error(tesela_kernel_workspace_bytes(NULL, &one.arguments, &bytes), TESELA_INVALID_ARGUMENT,
               "kernel is NULL");
  memset(&tensors, 0, sizeof tensors);
  tensors.size = sizeof tensors;
  bytes = 1;
  expect(tesela_kernel_workspace_bytes_of_tensors(kernel, &tensors, &bytes) == TESELA_OK &&
             bytes == 0,
         "no arguments are looked at where no launch needs a workspace");
  expect_error(tesela_launch_tensors(kernel, &tensors, NULL), TESELA_INVALID_ARGUMENT,
               "q: tesela_tensor is NULL");
  tesela_kernel_destroy(kernel);
  tesela_context_destroy(context);
}

int main(void) {
  test_cache();
  test_workspace();
  return report_result("the cache and workspaces do as they say");
}
