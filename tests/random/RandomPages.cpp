//===- RandomPages.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "RandomPages.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

namespace tesela {

/// Streams of RandomSource, after those of RandomBackward.cpp, which has 9 to 12.
static constexpr uint64_t pagedOptionStream = 13, pagedLaunchStream = 14;

/// Tokens after the last sequence. Nothing may read or write them.
static constexpr int64_t restTokens = 3;

Result<PagedKernels> compilePaged(const Context &context, const KernelOptions &options,
                                  uint64_t seed) {
  RandomSource random(seed, pagedOptionStream);
  const int pages[] = {16, 16, 64, 128, 8, 24, 7, 1};
  PagedKernels kernels;
  kernels.page = random.pick(pages);
  const std::string page = "page=" + std::to_string(kernels.page),
                    workers = "workers=" + std::to_string(random.between(1, 64));
  bool isRagged = random.chance(50), isInParts = random.chance(50);
  auto add = [&](const std::string &name, const KernelOptions &own, bool isRaggedOne = false) {
    Result<Kernel> kernel = context.compile(own);
    if (!kernel)
      return Status(Error(kernel.error().code(), name + ": " + kernel.error().message()));
    bool isPaged = !own.bindings.empty(), isShared = own.bindings.size() > 4;
    kernels.all.push_back({name, std::move(*kernel), isPaged, isRaggedOne, isShared});
    return Status::success();
  };
  if (Status status = add("dense", options); !status)
    return status.error();
  KernelOptions paged = options;
  paged.bindings = {"keys=paged", page};
  paged.schedule = kernels.all.front().kernel.info().schedule;
  if (Status status = add("pages of " + std::to_string(kernels.page), paged); !status)
    return status.error();
  KernelOptions split = options;
  split.algorithm = "forward_in_parts";
  split.bindings = {"keys=paged", page, workers};
  if (isRagged)
    split.bindings.push_back("queries=ragged");
  if (Status status = add("split keys, " + workers, split, isRagged); !status)
    return status.error();
  KernelOptions shared = options;
  shared.bindings = {"keys=paged", page, "queries=ragged", "positions=end", "prefix=shared"};
  if (isInParts) {
    shared.algorithm = "forward_in_parts";
    shared.bindings.push_back(workers);
  }
  Status status = add("a shared prefix", shared, /*isRaggedOne=*/true);
  // A variant that a shared prefix does not support must be refused with a message.
  if (!status && status.error().message().find(
                     "prefix=shared computes the prefix as one sequence") == std::string::npos)
    return status.error();
  return kernels;
}

Result<std::unique_ptr<RandomPages>> RandomPages::create(const Context &context,
                                                         const KernelOptions &options,
                                                         const VariantInfo &info, uint64_t seed,
                                                         int number, const PagedKernels &kernels) {
  std::unique_ptr<RandomPages> launch(new RandomPages(context, options, kernels));
  // If queries end where keys end, the queries are those of the dense launch.
  launch->isSquare = number % 2 == 0;
  if (Status status = launch->prepare(info, seed, number); !status)
    return status.error();
  if (Status status = launch->preparePages(seed, number); !status)
    return status.error();
  return launch;
}

/// The row [batch, head, position] of a view whose last axis has no gaps.
static unsigned char *rowOf(const Tensor &view, int64_t batch, int64_t head, int64_t position) {
  int64_t offset = batch * view.strides[0] + head * view.strides[1] + position * view.strides[2];
  return static_cast<unsigned char *>(view.data) + offset * int64_t(elementSize(view.type));
}

static void copyRow(const unsigned char *from, unsigned char *to, const Tensor &view) {
  int64_t elements = view.rank == 4 ? view.extents[3] : 1;
  std::memcpy(to, from, size_t(elements) * elementSize(view.type));
}

Status RandomPages::integers(Held &held, std::vector<int64_t> extents,
                             const std::vector<int32_t> &values) {
  Tensor view;
  view.type = ElementType::i32;
  view.rank = int(extents.size());
  int64_t stride = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    view.extents[axis] = extents[axis];
    view.strides[axis] = stride;
    stride *= extents[axis];
  }
  if (Status status = allocate(held, view); !status)
    return status;
  std::memcpy(held.bytes.data(), values.data(), values.size() * sizeof(int32_t));
  return upload(held);
}

