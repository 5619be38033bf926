// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Causal attention on the host, compared with the interpreter.
#include <cstdio>
#include <tesela/Check.h>
#include <tesela/Context.h>
#include <vector>

using namespace tesela;

static Status run() {
  Result<Context> context = Context::create({.device = "host"});
  if (!context)
    return context.error();
  KernelOptions options;
  options.variantText = "attention causal() {\n  mask = q >= k\n}\n";
  options.inputType = ElementType::f32;
  options.headDimQk = options.headDimV = 64;
  Result<Kernel> kernel = context->compile(options);
  if (!kernel)
    return kernel.error();

  constexpr int64_t batch = 1, heads = 2, length = 100, headDim = 64;
  std::vector<float> q(heads * length * headDim), k(q.size()), v(q.size()), o(q.size());
  std::vector<float> lse(heads * length);
  LaunchArguments arguments;
  arguments.q = Tensor::bhsd(q.data(), ElementType::f32, batch, heads, length, headDim);
  arguments.k = arguments.q.at(k.data());
  arguments.v = arguments.q.at(v.data());
  arguments.o = arguments.q.at(o.data());
  arguments.lse = Tensor::contiguous(lse.data(), ElementType::f32, {batch, heads, length});
  fillInputs(InputKind::normal, arguments.q, arguments.k, arguments.v, 1);
  if (Status status = kernel->launch(arguments); !status)
    return status;

  Result<Reference> reference = hostReference(options, arguments);
  if (!reference)
    return reference.error();
  Result<Comparison> comparison = compare(*reference, arguments.o, arguments.lse);
  if (!comparison)
    return comparison.error();
  std::printf("%s on the host: %s\n", kernel->info().variantName.c_str(),
              comparison->passed ? "right" : comparison->failure.c_str());
  return Status::success();
}

int main() {
  Status status = run();
  if (!status)
    std::fprintf(stderr, "%s\n", status.error().message().c_str());
  return !status;
}
