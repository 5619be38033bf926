// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// docs/cpp.md: decoding from a cache in pages, on the first GPU, or on the host without one.
#include <cstdio>
#include <cstring>
#include <tesela/Context.h>
#include <tesela/Workers.h>
#include <vector>

using namespace tesela;

static constexpr int64_t heads = 8, kvHeads = 2, headDim = 64, page = 64, pages = 32;
static constexpr int64_t batch = 3, mostKeys = 1024, mostPages = mostKeys / page;
static constexpr ElementType bf16 = ElementType::bf16, i32 = ElementType::i32;

/// Compiles the kernel that every layer of every step launches.
static Result<Kernel> compileDecoding(const Context &context) {
  KernelOptions options;
  options.variantText = "attention causal() { mask = q >= k }";
  options.headDimQk = options.headDimV = headDim;
  options.algorithm = "forward_in_parts";
  options.bindings = {"keys=paged", "page=" + std::to_string(page), "positions=end"};
  options.expectedQueries = 1;
  Result<int64_t> workers =
      workersFor(context.device(), options, {batch, heads, kvHeads, 1, mostKeys});
  if (!workers)
    return workers.error();
  options.bindings.push_back("workers=" + std::to_string(*workers));
  Result<Preparation> preparation = context.prepare(options); // in the background
  return preparation ? preparation->get() : Result<Kernel>(preparation.error());
}

/// Allocates device memory and copies `values` into it.
template <typename T>
static Result<Buffer> onDevice(const Context &context, const std::vector<T> &values) {
  Result<Buffer> buffer = context.allocate(values.size() * sizeof(T));
  if (!buffer)
    return buffer;
  if (Status status = context.copyToDevice(*buffer, values.data(), buffer->size()); !status)
    return status.error();
  return buffer;
}

static Status run() {
  Result<Context> context = Context::create();
  if (!context)
    return context.error();
  Result<Kernel> decoding = compileDecoding(*context);
  if (!decoding)
    return decoding.error();

  // The upper 16 bits of a float are a bf16. The pool has [pages, page, kvHeads, headDim].
  std::vector<uint16_t> cache(pages * page * kvHeads * headDim), queries(batch * heads * headDim);
  for (size_t i = 0; i < cache.size(); ++i) {
    float value = float(i % 97) / 97;
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    cache[i] = uint16_t(bits >> 16);
  }
  std::vector<int32_t> lengths = {1000, 1, 77};  // of the three sequences
  std::vector<int32_t> table(batch * mostPages); // which pages each sequence has
  for (int32_t i = 0; i < 16; ++i)
    table[i] = i;
  table[mostPages] = 20, table[2 * mostPages] = 21, table[2 * mostPages + 1] = 22;

  Result<Buffer> q = onDevice(*context, queries), k = onDevice(*context, cache),
                 v = onDevice(*context, cache), pageTable = onDevice(*context, table),
                 keys = onDevice(*context, lengths), o = context->allocate(queries.size() * 2);
  for (const Result<Buffer> *buffer : {&q, &k, &v, &pageTable, &keys, &o})
    if (!*buffer)
      return buffer->error();

  LaunchArguments arguments;
  arguments.q = Tensor::bshd(q->data(), bf16, batch, heads, 1, headDim);
  arguments.k = Tensor::bshd(k->data(), bf16, pages, kvHeads, page, headDim);
  arguments.v = arguments.k.at(v->data());
  arguments.o = arguments.q.at(o->data());
  arguments.tensors = {{"table", Tensor::contiguous(pageTable->data(), i32, {batch, mostPages})},
                       {"lengths", Tensor::contiguous(keys->data(), i32, {batch})}};
  arguments.extents = {{"Sk", mostKeys}};
  if (Status status = decoding->launch(arguments); !status) // a stream is the second argument
    return status;

  std::vector<uint16_t> result(queries.size());
  if (Status status = context->copyToHost(result.data(), *o, o->size()); !status)
    return status;
  // The second sequence has a single key, in the first row of page 20. So its value is the result.
  const uint16_t *value = &cache[20 * page * kvHeads * headDim];
  bool isRight = std::memcmp(&result[heads * headDim], value, headDim * sizeof *value) == 0;
  std::printf("decoding from pages: %s\n", isRight ? "right" : "wrong");
  return Status::success();
}

int main() {
  Status status = run();
  if (!status)
    std::fprintf(stderr, "%s\n", status.error().message().c_str());
  return !status;
}
