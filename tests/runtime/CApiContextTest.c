/*===----------------------------------------------------------------------===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
\*===----------------------------------------------------------------------===*/
/*
 * The C API without launches: versions, the chain of an error, devices, events, memory, times,
 * variants, programs; and NULL wherever it can be passed.
 */
#include "CApiTest.h"

#include <pthread.h>

static void test_version(void) {
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", TESELA_VERSION_MAJOR, TESELA_VERSION_MINOR,
           TESELA_VERSION_PATCH);
  expect(strcmp(text, TESELA_TEST_VERSION) == 0, "the header's version");
  expect(strcmp(tesela_version(), TESELA_TEST_VERSION) == 0, "the library's version");
  expect(tesela_version_number() == TESELA_VERSION_NUMBER, "its number");
}

static void *first_error_of_a_thread(void *unused) {
  expect(tesela_last_error_code() == TESELA_OK && tesela_last_error_count() == 0 &&
             strcmp(tesela_last_error(), "") == 0 && tesela_last_error_link(0) == NULL,
         "another thread has no error");
  return unused;
}

static void test_errors(void) {
  pthread_t thread;
  tesela_tensor tensor;
  tesela_tensor_arguments arguments;
  tesela_kernel_options options = kernel_options_of(variant_text, TESELA_F32, 8);
  tesela_reference *reference = NULL;
  memset(&arguments, 0, sizeof arguments);
  arguments.size = sizeof arguments;
  memset(&tensor, 0, sizeof tensor);
  tensor.size = sizeof tensor;
  tensor.rank = 9;
  arguments.q = &tensor;

  expect_error(tesela_reference_on_host(&options, &arguments, 0, &reference),
               TESELA_INVALID_ARGUMENT, "q: a tensor has rank 9, it must lie in [0, 8]");
  expect(tesela_last_error_count() == 2, "a chain of two");
  expect(strcmp(tesela_last_error_link(0), "q") == 0, "what it was about");
  expect(strcmp(tesela_last_error_link(1), "a tensor has rank 9, it must lie in [0, 8]") == 0,
         "its cause");
  expect(tesela_last_error_link(2) == NULL, "no third link");
  expect(strcmp(tesela_code_name(tesela_last_error_code()), "invalid argument") == 0, "its name");
  expect(strcmp(tesela_code_name((tesela_code)15), "unknown code") == 0, "no such code");

  expect(pthread_create(&thread, NULL, first_error_of_a_thread, NULL) == 0, "a thread");
  pthread_join(thread, NULL);
}

static void test_devices(const tesela_context *context) {
  tesela_devices *devices = NULL;
  tesela_device_info info, of_context;
  expect(tesela_devices_create(TESELA_DEVICE_HOST, &devices) == TESELA_OK, "the host's list");
  expect(tesela_devices_count(devices) == 1, "of one");
  memset(&info, 0, sizeof info);
  expect_error(tesela_devices_describe(devices, 0, &info), TESELA_INVALID_ARGUMENT,
               "set it to sizeof(tesela_device_info)");
  info.size = sizeof info;
  expect_error(tesela_devices_describe(devices, 1, &info), TESELA_INVALID_ARGUMENT,
               "the index is 1, there are 1 devices");
  expect(tesela_devices_describe(devices, 0, &info) == TESELA_OK, "the host");
  expect(info.kind == TESELA_DEVICE_HOST && info.index == 0 && info.sm == 0, "its kind");
  expect(strcmp(info.target, "host") == 0 && strcmp(info.driver, "") == 0, "its target");
  expect(info.processors > 0 && info.memory_bytes > 0 && strlen(info.name) > 0, "its size");
  of_context = info;
  expect(tesela_context_describe_device(context, &of_context) == TESELA_OK, "a context's device");
  expect(strcmp(of_context.name, info.name) == 0, "is the host");
  expect(strcmp(tesela_context_device(context), info.name) == 0, "by name too");
  tesela_devices_destroy(devices);

  expect_error(tesela_devices_create((tesela_device_kind)3, &devices), TESELA_INVALID_ARGUMENT,
               "the kind 3 is not a value of tesela_device_kind");
  expect(devices == NULL, "no list after a failure");
  if (tesela_devices_create(TESELA_DEVICE_CUDA, &devices) == TESELA_OK)
    expect(tesela_devices_count(devices) > 0, "a driver with GPUs");
  else
    expect(devices == NULL && strlen(tesela_last_error()) > 0, "or the reason why there is none");
  tesela_devices_destroy(devices);
}

