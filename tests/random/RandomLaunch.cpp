//===- RandomLaunch.cpp ---------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "RandomLaunch.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tesela {

/// Streams of RandomSource. Stream 1 is the generator's.
enum Stream : uint64_t { optionStream = 2, constantStream = 3, launchStream = 4 }; // to 7

KernelOptions randomOptions(uint64_t seed, bool isGpu) {
  RandomSource random(seed, optionStream);
  using enum ElementType;
  const ElementType types[] = {bf16, f16, isGpu ? bf16 : f32};
  const int headDims[] = {64, 64, 64, 64, 32, 40, 8, 72};
  KernelOptions options;
  options.variantFile = "seed " + std::to_string(seed);
  options.inputType = random.pick(types);
  options.headDimQk = options.headDimV = random.pick(headDims);
  if (random.chance(10))
    options.headDimV = random.pick(headDims);
  // With few queries the heads of a key/value head share rows on a GPU.
  options.expectedQueries = random.chance(20) ? 1 : 0;
  return options;
}

//===----------------------------------------------------------------------===//
// Values of parameters
//===----------------------------------------------------------------------===//

static bool isWild(const VariantParameter &parameter) { return parameter.name.starts_with("wild"); }
static bool isFew(const VariantParameter &parameter) { return parameter.name.starts_with("few"); }

static float tameNumber(RandomSource &random) { return 0.125f * float(random.between(-32, 32)); }

static float wildNumber(RandomSource &random) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float special[] = {
      0,     -0.0f,  infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
      1e10f, -3e38f, 1e-40f,   65537};
  if (random.chance(30))
    return random.pick(special);
  return std::ldexp(float(random.between(-1000000, 1000000)), random.between(-25, -10));
}

static int32_t wildInteger(RandomSource &random) {
  constexpr int32_t largest = std::numeric_limits<int32_t>::max();
  switch (random.below(4)) {
  case 0:
    return largest - random.below(100);
  case 1:
    return -largest - 1 + random.below(100);
  case 2:
    return int32_t(uint32_t(random.next()));
  default:
    return random.between(-100, 400);
  }
}

static double scalarValue(const VariantParameter &parameter, RandomSource &random) {
  if (parameter.type == ElementType::i32) {
    if (isWild(parameter))
      return wildInteger(random);
    return parameter.isConstant ? random.between(1, 8) : random.between(-5, 80);
  }
  return double(isWild(parameter) ? wildNumber(random) : tameNumber(random));
}

void chooseConstants(KernelOptions &options, const VariantInfo &info, uint64_t seed) {
  RandomSource random(seed, constantStream);
  for (const VariantParameter &parameter : info.parameters)
    if (parameter.isConstant && random.chance(50))
      options.constants.push_back({parameter.name, scalarValue(parameter, random)});
}

void RandomLaunch::fill(const VariantParameter &parameter, const Tensor &tensor,
                        RandomSource &random) {
  bool wild = isWild(parameter), few = isFew(parameter);
  bool isSorted = random.chance(few ? 60 : 30), isNarrow = random.chance(40);
  int64_t count = tensor.elementCount(), length = tensor.extents[tensor.rank - 1];
  int32_t run = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0, rest = i;
    for (int axis = tensor.rank - 1; axis >= 0; --axis) {
      offset += rest % tensor.extents[axis] * tensor.strides[axis];
      rest /= tensor.extents[axis];
    }
    run = i % length == 0 ? 0 : run + random.chance(few ? 3 : 10);
    switch (parameter.type) {
    case ElementType::i32:
      static_cast<int32_t *>(tensor.data)[offset] = isSorted   ? run
                                                    : few      ? random.below(7)
                                                    : wild     ? wildInteger(random)
                                                    : isNarrow ? random.below(4)
                                                               : random.between(-20, 340);
      break;
    case ElementType::boolean: // every byte except 0 means true
      static_cast<uint8_t *>(tensor.data)[offset] =
          (isSorted ? run % 2 : random.below(2)) ? uint8_t(1 << random.below(8)) : 0;
      break;
    default: {
      float number = wild ? wildNumber(random) : tameNumber(random);
      if (parameter.type == ElementType::f32)
        static_cast<float *>(tensor.data)[offset] = number;
      else
        static_cast<uint16_t *>(tensor.data)[offset] =
            parameter.type == ElementType::f16 ? floatToF16(number) : floatToBf16(number);
    }
    }
  }
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// The number of poisoned bytes after a tensor.
static constexpr size_t guardBytes = 256;

