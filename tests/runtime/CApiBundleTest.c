/*===----------------------------------------------------------------------===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
\*===----------------------------------------------------------------------===*/
/*
 * Bundles from C99: one is written, read, loaded, launched, and damaged.
 */
#include "CApiFolder.h"
#include "CApiOneKey.h"

static void test_manifest(const tesela_bundle *bundle) {
  tesela_bundle_info info;
  tesela_bundle_target target;
  memset(&info, 0, sizeof info);
  memset(&target, 0, sizeof target);
  info.size = sizeof info;
  target.size = sizeof target;
  expect(tesela_bundle_describe(bundle, &info) == TESELA_OK, "what it tells");
  expect(strcmp(info.name, "slopes") == 0 && strcmp(info.variant, "sliding_alibi") == 0 &&
             strcmp(info.variant_text, variant_text) == 0 &&
             strcmp(info.version, tesela_version()) == 0,
         "its texts");
  expect(info.input_type == TESELA_F32 && info.head_dim_qk == head_dim &&
             info.head_dim_v == head_dim && info.target_count == 1,
         "its kernel");
  expect(tesela_bundle_target_describe(bundle, 0, &target) == TESELA_OK, "its target");
  expect(strcmp(target.target, "host") == 0 && strcmp(target.code_format, "object") == 0 &&
             strlen(target.digest) == 64 && target.bytes > 0 && strlen(target.file) > 0 &&
             strcmp(target.schedule, "rows = 1") == 0 && target.architecture != NULL,
         "the host's");
  expect_error(tesela_bundle_target_describe(bundle, 1, &target), TESELA_INVALID_ARGUMENT,
               "the index is 1, there are 1 targets");
}

static void launch(const tesela_kernel *kernel) {
  struct one_key one;
  prepare_one_key(&one, 3);
  expect(tesela_launch(kernel, &one.arguments, NULL) == TESELA_OK, "a launch");
  expect(one_key_is_right(&one), "its result");
}

static void test_load(const char *folder) {
  tesela_context *context = host_context();
  tesela_kernel *kernel = NULL;
  tesela_kernel_info info;
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  expect(tesela_bundle_load(context, folder, &kernel) == TESELA_OK, "its kernel");
  expect(tesela_kernel_describe(kernel, &info) == TESELA_OK && info.origin == TESELA_BUNDLE,
         "comes from the bundle");
  expect(tesela_context_compile_count(context) == 0, "nothing is compiled");
  launch(kernel);
  tesela_kernel_destroy(kernel);
  expect_error(tesela_bundle_load(context, "/dev/null/nothing", &kernel), TESELA_NOT_FOUND,
               "/dev/null/nothing");
  expect(kernel == NULL, "no kernel after a failure");
  expect_error(tesela_bundle_load(context, "", &kernel), TESELA_INVALID_ARGUMENT, "path is empty");
  expect_error(tesela_bundle_load(NULL, folder, &kernel), TESELA_INVALID_ARGUMENT,
               "context is NULL");
  tesela_context_destroy(context);
}

static void test_damage(const char *folder) {
  tesela_context *context = host_context();
  tesela_bundle *bundle = NULL;
  tesela_bundle_target target;
  tesela_kernel *kernel = NULL;
  char path[256];
  memset(&target, 0, sizeof target);
  target.size = sizeof target;
  expect(tesela_bundle_read(folder, &bundle) == TESELA_OK &&
             tesela_bundle_target_describe(bundle, 0, &target) == TESELA_OK,
         "the file of the code");
  snprintf(path, sizeof path, "%s/%s", folder, target.file);
  flip_last_bit(path);
  tesela_bundle_destroy(bundle);
  expect_error(tesela_bundle_load(context, folder, &kernel), TESELA_INPUT_OUTPUT, "");
  expect(kernel == NULL, "nothing is loaded");
  tesela_context_destroy(context);
}

/* A bundle for a GPU has a launcher in C, unless no_launcher is set. */
static void test_no_launcher(void) {
  tesela_kernel_options kernel = kernel_options_of(variant_text, TESELA_BF16, head_dim);
  const char *target = "sm_80";
  int without;
  for (without = 0; without < 2; ++without) {
    char folder[] = "/tmp/tesela_c_api_XXXXXX", path[64];
    const char *files[] = {"manifest.json", "sm_80.kernel", "slopes.c", "slopes.h"};
    tesela_bundle_options options;
    int i;
    make_folder(folder);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.kernel = &kernel;
    options.name = "slopes";
    options.targets = &target;
    options.target_count = 1;
    options.ptx = 1;
    options.no_launcher = without;
    expect(tesela_bundle_export(&options, folder, NULL) == TESELA_OK, "a bundle for a GPU");
    for (i = 0; i < 4; ++i) {
      FILE *file;
      snprintf(path, sizeof path, "%s/%s", folder, files[i]);
      file = fopen(path, "rb");
      expect((file != NULL) == (i < 2 || !without), files[i]);
      if (file != NULL)
        fclose(file);
    }
    remove_folder(folder);
  }
}

int main(void) {
  char folder[] = "/tmp/tesela_c_api_XXXXXX";
  tesela_kernel_options kernel = kernel_options_of(variant_text, TESELA_F32, head_dim);
  const char *targets[] = {"host", NULL};
  tesela_bundle_options options;
  tesela_bundle *bundle = NULL;
  make_folder(folder);
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  expect_error(tesela_bundle_export(&options, folder, &bundle), TESELA_INVALID_ARGUMENT,
               "tesela_kernel_options is NULL");
  options.kernel = &kernel;
  options.name = "slopes";
  options.target_count = 2;
  expect_error(tesela_bundle_export(&options, folder, &bundle), TESELA_INVALID_ARGUMENT,
               "targets is NULL, but target_count is 2");
  options.targets = targets;
  expect_error(tesela_bundle_export(&options, folder, &bundle), TESELA_INVALID_ARGUMENT,
               "target 1 is NULL");
  options.target_count = 1;
  expect_error(tesela_bundle_export(&options, NULL, &bundle), TESELA_INVALID_ARGUMENT,
               "folder is NULL");
  expect(bundle == NULL, "no bundle after a failure");
  expect(tesela_bundle_export(&options, folder, &bundle) == TESELA_OK, "a bundle");
  test_manifest(bundle);
  tesela_bundle_destroy(bundle);
  expect(tesela_bundle_export(&options, folder, NULL) == TESELA_OK, "written again");
  expect(tesela_bundle_read(folder, &bundle) == TESELA_OK, "read");
  test_manifest(bundle);
  tesela_bundle_destroy(bundle);
  test_load(folder);
  test_damage(folder);
  test_no_launcher();

  expect_error(tesela_bundle_read(folder, NULL), TESELA_INVALID_ARGUMENT, "bundle is NULL");
  expect_error(tesela_bundle_read(NULL, &bundle), TESELA_INVALID_ARGUMENT, "path is NULL");
  expect_error(tesela_bundle_describe(NULL, NULL), TESELA_INVALID_ARGUMENT, "bundle is NULL");
  expect_error(tesela_bundle_target_describe(NULL, 0, NULL), TESELA_INVALID_ARGUMENT,
               "bundle is NULL");
  tesela_bundle_destroy(NULL);
  remove_folder(folder);
  return report_result("bundles do as they say");
}