Status RandomPages::preparePages(uint64_t seed, int number) {
  RandomSource random(seed, pagedLaunchStream + uint64_t(number));
  const int64_t page = kernels.page, used = (Sk + page - 1) / page, most = used + random.below(3),
                count = B * used + 2;
  prefix = random.chance(20) ? Sk : random.below(int(Sk) + 1);
  std::vector<int32_t> order(size_t(count), 0);
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[size_t(random.below(int(i)))]);

  // All sequences share the prefix. Some further pages belong to the first sequence, too.
  std::vector<int32_t> pagesOf(size_t(B * most), 0);
  for (int32_t &entry : pagesOf)
    entry = random.chance(50) ? std::numeric_limits<int32_t>::max() : int32_t(random.next());
  for (int64_t b = 0; b < B; ++b)
    for (int64_t i = 0; i < used; ++i) {
      int64_t first = i * page, end = std::min(first + page, Sk);
      bool isShared = b > 0 && (end <= prefix || random.chance(30));
      pagesOf[b * most + i] = isShared ? pagesOf[i] : order[b * used + i];
      for (Held *held : {&k, &v})
        for (int64_t h = 0; h < Hkv && b > 0; ++h)
          for (int64_t s = first; s < (isShared ? end : std::min(end, prefix)); ++s)
            copyRow(rowOf(held->host(), 0, h, s), rowOf(held->host(), b, h, s), held->view);
    }
  for (Held *held : {&k, &v})
    if (Status status = upload(*held); !status)
      return status;
  bool isBshd = random.chance(50);
  auto pool = [&](int headDim) {
    auto make = isBshd ? Tensor::bshd : Tensor::bhsd;
    return make(nullptr, options.inputType, count, Hkv, page, headDim);
  };
  for (auto [from, to, headDim] :
       {std::tuple(&k, &kPages, options.headDimQk), {&v, &vPages, options.headDimV}}) {
    if (Status status = allocate(*to, pool(headDim)); !status) // all elements are NaN
      return status;
    for (int64_t b = 0; b < B; ++b)
      for (int64_t h = 0; h < Hkv; ++h)
        for (int64_t s = 0; s < Sk; ++s)
          copyRow(rowOf(from->host(), b, h, s),
                  rowOf(to->host(), pagesOf[b * most + s / page], h, s % page), from->view);
    if (Status status = upload(*to); !status)
      return status;
  }

  const int64_t tokens = B * Sq, all = tokens + restTokens;
  std::vector<int32_t> begins, ofPosition(size_t(all), -7), ofSequence(size_t(all), -7);
  for (int64_t b = 0; b <= B; ++b)
    begins.push_back(int32_t(b * Sq));
  for (int64_t t = 0; t < tokens; ++t) {
    ofPosition[t] = int32_t(Sk - Sq + t % Sq);
    ofSequence[t] = int32_t(t / Sq);
  }
  const auto ofKeys = std::vector<int32_t>(size_t(all), int32_t(Sk));
  const std::tuple<Held *, std::vector<int64_t>, std::vector<int32_t>> given[] = {
      {&table, {B, most}, pagesOf},
      {&lengths, {B}, std::vector<int32_t>(size_t(B), int32_t(Sk))},
      {&starts, {B + 1}, begins},
      {&prefixTable, {1, most}, {pagesOf.begin(), pagesOf.begin() + most}},
      {&prefixLength, {1}, {int32_t(prefix)}},
      {&positions, {all}, ofPosition},
      {&sequences, {all}, ofSequence},
      {&keys, {all}, ofKeys}};
  for (const auto &[held, extents, values] : given)
    if (Status status = integers(*held, extents, values); !status)
      return status;

  auto ofTokens = [&](int headDim) {
    return Tensor::bshd(nullptr, options.inputType, 1, H, all, headDim);
  };
  const std::pair<Held *, Tensor> views[] = {
      {&qTokens, ofTokens(options.headDimQk)},
      {&oTokens, ofTokens(options.headDimV)},
      {&lseTokens, Tensor::contiguous(nullptr, ElementType::f32, {1, H, all})}};
  for (const auto &[held, view] : views)
    if (Status status = allocate(*held, view); !status)
      return status;
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t h = 0; h < H; ++h)
      copyRow(rowOf(q.host(), t / Sq, h, t % Sq), rowOf(qTokens.host(), 0, h, t), q.view);
  return upload(qTokens);
}