Status RandomLaunch::allocate(Held &held, const Tensor &view) {
  held.view = view;
  held.bytes.assign(view.spanBytes() + guardBytes, 0xff);
  Result<Buffer> buffer = context.allocate(held.bytes.size());
  if (!buffer)
    return buffer.error();
  held.buffer = std::move(*buffer);
  return Status::success();
}

Status RandomLaunch::upload(Held &held) {
  return context.copyToDevice(held.buffer, held.bytes.data(), held.bytes.size());
}

Status RandomLaunch::fetch(Held &held) {
  return context.copyToHost(held.bytes.data(), held.buffer, held.bytes.size());
}

bool RandomLaunch::guardIsIntact(const Held &held) {
  return std::all_of(held.bytes.end() - guardBytes, held.bytes.end(),
                     [](unsigned char byte) { return byte == 0xff; });
}

int64_t RandomLaunch::extentOf(const VariantExtent &extent) const {
  const std::pair<const char *, int64_t> names[] = {{"B", B},   {"H", H}, {"Hkv", Hkv}, {"Sq", Sq},
                                                    {"Sk", Sk}, {"N", N}, {"M", M}};
  int64_t value = 0;
  for (const auto &[name, known] : names)
    if (extent.name == name)
      value = known;
  return std::max<int64_t>(extent.coefficient * value + extent.offset, 0);
}

Status RandomLaunch::addParameter(const VariantParameter &parameter, RandomSource &random) {
  if (parameter.isConstant)
    return Status::success();
  if (!parameter.isCapture) {
    scalars.push_back({parameter.name, scalarValue(parameter, random)});
    return Status::success();
  }
  Tensor view;
  view.type = parameter.type;
  view.rank = int(parameter.extents.size());
  // The axes in memory in random order, with gaps; some axes have stride 0.
  std::vector<int> order;
  for (int axis = view.rank - 1; axis >= 0; --axis)
    order.insert(order.begin() + (random.chance(25) ? 0 : int(order.size())), axis);
  int64_t stride = random.chance(15) ? 3 : 1;
  for (int axis : order) {
    view.extents[axis] = extentOf(parameter.extents[axis]);
    view.strides[axis] = random.chance(5) ? 0 : stride;
    stride *= std::max<int64_t>(view.extents[axis], 1);
  }
  auto held = std::make_unique<Held>();
  if (Status status = allocate(*held, view); !status)
    return status;
  fill(parameter, held->host(), random);
  captures.emplace_back(parameter.name, std::move(held));
  return upload(*captures.back().second);
}

Tensor RandomLaunch::heads(int64_t count, int64_t length, int headDim, RandomSource &random) const {
  return random.chance(50) ? Tensor::bshd(nullptr, options.inputType, B, count, length, headDim)
                           : Tensor::bhsd(nullptr, options.inputType, B, count, length, headDim);
}

Result<std::unique_ptr<RandomLaunch>> RandomLaunch::create(const Context &context,
                                                           const KernelOptions &options,
                                                           const VariantInfo &info, uint64_t seed,
                                                           int number) {
  std::unique_ptr<RandomLaunch> launch(new RandomLaunch(context, options));
  if (Status status = launch->prepare(info, seed, number); !status)
    return status.error();
  return launch;
}