struct heard {
  int events, warnings;
  char last[64];
};

static void hear(void *user, const tesela_event *event) {
  struct heard *heard = user;
  ++heard->events;
  expect(event->size == sizeof *event, "an event's size");
  expect(event->variant && event->target && event->key && event->text && event->failure,
         "texts of an event are never NULL");
  if (event->kind == TESELA_EVENT_WARNING) {
    ++heard->warnings;
    expect(event->failure_code == TESELA_OK && event->stage_count == 0, "a warning's fields");
    snprintf(heard->last, sizeof heard->last, "%s", event->text);
  }
}

/* If the cache folder cannot be created, there is a warning, which is an event too. */
static void test_events(void) {
  struct heard heard;
  tesela_context *context = NULL;
  tesela_kernel *kernel = NULL;
  tesela_context_options options;
  tesela_kernel_options kernel_options = kernel_options_of(variant_text, TESELA_F32, 8);
  memset(&heard, 0, sizeof heard);
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.device = "host";
  options.cache_folder = "/dev/null/tesela";
  options.events = hear;
  options.events_user = &heard;
  expect(tesela_context_create(&options, &context) == TESELA_OK, "a context that tells");
  expect(tesela_compile(context, &kernel_options, &kernel) == TESELA_OK, "a kernel");
  expect(heard.events > 0 && heard.warnings > 0, "it has told of the folder");
  expect(strstr(heard.last, "/dev/null/tesela") != NULL, "which it names");
  tesela_kernel_destroy(kernel);
  tesela_context_destroy(context);
  expect(strcmp(tesela_event_name(TESELA_EVENT_CACHE_HIT), "cache hit") == 0, "an event's name");
}

static void test_memory(tesela_context *context) {
  tesela_buffer *buffer = NULL;
  char bytes[5] = "abcd", back[5] = "";
  expect(tesela_buffer_create(context, 4, &buffer) == TESELA_OK, "a buffer");
  expect(tesela_buffer_size(buffer) == 4, "its size");
  expect(tesela_buffer_data(buffer) && (uintptr_t)tesela_buffer_data(buffer) % 256 == 0,
         "its alignment");
  expect(tesela_buffer_write(buffer, bytes, 4) == TESELA_OK, "a copy to it");
  expect(tesela_buffer_read(buffer, back, 4) == TESELA_OK && strcmp(back, "abcd") == 0, "and back");
  expect_error(tesela_buffer_write(buffer, bytes, 5), TESELA_INVALID_ARGUMENT, "does not fit");
  expect_error(tesela_buffer_read(buffer, back, 5), TESELA_INVALID_ARGUMENT, "does not fit");
  expect_error(tesela_buffer_write(buffer, NULL, 4), TESELA_INVALID_ARGUMENT, "from is NULL");
  expect_error(tesela_buffer_read(buffer, NULL, 4), TESELA_INVALID_ARGUMENT, "to is NULL");
  expect(tesela_buffer_fill(buffer, 'z') == TESELA_OK, "a fill");
  expect(tesela_buffer_read(buffer, back, 2) == TESELA_OK && strcmp(back, "zzcd") == 0, "of bytes");
  expect(tesela_synchronize(context, NULL) == TESELA_OK, "nothing to wait for");
  tesela_buffer_destroy(buffer);
  expect_error(tesela_buffer_create(context, (size_t)-1 / 2, &buffer), TESELA_OUT_OF_MEMORY, "");
  expect(buffer == NULL, "no buffer after a failure");
}

static tesela_code count_calls(void *calls) {
  ++*(int *)calls;
  return TESELA_OK;
}

static tesela_code fail_by_itself(void *unused) {
  (void)unused;
  return TESELA_CANCELLED;
}

