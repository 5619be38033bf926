/*===----------------------------------------------------------------------===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
\*===----------------------------------------------------------------------===*/
/*
 * `beside_llvm TESELA LLVM tesela|llvm local|global`: a program that loads libtesela.so and another
 * LLVM, first the one that the third argument names, and compiles with both in turn. If one of them
 * used a symbol of the other, the program would crash.
 */
#include <tesela/tesela.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Looks up a function of a library, through a pointer to data, as POSIX allows. */
static void load(void *library, const char *name, void *function) {
  void *address = dlsym(library, name);
  if (!address) {
    fprintf(stderr, "%s: not found: %s\n", name, dlerror());
    exit(1);
  }
  memcpy(function, &address, sizeof address);
}

static void *open_library(const char *path, int flags) {
  void *library = dlopen(path, RTLD_NOW | flags);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return library;
}

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why ? why : "");
  exit(1);
}

/* LLVM's C API: compiles a module with a function that adds by its JIT, and calls the function. */
static void use_llvm(void *library, const char *module_name) {
  void *(*create_context)(void), *(*create_module)(const char *, void *), *(*int32)(void *);
  void *(*function_type)(void *, void **, unsigned, int);
  void *(*add_function)(void *, const char *, void *), *(*get_parameter)(void *, unsigned);
  void *(*append_block)(void *, void *, const char *), *(*create_builder)(void *);
  void (*position_at_end)(void *, void *), (*dispose_builder)(void *), (*dispose_context)(void *);
  void *(*build_add)(void *, void *, void *, const char *), *(*build_return)(void *, void *);
  int (*verify)(void *, int, char **), (*create_jit)(void **, void *, void *, size_t, char **);
  unsigned long long (*function_address)(void *, const char *);
  void (*initialize[5])(void), (*dispose_jit)(void *);
  static const char *const initializers[] = {"LLVMLinkInMCJIT", "LLVMInitializeX86TargetInfo",
                                             "LLVMInitializeX86Target", "LLVMInitializeX86TargetMC",
                                             "LLVMInitializeX86AsmPrinter"};
  void *context, *module, *function, *builder, *types[2], *jit = NULL;
  int (*sum)(int, int);
  unsigned long long address;
  char *message = NULL;
  int i;

  load(library, "LLVMContextCreate", &create_context);
  load(library, "LLVMContextDispose", &dispose_context);
  load(library, "LLVMModuleCreateWithNameInContext", &create_module);
  load(library, "LLVMInt32TypeInContext", &int32);
  load(library, "LLVMFunctionType", &function_type);
  load(library, "LLVMAddFunction", &add_function);
  load(library, "LLVMGetParam", &get_parameter);
  load(library, "LLVMAppendBasicBlockInContext", &append_block);
  load(library, "LLVMCreateBuilderInContext", &create_builder);
  load(library, "LLVMPositionBuilderAtEnd", &position_at_end);
  load(library, "LLVMDisposeBuilder", &dispose_builder);
  load(library, "LLVMBuildAdd", &build_add);
  load(library, "LLVMBuildRet", &build_return);
  load(library, "LLVMVerifyModule", &verify);
  load(library, "LLVMCreateMCJITCompilerForModule", &create_jit);
  load(library, "LLVMDisposeExecutionEngine", &dispose_jit);
  load(library, "LLVMGetFunctionAddress", &function_address);
  for (i = 0; i < 5; ++i) {
    load(library, initializers[i], &initialize[i]);
    initialize[i]();
  }

  context = create_context();
  module = create_module(module_name, context);
  types[0] = types[1] = int32(context);
  function = add_function(module, "sum", function_type(types[0], types, 2, 0));
  builder = create_builder(context);
  position_at_end(builder, append_block(context, function, "entry"));
  build_return(builder,
               build_add(builder, get_parameter(function, 0), get_parameter(function, 1), "s"));
  dispose_builder(builder);
  if (verify(module, 2 /* return the status */, &message))
    fail("LLVM does not accept the module", message);
  if (create_jit(&jit, module, NULL, 0, &message))
    fail("LLVM has no JIT", message);
  address = function_address(jit, "sum");
  memcpy(&sum, &address, sizeof sum);
  if (!address || sum(2, 3) != 5)
    fail("LLVM's function", "does not add");
  dispose_jit(jit);
  dispose_context(context);
}

