//===- Problem.cpp --------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Problem.h"
#include "FileShape.h"
#include "Safetensors.h"

#include "tesela/Check.h"
#include "tesela/Device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>

namespace tesela::tool {

static Error invalid(std::string message) {
  return Error(Code::invalidArgument, std::move(message));
}

LaunchArguments Problem::hostArguments() const {
  LaunchArguments arguments;
  arguments.q = qView;
  arguments.k = kView;
  arguments.v = vView;
  arguments.o = oView;
  arguments.lse = lse.view();
  arguments.scale = scale;
  arguments.scalars = scalars;
  for (const auto &[name, tensor] : captures)
    arguments.captures.push_back({name, tensor.view()});
  return arguments;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Checks that everything fits into the machine's memory: q, k, v, o and lse (on the host also a
/// copy of them), the tensors of gradients, and the references' arrays in double. Needs the
/// extents. The system grants memory before it has it, and would later kill the process without a
/// message.
static Status checkMemory(const Problem &p, const RunOptions &options) {
  double queries = double(p.B) * double(p.H) * double(p.Sq);
  double keys = double(p.B) * double(p.Hkv) * double(p.Sk);
  double tensors =
      elementSize(p.type) * (queries + keys) * double(p.Dqk + p.Dv) + sizeof(float) * queries;
  bool onHost = options.target == "host" || !cudaDevices();
  double reference =
      options.noCheck || options.verify ? 0 : 3 * sizeof(double) * queries * double(p.Dv);
  // do, dq, dk and dv. The reference has three arrays for each gradient, and rows in f32.
  if (options.gradients) {
    tensors *= 2;
    if (reference > 0)
      reference += (3 * sizeof(double) + sizeof(float)) * (queries + keys) * double(p.Dqk + p.Dv);
  }
  double needed = (onHost ? 2 : 1) * tensors + reference;
  double machine = double(hostDevice().memoryBytes);
  if (needed <= machine)
    return Status::success();
  constexpr double gibibyte = 1 << 30;
  return Error(
      Code::outOfMemory,
      fmt::format(
          "the tensors{} take {:.1f} GiB, this machine has {:.1f} GiB of memory: "
          "make the batch, the heads or the lengths smaller{}.",
          reference > 0 ? " and the check's reference" : "", needed / gibibyte, machine / gibibyte,
          reference > 0 ? ", or check a sample with --verify, or nothing with --no-check" : ""));
}

//===----------------------------------------------------------------------===//
// Random data
//===----------------------------------------------------------------------===//

/// Adds the scale, o and lse. Needs the extents.
static Status addResults(Problem &problem, const RunOptions &options) {
  problem.scale =
      options.scale.value_or(1.0 / std::sqrt(double(std::max<int64_t>(problem.Dqk, 1))));
  bool bshd = problem.layout == Layout::bshd;
  std::array<int64_t, 4> extents{problem.B, bshd ? problem.Sq : problem.H,
                                 bshd ? problem.H : problem.Sq, problem.Dv};
  std::array<int64_t, 3> lseExtents{problem.B, problem.H, problem.Sq};
  Result<HostTensor> o = HostTensor::allocate(rowMajor(problem.type, extents));
  if (!o)
    return o.error();
  Result<HostTensor> lse = HostTensor::allocate(rowMajor(ElementType::f32, lseExtents));
  if (!lse)
    return lse.error();
  problem.o = std::move(*o);
  problem.lse = std::move(*lse);
  return Status::success();
}

static void addViews(Problem &p) {
  auto view = [&](const HostTensor &tensor, int64_t heads, int64_t length, int64_t headDim) {
    return p.layout == Layout::bhsd
               ? Tensor::bhsd(tensor.data(), p.type, p.B, heads, length, headDim)
               : Tensor::bshd(tensor.data(), p.type, p.B, heads, length, headDim);
  };
  p.qView = view(p.q, p.H, p.Sq, p.Dqk);
  p.kView = view(p.k, p.Hkv, p.Sk, p.Dqk);
  p.vView = view(p.v, p.Hkv, p.Sk, p.Dv);
  p.oView = view(p.o, p.H, p.Sq, p.Dv);
}

/// Fills `values` with the first columns of `keys`. The kernel reads them from the keys; the
/// reference needs a tensor.
static Status copyFirstColumns(const Tensor &keys, const Tensor &values) {
  if (values.extents[3] > keys.extents[3])
    return invalid(fmt::format(
        "with --values keys the values are the first columns of the keys, but --head-dim-v {} is "
        "larger than --head-dim {}; give a smaller --head-dim-v",
        values.extents[3], keys.extents[3]));
  size_t size = elementSize(keys.type);
  for (int64_t b = 0; b < keys.extents[0]; ++b)
    for (int64_t h = 0; h < keys.extents[1]; ++h)
      for (int64_t j = 0; j < keys.extents[2]; ++j) {
        auto rowOf = [&](const Tensor &view) {
          int64_t element = b * view.strides[0] + h * view.strides[1] + j * view.strides[2];
          return static_cast<char *>(view.data) + element * int64_t(size);
        };
        std::memcpy(rowOf(values), rowOf(keys), size_t(values.extents[3]) * size);
      }
  return Status::success();
}

/// Random q, k and v with the shape of the options. Captures come from `file`; if it is null, they
/// are random.
static Result<Problem> randomProblem(const RunOptions &options, const VariantInfo &variant,
                                     const SafetensorsFile *file) {
  Problem problem;
  problem.randomInputs = true;
  std::optional<ElementType> type = parseElementType(options.dtype);
  if (type != ElementType::f32 && type != ElementType::f16 && type != ElementType::bf16)
    return invalid(fmt::format("--dtype {}: q, k and v are bf16, f16 or f32.", options.dtype));
  std::optional<InputKind> inputs = parseInputKind(options.inputs);
  if (!inputs)
    return invalid(fmt::format("--inputs {}: this is not a kind of inputs.", options.inputs));
  problem.type = *type;
  problem.layout = options.layout;
  problem.Dqk = options.headDim;
  problem.Dv = options.headDimV.value_or(options.headDim);
  Result<LaunchExtents> extents = extentsOf(options);
  if (!extents)
    return extents.error();
  static_cast<LaunchExtents &>(problem) = *extents;

  Result<std::vector<ScalarArgument>> scalars = parseScalars(options.parameters, variant);
  if (!scalars)
    return scalars.error();
  problem.scalars = std::move(*scalars);

  if (Status status = checkMemory(problem, options); !status)
    return status.error();

  bool bshd = options.layout == Layout::bshd;
  uint64_t seed = options.seed * 1000; // each tensor has its own seed
  auto allocate = [&](HostTensor &tensor, int64_t heads, int64_t length,
                      int64_t headDim) -> Status {
    std::array<int64_t, 4> extents{problem.B, bshd ? length : heads, bshd ? heads : length,
                                   headDim};
    Result<HostTensor> made = HostTensor::allocate(rowMajor(problem.type, extents));
    if (!made)
      return made.error();
    tensor = std::move(*made);
    return Status::success();
  };
  if (Status status = allocate(problem.q, problem.H, problem.Sq, problem.Dqk); !status)
    return status.error();
  if (Status status = allocate(problem.k, problem.Hkv, problem.Sk, problem.Dqk); !status)
    return status.error();
  if (Status status = allocate(problem.v, problem.Hkv, problem.Sk, problem.Dv); !status)
    return status.error();
  if (Status status = addResults(problem, options); !status)
    return status.error();
  addViews(problem);
  // The views [B, H, S, D] give both layouts the same numbers.
  fillInputs(*inputs, problem.qView, problem.kView, problem.vView, seed);
  if (!options.values.empty())
    if (Status status = copyFirstColumns(problem.kView, problem.vView); !status)
      return status.error();

  LaunchExtents ofCaptures = problem;
  if (options.areAmongKeys())
    ofCaptures.Sq = ofCaptures.Sk;
  Result<std::vector<NamedTensor>> captures =
      file ? readCaptures(*file, variant) : randomCaptures(variant, ofCaptures, options.seed);
  if (!captures)
    return captures.error();
  problem.captures = std::move(*captures);
  return problem;
}

//===----------------------------------------------------------------------===//
// Data from a file
//===----------------------------------------------------------------------===//

static InputFile inputOf(const SafetensorsFile &file, const RunOptions &options) {
  return {file, options.input, options.layout, options.areAmongKeys()};
}

/// Takes the extents from q, k and v. Fails if they do not agree.
static Status takeExtents(Problem &problem, const std::string &path) {
  auto fail = [&](const std::string &what) { return invalid(path + ": " + what); };
  const Tensor &q = problem.q.view(), &k = problem.k.view(), &v = problem.v.view();
  bool bshd = problem.layout == Layout::bshd;
  const char *wanted = bshd ? "[B, S, H, D]" : "[B, H, S, D]";
  for (const auto &[name, tensor] : {std::pair("q", &q), {"k", &k}, {"v", &v}}) {
    if (tensor->rank != 4)
      return fail(fmt::format("'{}' is {}, but {} is needed.", name, describe(*tensor), wanted));
    if (tensor->type != q.type || elementSize(tensor->type) == 1 ||
        tensor->type == ElementType::i32)
      return fail(fmt::format("'{}' is {}: q, k and v are all bf16, all f16 or all f32.", name,
                              describe(*tensor)));
  }
  int head = bshd ? 2 : 1, position = bshd ? 1 : 2;
  problem.type = q.type;
  problem.B = q.extents[0];
  problem.H = q.extents[head];
  problem.Sq = q.extents[position];
  problem.Dqk = q.extents[3];
  problem.Hkv = k.extents[head];
  problem.Sk = k.extents[position];
  problem.Dv = v.extents[3];
  if (k.extents[0] != problem.B || k.extents[3] != problem.Dqk)
    return fail(fmt::format("q is {} and k is {}: batch and head dimension must agree (layout {}).",
                            describe(q), describe(k), wanted));
  if (v.extents[0] != problem.B || v.extents[head] != problem.Hkv ||
      v.extents[position] != problem.Sk)
    return fail(fmt::format("k is {} and v is {}: batch, heads and length must agree (layout {}).",
                            describe(k), describe(v), wanted));
  if (std::max(problem.Dqk, problem.Dv) > 65536)
    return fail(
        fmt::format("q is {} and v is {}: no kernel takes such a head dimension. Is the layout "
                    "{} (--layout)?",
                    describe(q), describe(v), wanted));
  if (problem.Hkv == 0 || problem.H % problem.Hkv != 0)
    return fail(
        fmt::format("q has {} heads, k has {}: q's must be a multiple of k's. Is the layout "
                    "{} (--layout)?",
                    problem.H, problem.Hkv, wanted));
  return Status::success();
}

/// Whether the file only has captures: the variant has captures, and the file has no q, k or v.
static bool holdsCapturesAlone(const SafetensorsFile &file, const VariantInfo &variant) {
  std::set<std::string> captures;
  for (const VariantParameter &parameter : variant.parameters)
    if (parameter.isCapture)
      captures.insert(parameter.name);
  bool inputs = std::ranges::any_of(std::array{"q", "k", "v"}, [&](const char *name) {
    return file.contains(name) && !captures.contains(name);
  });
  return !captures.empty() && !inputs;
}

static Result<Problem> readProblem(const RunOptions &options, const VariantInfo &variant,
                                   const SafetensorsFile &file) {
  for (const char *option : {"--inputs", "--seed"})
    if (options.given.contains(option))
      return invalid(fmt::format("{}: q, k and v come from {}, nothing is random; leave {} out.",
                                 option, options.input, option));
  Problem problem;
  problem.layout = options.layout;
  Result<std::vector<ScalarArgument>> scalars = parseScalars(options.parameters, variant);
  if (!scalars)
    return scalars.error();
  problem.scalars = std::move(*scalars);

  for (auto [name, tensor] : {std::pair("q", &problem.q), {"k", &problem.k}, {"v", &problem.v}}) {
    Result<HostTensor> read = file.read(name);
    if (!read)
      return read.error();
    *tensor = std::move(*read);
  }
  if (Status status = takeExtents(problem, options.input); !status)
    return status.error();
  // An option may repeat what the file says, but must not contradict it.
  if (Result<LaunchShape> shape = shapeOfFile(inputOf(file, options), variant, options); !shape)
    return shape.error();
  if (Status status = checkMemory(problem, options); !status)
    return status.error();
  if (Status status = addResults(problem, options); !status)
    return status.error();
  addViews(problem);

  Result<std::vector<NamedTensor>> captures = readCaptures(file, variant);
  if (!captures)
    return captures.error();
  problem.captures = std::move(*captures);
  return problem;
}

static Result<Problem> problemOf(const RunOptions &options, const VariantInfo &variant,
                                 const SafetensorsFile &file) {
  if (!holdsCapturesAlone(file, variant))
    return readProblem(options, variant, file);
  Result<LaunchShape> shape = shapeOfFile(inputOf(file, options), variant, options);
  if (!shape)
    return shape.error();
  RunOptions resolved = options;
  static_cast<LaunchShape &>(resolved) = std::move(*shape);
  return randomProblem(resolved, variant, &file);
}

Result<Problem> makeProblem(const RunOptions &options, const VariantInfo &variant) {
  if (options.input.empty())
    return randomProblem(options, variant, nullptr);
  Result<SafetensorsFile> file = SafetensorsFile::open(options.input);
  if (!file)
    return file.error();
  Result<Problem> problem = problemOf(options, variant, *file);
  if (!problem)
    return problem;
  std::set<std::string> taken{"q", "k", "v"};
  if (options.gradients)
    taken.insert({"do", "dlse"});
  for (const VariantParameter &parameter : variant.parameters)
    if (parameter.isCapture)
      taken.insert(parameter.name);
  for (const auto &[name, entry] : file->entries())
    if (!taken.contains(name))
      problem->unused.push_back(name);
  return problem;
}

} // namespace tesela::tool