static tesela_code fail_in_tesela(void *unused) {
  (void)unused;
  return tesela_launch(NULL, NULL, NULL);
}

static void test_measure(const tesela_context *context) {
  double times[3] = {-1, -1, -1};
  int calls = 0;
  expect(tesela_measure(context, count_calls, &calls, 2, 3, NULL, times) == TESELA_OK, "times");
  expect(calls == 5 && times[0] >= 0 && times[1] >= 0 && times[2] >= 0, "of each call");
  expect_error(tesela_measure(context, fail_in_tesela, NULL, 1, 0, NULL, NULL),
               TESELA_INVALID_ARGUMENT, "measuring: kernel is NULL");
  expect_error(tesela_measure(context, fail_by_itself, NULL, 0, 1, NULL, times), TESELA_CANCELLED,
               "the work returned the code 9");
  expect_error(tesela_measure(context, count_calls, &calls, -1, 1, NULL, times),
               TESELA_INVALID_ARGUMENT, "warmup is -1");
  expect_error(tesela_measure(context, count_calls, &calls, 0, -2, NULL, times),
               TESELA_INVALID_ARGUMENT, "repeat is -2");
  expect_error(tesela_measure(context, count_calls, &calls, 0, 1, NULL, NULL),
               TESELA_INVALID_ARGUMENT, "milliseconds is NULL");
  expect_error(tesela_measure(context, NULL, NULL, 0, 1, NULL, times), TESELA_INVALID_ARGUMENT,
               "work is NULL");
}

static void test_variant(void) {
  tesela_variant *variant = NULL;
  tesela_parameter_info info;
  const char *text = "attention two(const n: i32 = 3, t: bf16[2*Sk+1, 4], unused: f32) {\n"
                     "  mask = t[k, n] > 0.0\n"
                     "}\n";
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  expect(tesela_variant_check(text, "two.attn", &variant) == TESELA_OK, "a variant");
  expect(strcmp(tesela_variant_name(variant), "two") == 0, "its name");
  expect(strstr(tesela_variant_warnings(variant), "two.attn:1:") != NULL, "a warning in its file");
  expect(tesela_variant_parameter_count(variant) == 3, "its parameters");
  expect(tesela_variant_parameter(variant, 0, &info) == TESELA_OK, "the first");
  expect(strcmp(info.name, "n") == 0 && info.type == TESELA_I32 && info.is_constant &&
             !info.is_capture && info.has_default && info.default_value == 3 && info.rank == 0,
         "a constant with a default");
  expect(tesela_variant_parameter(variant, 1, &info) == TESELA_OK, "the second");
  expect(strcmp(info.name, "t") == 0 && info.type == TESELA_BF16 && info.is_capture &&
             !info.has_default && info.rank == 2,
         "a captured tensor");
  expect(strcmp(info.extents[0].name, "Sk") == 0 && info.extents[0].coefficient == 2 &&
             info.extents[0].offset == 1,
         "an extent with a name");
  expect(strcmp(info.extents[1].name, "") == 0 && info.extents[1].coefficient == 0 &&
             info.extents[1].offset == 4,
         "an extent that is a number");
  expect_error(tesela_variant_parameter(variant, 3, &info), TESELA_INVALID_ARGUMENT,
               "the index is 3, there are 3 parameters");
  tesela_variant_destroy(variant);

  expect_error(tesela_variant_check("attention", "broken.attn", &variant), TESELA_INVALID_VARIANT,
               "broken.attn:1:");
  expect(variant == NULL, "no variant after a failure");
  expect_error(tesela_variant_check(NULL, NULL, &variant), TESELA_INVALID_ARGUMENT, "text is NULL");
}