Status RandomLaunch::prepare(const VariantInfo &info, uint64_t seed, int number) {
  RandomSource random(seed, launchStream + uint64_t(number));
  B = random.between(1, number == 0 ? 2 : 1);
  Hkv = random.between(1, number == 0 ? 2 : 1);
  H = Hkv * random.between(1, number == 0 ? 3 / int(Hkv) + 1 : 2);
  bool isLong = number == launchesOfSeed - 1;
  Sq = number == 1             ? random.between(1, 12)
       : number == 2 || isLong ? random.between(100, 330)
                               : random.between(1, 70);
  Sk = number == 2             ? random.between(1, 12)
       : number == 1 || isLong ? random.between(100, 330)
                               : random.between(1, 70);
  if (isSquare)
    Sk = Sq;
  N = random.between(1, 340);
  M = random.between(1, 20);

  const std::pair<Held *, Tensor> views[] = {
      {&q, heads(H, Sq, options.headDimQk, random)},
      {&k, heads(Hkv, Sk, options.headDimQk, random)},
      {&v, heads(Hkv, Sk, options.headDimV, random)},
      {&o, heads(H, Sq, options.headDimV, random)},
      {&lse, Tensor::contiguous(nullptr, ElementType::f32, {B, H, Sq})}};
  for (const auto &[held, view] : views)
    if (Status status = allocate(*held, view); !status)
      return status;
  fillInputs(InputKind::normal, q.host(), k.host(), v.host(), random.next() % 1000000);
  for (Held *held : {&q, &k, &v})
    if (Status status = upload(*held); !status)
      return status;
  for (const VariantParameter &parameter : info.parameters)
    if (Status status = addParameter(parameter, random); !status)
      return status;
  return Status::success();
}

LaunchArguments RandomLaunch::arguments(bool onDevice) {
  auto where = [&](Held &held) { return onDevice ? held.device() : held.host(); };
  LaunchArguments arguments;
  arguments.q = where(q);
  arguments.k = where(k);
  arguments.v = where(v);
  arguments.o = where(o);
  arguments.lse = where(lse);
  arguments.scalars = scalars;
  for (auto &[name, held] : captures)
    arguments.captures.push_back({name, where(*held)});
  return arguments;
}

//===----------------------------------------------------------------------===//
// The launch and its check
//===----------------------------------------------------------------------===//

Status RandomLaunch::launch(const Kernel &kernel, std::mutex &device) {
  std::lock_guard lock(device);
  for (Held *held : {&o, &lse})
    if (Status status = context.fill(held->buffer, 0xff); !status)
      return status;
  if (Status status = kernel.launch(arguments(true)); !status)
    return status;
  if (Status status = context.synchronize(); !status)
    return status;
  for (Held *held : {&o, &lse})
    if (Status status = fetch(*held); !status)
      return status;
  return Status::success();
}

std::string RandomLaunch::check() {
  if (!guardIsIntact(o) || !guardIsIntact(lse))
    return "the kernel writes behind its output";
  Result<Reference> expected = hostReference(options, arguments(false), 1);
  return expected ? hold(*expected) : "the reference: " + expected.error().message();
}

std::string RandomLaunch::hold(const Reference &expected) {
  pairs = B * H * Sq * Sk;
  keptPairs = expected.keptPairs;
  Result<Comparison> comparison = compare(expected, o.host(), lse.host());
  if (!comparison)
    return comparison.error().message();
  nanRows = comparison->nanRows;
  return comparison->passed ? "" : comparison->failure;
}

std::string RandomLaunch::text() const {
  std::string text = "B " + std::to_string(B) + ", H " + std::to_string(H) + ", Hkv " +
                     std::to_string(Hkv) + ", Sq " + std::to_string(Sq) + ", Sk " +
                     std::to_string(Sk);
  for (const ScalarArgument &scalar : scalars)
    text += ", " + scalar.name + " " + std::to_string(scalar.value);
  return text;
}

} // namespace tesela
