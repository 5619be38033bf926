// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The README's example.
#include <tesela/Context.h>

using namespace tesela;

Status attend(void *q, void *k, void *v, void *o, void *stream);

Status attend(void *q, void *k, void *v, void *o, void *stream) {
  Result<Context> context = Context::create(); // the first GPU, else the host
  KernelOptions causal;
  causal.variantText = "attention causal() { mask = q >= k }";
  Result<Kernel> kernel = context ? context->compile(causal) : Result<Kernel>(context.error());
  if (!kernel)
    return kernel.error();
  LaunchArguments arguments; // bf16, [batch, heads, length, head dimension], in the device's memory
  arguments.q = Tensor::bhsd(q, ElementType::bf16, 2, 8, 1024, 128);
  arguments.k = arguments.q.at(k), arguments.v = arguments.q.at(v), arguments.o = arguments.q.at(o);
  return kernel->launch(arguments, stream);
}