static void test_programs(void) {
  tesela_bytes *program = NULL;
  tesela_kernel_options options = kernel_options_of(variant_text, TESELA_BF16, 64);
  expect(tesela_emit_stage(&options, "tile", &program) == TESELA_OK, "a program");
  expect(tesela_bytes_size(program) == strlen(tesela_bytes_data(program)), "its bytes");
  expect(strstr(tesela_bytes_data(program), "for host") != NULL, "the host where none is named");
  tesela_bytes_destroy(program);
  options.target = "sm_90";
  expect(tesela_emit_stage(&options, "ptx", &program) == TESELA_OK, "a GPU's program");
  expect(strstr(tesela_bytes_data(program), "for sm_90") != NULL, "without a GPU");
  tesela_bytes_destroy(program);
  options.target = "vax";
  expect_error(tesela_emit_stage(&options, "ptx", &program), TESELA_INVALID_ARGUMENT, "vax");
  expect(program == NULL, "no program after a failure");
  options.target = NULL;
  expect_error(tesela_emit_stage(&options, "soup", &program), TESELA_INVALID_ARGUMENT,
               "the stage 'soup' is not known");
  expect_error(tesela_emit_stage(&options, NULL, &program), TESELA_INVALID_ARGUMENT,
               "stage is NULL");
  expect(tesela_use_template_folder(NULL) == TESELA_OK, "the built-in templates");
}

/* A program of a later version, whose structure ends with a field that this library does not
 * know. */
static void test_newer_callers(tesela_context *context) {
  struct {
    tesela_kernel_options options;
    int64_t later;
  } newer;
  tesela_kernel *kernel = NULL;
  memset(&newer, 0, sizeof newer);
  newer.options = kernel_options_of(variant_text, TESELA_F32, 8);
  newer.options.size = sizeof newer;
  expect(tesela_compile(context, &newer.options, &kernel) == TESELA_OK, "a field that is not used");
  tesela_kernel_destroy(kernel);
  newer.later = 1;
  expect_error(tesela_compile(context, &newer.options, &kernel), TESELA_UNSUPPORTED,
               "tesela_kernel_options sets fields that Tesela");
}