Status RandomPages::launchOne(const PagedKernel &each) {
  Held &out = each.isRagged ? oTokens : o, &sums = each.isRagged ? lseTokens : lse;
  for (Held *held : {&out, &sums})
    if (Status status = context.fill(held->buffer, 0xff); !status)
      return status;
  LaunchArguments given = arguments(/*onDevice=*/true);
  given.o = out.device();
  given.lse = sums.device();
  if (each.isPaged) {
    given.k = kPages.device();
    given.v = vPages.device();
    given.tensors = {{"table", table.device()}, {"lengths", lengths.device()}};
    given.extents = {{"Sk", Sk}};
  }
  if (each.isRagged) {
    given.q = qTokens.device();
    given.tensors.push_back({"starts_q", starts.device()});
    given.extents.push_back({"Sq", Sq});
  }
  if (each.sharesPrefix)
    for (auto [name, held] : {std::pair("prefix_table", &prefixTable),
                              {"prefix_length", &prefixLength},
                              {"query_positions", &positions},
                              {"query_sequences", &sequences},
                              {"query_keys", &keys}})
      given.captures.push_back({name, held->device()});
  if (Status status = each.kernel.launch(given); !status)
    return status;
  if (Status status = context.synchronize(); !status)
    return status;
  for (Held *held : {&out, &sums})
    if (Status status = fetch(*held); !status)
      return status;
  if (!each.isRagged)
    return Status::success();
  for (auto [from, to] : {std::pair(&oTokens, &o), {&lseTokens, &lse}})
    for (int64_t t = 0; t < B * Sq; ++t)
      for (int64_t h = 0; h < H; ++h)
        copyRow(rowOf(from->host(), 0, h, t), rowOf(to->host(), t / Sq, h, t % Sq), from->view);
  return Status::success();
}

Status RandomPages::launchAll(std::mutex &device) {
  std::lock_guard lock(device);
  for (const PagedKernel &each : kernels.all) {
    results.emplace_back();
    if (each.sharesPrefix && Sq != Sk)
      continue;
    if (Status status = launchOne(each); !status)
      return Error(status.error().code(), each.name + ": " + status.error().message());
    results.back() = {o.bytes, lse.bytes};
    hasSharedPrefix = hasSharedPrefix || each.sharesPrefix;
  }
  return Status::success();
}

std::string RandomPages::check() {
  for (Held *held : {&o, &lse, &oTokens, &lseTokens})
    if (!guardIsIntact(*held))
      return "a kernel writes behind its output";
  auto isPoison = [](unsigned char byte) { return byte == 0xff; };
  for (int64_t t = B * Sq; t < B * Sq + restTokens; ++t)
    for (int64_t h = 0; h < H; ++h) {
      const unsigned char *row = rowOf(oTokens.host(), 0, h, t);
      size_t bytes = size_t(options.headDimV) * elementSize(options.inputType);
      const unsigned char *sum = rowOf(lseTokens.host(), 0, h, t);
      if (!std::all_of(row, row + bytes, isPoison) ||
          !std::all_of(sum, sum + sizeof(float), isPoison))
        return "a token that no sequence has is written";
    }
  Result<Reference> expected = hostReference(options, arguments(false), 1);
  if (!expected)
    return "the reference: " + expected.error().message();
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].o.empty())
      continue;
    const std::string &name = kernels.all[i].name;
    o.bytes = results[i].o;
    lse.bytes = results[i].lse;
    if (std::string wrong = hold(*expected); !wrong.empty())
      return name + ", prefix " + std::to_string(prefix) + ": " + wrong;
    if (i == 1 && (results[1].o != results[0].o || results[1].lse != results[0].lse))
      return name + ": the bits are not those of the dense kernel of the same schedule";
  }
  return "";
}

} // namespace tesela