/* Tesela's C API: compiles and launches a kernel for the host; compiles PTX for a GPU. */
static void use_tesela(void *library, int head_dim) {
  tesela_code (*create_context)(const tesela_context_options *, tesela_context **);
  tesela_code (*compile)(tesela_context *, const tesela_kernel_options *, tesela_kernel **);
  tesela_code (*launch)(const tesela_kernel *, const tesela_launch_arguments *, void *);
  tesela_code (*emit)(const tesela_kernel_options *, const char *, tesela_bytes **);
  const char *(*last_error)(void);
  void (*destroy_context)(tesela_context *), (*destroy_kernel)(tesela_kernel *);
  void (*destroy_bytes)(tesela_bytes *);
  tesela_context_options context_options;
  tesela_kernel_options options;
  tesela_launch_arguments arguments;
  tesela_context *context;
  tesela_kernel *kernel;
  tesela_bytes *program;
  float q[32] = {0}, k[32] = {0}, v[32], o[32] = {0}, lse[1];
  int i;

  load(library, "tesela_context_create", &create_context);
  load(library, "tesela_context_destroy", &destroy_context);
  load(library, "tesela_compile", &compile);
  load(library, "tesela_kernel_destroy", &destroy_kernel);
  load(library, "tesela_launch", &launch);
  load(library, "tesela_emit_stage", &emit);
  load(library, "tesela_bytes_destroy", &destroy_bytes);
  load(library, "tesela_last_error", &last_error);

  memset(&context_options, 0, sizeof context_options);
  context_options.size = sizeof context_options;
  context_options.device = "host";
  context_options.no_disk_cache = 1;
  context_options.threads = 1;
  if (create_context(&context_options, &context) != TESELA_OK)
    fail("tesela_context_create", last_error());
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.variant = "attention causal() {\n  mask = q >= k\n}\n";
  options.input_type = TESELA_F32;
  options.head_dim_qk = options.head_dim_v = head_dim;
  if (compile(context, &options, &kernel) != TESELA_OK)
    fail("tesela_compile", last_error());
  for (i = 0; i < 32; ++i)
    v[i] = (float)i;
  memset(&arguments, 0, sizeof arguments);
  arguments.size = sizeof arguments;
  arguments.batch = arguments.heads = arguments.kv_heads = arguments.length = arguments.kv_length =
      1;
  arguments.q.data = q;
  arguments.k.data = k;
  arguments.v.data = v;
  arguments.o.data = o;
  arguments.lse = lse;
  if (launch(kernel, &arguments, NULL) != TESELA_OK)
    fail("tesela_launch", last_error());
  if (memcmp(o, v, (size_t)head_dim * sizeof *v) != 0)
    fail("tesela_launch", "one key's value is the result");
  destroy_kernel(kernel);
  destroy_context(context);

  options.input_type = TESELA_BF16;
  options.target = "sm_80";
  if (emit(&options, "ptx", &program) != TESELA_OK)
    fail("tesela_emit_stage", last_error());
  destroy_bytes(program);
}

int main(int count, char **words) {
  void *tesela = NULL, *llvm = NULL;
  int flags;
  if (count != 5)
    fail("usage", "beside_llvm TESELA LLVM tesela|llvm local|global");
  flags = strcmp(words[4], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
  if (strcmp(words[3], "llvm") == 0) {
    llvm = open_library(words[2], flags);
    use_llvm(llvm, "before");
  }
  tesela = open_library(words[1], flags);
  use_tesela(tesela, 8);
  if (!llvm)
    llvm = open_library(words[2], flags);
  use_llvm(llvm, "between");
  use_tesela(tesela, 16);
  use_llvm(llvm, "behind");
  puts("both work");
  return 0;
}