static void test_null(const tesela_context *context) {
  tesela_kernel_options options = kernel_options_of(variant_text, TESELA_F32, 8);
  tesela_kernel *kernel = NULL;
  tesela_reference *reference = NULL;
  tesela_reads *reads = NULL;
  tesela_buffer *buffer = NULL;
  const tesela_code invalid = TESELA_INVALID_ARGUMENT;

  expect_error(tesela_context_create(NULL, NULL), invalid, "context is NULL: pass the address");
  expect_error(tesela_devices_create(TESELA_DEVICE_HOST, NULL), invalid, "devices is NULL");
  expect_error(tesela_devices_describe(NULL, 0, NULL), invalid, "devices is NULL: make one by");
  expect_error(tesela_context_describe_device(NULL, NULL), invalid, "context is NULL: make one by");
  expect_error(tesela_context_describe_device(context, NULL), invalid,
               "tesela_device_info is NULL");
  expect_error(tesela_synchronize(NULL, NULL), invalid, "context is NULL");
  expect_error(tesela_measure(NULL, NULL, NULL, 0, 0, NULL, NULL), invalid, "context is NULL");
  expect_error(tesela_buffer_create(NULL, 1, &buffer), invalid, "context is NULL");
  expect_error(tesela_buffer_create(context, 1, NULL), invalid, "buffer is NULL: pass the address");
  expect_error(tesela_buffer_write(NULL, NULL, 0), invalid, "buffer is NULL: make one by");
  expect_error(tesela_buffer_read(NULL, NULL, 0), invalid, "buffer is NULL");
  expect_error(tesela_buffer_fill(NULL, 0), invalid, "buffer is NULL");
  expect_error(tesela_variant_check("", NULL, NULL), invalid, "variant is NULL");
  expect_error(tesela_variant_parameter(NULL, 0, NULL), invalid, "variant is NULL");
  expect_error(tesela_compile(NULL, &options, &kernel), invalid, "context is NULL");
  expect_error(tesela_compile(NULL, &options, NULL), invalid, "kernel is NULL");
  expect_error(tesela_emit_stage(NULL, "tile", NULL), invalid, "program is NULL");
  expect_error(tesela_kernel_describe(NULL, NULL), invalid, "kernel is NULL");
  expect_error(tesela_kernel_parameter(NULL, 0, NULL), invalid, "kernel is NULL");
  expect_error(tesela_launch(NULL, NULL, NULL), invalid, "kernel is NULL");
  expect_error(tesela_launch_tensors(NULL, NULL, NULL), invalid, "kernel is NULL");
  expect_error(tesela_check_arguments(NULL, NULL), invalid, "kernel is NULL");
  expect_error(tesela_check_tensors(NULL, NULL), invalid, "kernel is NULL");
  expect_error(tesela_tensor_contiguous(NULL, TESELA_F32, 1, NULL, NULL), invalid,
               "extents is NULL");
  expect_error(tesela_tensor_bshd(NULL, TESELA_F32, 1, 1, 1, 1, NULL), invalid,
               "tesela_tensor is NULL");
  expect_error(tesela_tensor_from_dl_tensor(NULL, NULL), invalid, "dl_tensor is NULL");
  expect_error(tesela_tensor_from_dl_managed_tensor(NULL, NULL), invalid, "managed is NULL");
  expect_error(tesela_tensor_from_dl_managed_tensor_versioned(NULL, NULL), invalid,
               "managed is NULL");
  expect_error(tesela_reference_on_host(&options, NULL, 0, &reference), invalid,
               "tesela_tensor_arguments is NULL");
  expect_error(tesela_reference_on_host(NULL, NULL, 0, NULL), invalid, "reference is NULL");
  expect_error(tesela_reference_on_device(NULL, NULL, NULL, &reference), invalid,
               "context is NULL");
  expect_error(tesela_reference_describe(NULL, NULL), invalid, "reference is NULL");
  expect_error(tesela_reference_compare(NULL, NULL, NULL, NULL), invalid, "reference is NULL");
  expect_error(tesela_check_reads(NULL, NULL, 0, &reads), invalid, "tesela_kernel_options is NULL");
  expect_error(tesela_reads_describe(NULL, 0, NULL), invalid, "reads is NULL");
  expect_error(tesela_fill_normal(NULL, 0), invalid, "tensor: tesela_tensor is NULL");
  expect_error(tesela_fill_uniform(NULL, 0, 0, 0), invalid, "tensor: tesela_tensor is NULL");
  expect_error(tesela_fill_inputs(NULL, NULL, NULL, NULL, 0), invalid, "kind is NULL");
  expect_error(tesela_fill_inputs("wild", NULL, NULL, NULL, 0), invalid,
               "choose one of normal, scaled");

  expect(strcmp(tesela_context_device(NULL), "") == 0 &&
             strcmp(tesela_context_target(NULL), "") == 0 &&
             tesela_context_compile_count(NULL) == 0,
         "no context");
  expect(strcmp(tesela_variant_name(NULL), "") == 0 &&
             strcmp(tesela_variant_warnings(NULL), "") == 0 &&
             tesela_variant_parameter_count(NULL) == 0,
         "no variant");
  expect(strcmp(tesela_bytes_data(NULL), "") == 0 && tesela_bytes_size(NULL) == 0, "no bytes");
  expect(tesela_buffer_data(NULL) == NULL && tesela_buffer_size(NULL) == 0, "no buffer");
  expect(tesela_devices_count(NULL) == 0 && tesela_reads_count(NULL) == 0 &&
             tesela_kernel_parameter_count(NULL) == 0,
         "no lists");
  tesela_buffer_destroy(NULL);
  tesela_bytes_destroy(NULL);
  tesela_context_destroy(NULL);
  tesela_devices_destroy(NULL);
  tesela_kernel_destroy(NULL);
  tesela_reads_destroy(NULL);
  tesela_reference_destroy(NULL);
  tesela_variant_destroy(NULL);
}

int main(void) {
  tesela_context *context = host_context();
  test_version();
  test_errors();
  test_devices(context);
  test_events();
  test_memory(context);
  test_measure(context);
  test_variant();
  test_programs();
  test_newer_callers(context);
  test_null(context);
  expect(tesela_context_compile_count(context) == 1, "one compilation in this context");
  tesela_context_destroy(context);
  return report_result("the C API without launches does as it says");
}
