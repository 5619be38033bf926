//===- CApiCheck.cpp - tesela/c/check.h ------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/CApiArguments.h"
#include "system/ThreadOwn.h"
#include "tesela/Check.h"

using namespace tesela;
using namespace tesela::c;

struct tesela_reference {
  Reference reference;
};

struct tesela_reads {
  std::vector<OutsideReads> reads;
};

namespace {

constexpr const char *referenceMaker = "tesela_reference_on_host";

struct Difference {
  std::string sentence; ///< of this thread's last comparison
};

/// Reads the arguments that both references and the checking mode share.
Status readProblem(const tesela_kernel_options *options, const tesela_tensor_arguments *arguments,
                   const Device &device, KernelOptions &chosen, ReusedArguments &given) {
  Result<KernelOptions> read = kernelOptions(options);
  if (!read)
    return read.error();
  chosen = std::move(*read);
  return given.read(arguments, /*info=*/nullptr, /*signature=*/nullptr, device);
}

tesela_comparison comparisonOf(const Comparison &from) {
  auto to = zeroed<tesela_comparison>();
  to.passed = from.passed;
  to.max_error = from.maxError;
  to.tolerance = from.tolerance;
  std::copy(from.worst.begin(), from.worst.end(), to.worst);
  to.max_lse_error = from.maxLseError;
  to.lse_tolerance = from.lseTolerance;
  std::copy(from.worstLse.begin(), from.worstLse.end(), to.worst_lse);
  to.nan_count = from.nanCount;
  Difference *difference = ThreadOwn<Difference>::get();
  if (!difference)
    throw std::bad_alloc();
  difference->sentence = from.failure;
  to.failure = difference->sentence.c_str();
  std::copy(from.worstRow.begin(), from.worstRow.end(), to.worst_row);
  to.row_error = from.rowError;
  to.row_tolerance = from.rowTolerance;
  return to;
}

Status checkType(const Tensor &tensor, const TensorRole &role,
                 std::initializer_list<ElementType> accepted, const char *names) {
  if (std::find(accepted.begin(), accepted.end(), tensor.type) != accepted.end())
    return Status::success();
  return invalid(role.text() + " is " + describe(tensor) + ", its type must be " + names);
}

/// A tensor to be filled with numbers.
Status readFilled(const tesela_tensor *from, const char *name, Tensor &to) {
  Status status = readHostTensor(from, {name}, to);
  if (status && to.readOnly)
    return invalid(std::string(name) +
                   " is read-only, but it must be written: pass a writable tensor");
  return status;
}

constexpr std::initializer_list<ElementType> floats = {ElementType::f32, ElementType::f16,
                                                       ElementType::bf16};

} // namespace

tesela_code tesela_reference_on_host(const tesela_kernel_options *options,
                                     const tesela_tensor_arguments *arguments, int threads,
                                     tesela_reference **reference) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(reference, "reference"); !status)
      return status;
    KernelOptions chosen;
    ReusedArguments given;
    if (Status status = readProblem(options, arguments, Device(), chosen, given); !status)
      return status;
    Result<Reference> made = hostReference(chosen, given.arguments, threads);
    if (!made)
      return made.error();
    *reference = new tesela_reference{std::move(*made)};
    return Status::success();
  });
}

tesela_code tesela_reference_on_device(const tesela_context *context,
                                       const tesela_kernel_options *options,
                                       const tesela_tensor_arguments *arguments,
                                       tesela_reference **reference) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(reference, "reference"); !status)
      return status;
    if (!context)
      return noHandle("context", "tesela_context_create");
    KernelOptions chosen;
    ReusedArguments given;
    if (Status status = readProblem(options, arguments, context->context.device(), chosen, given);
        !status)
      return status;
    Result<Reference> made = deviceReference(context->context, chosen, given.arguments);
    if (!made)
      return made.error();
    *reference = new tesela_reference{std::move(*made)};
    return Status::success();
  });
}

void tesela_reference_destroy(tesela_reference *reference) { delete reference; }

tesela_code tesela_reference_describe(const tesela_reference *reference,
                                      tesela_reference_info *info) {
  return guarded([&]() -> Status {
    if (!reference)
      return noHandle("reference", referenceMaker);
    const Reference &from = reference->reference;
    auto known = zeroed<tesela_reference_info>();
    known.batch = from.B;
    known.heads = from.H;
    known.length = from.Sq;
    known.head_dim_v = from.Dv;
    known.type = tesela_type(from.type);
    known.score_uses_tanh = from.scoreUsesTanh;
    known.ref = from.ref.data();
    known.base = from.base.data();
    known.magnitude = from.magnitude.data();
    known.lse = from.lse.data();
    known.max_score = from.maxScore;
    known.kept_pairs = from.keptPairs;
    known.term_norm = from.termNorm.data();
    return writeSized(known, info, "tesela_reference_info");
  });
}

tesela_code tesela_reference_compare(const tesela_reference *reference, const tesela_tensor *o,
                                     const tesela_tensor *lse, tesela_comparison *comparison) {
  return guarded([&]() -> Status {
    if (!reference)
      return noHandle("reference", referenceMaker);
    Tensor output, logSumExp;
    if (Status status = readHostTensor(o, {"o"}, output); !status)
      return status;
    if (Status status = readHostTensor(lse, {"lse"}, logSumExp); !status)
      return status;
    Result<Comparison> compared = compare(reference->reference, output, logSumExp);
    if (!compared)
      return compared.error();
    return writeSized(comparisonOf(*compared), comparison, "tesela_comparison");
  });
}

tesela_code tesela_check_reads(const tesela_kernel_options *options,
                               const tesela_tensor_arguments *arguments, int threads,
                               tesela_reads **reads) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(reads, "reads"); !status)
      return status;
    KernelOptions chosen;
    ReusedArguments given;
    if (Status status = readProblem(options, arguments, Device(), chosen, given); !status)
      return status;
    Result<std::vector<OutsideReads>> found = checkReads(chosen, given.arguments, threads);
    if (!found)
      return found.error();
    *reads = new tesela_reads{std::move(*found)};
    return Status::success();
  });
}

void tesela_reads_destroy(tesela_reads *reads) { delete reads; }

size_t tesela_reads_count(const tesela_reads *reads) { return reads ? reads->reads.size() : 0; }

tesela_code tesela_reads_describe(const tesela_reads *reads, size_t index,
                                  tesela_outside_reads *outside) {
  return guarded([&]() -> Status {
    if (!reads)
      return noHandle("reads", "tesela_check_reads");
    if (Status status = checkIndex(index, reads->reads.size(), "reads"); !status)
      return status;
    const OutsideReads &from = reads->reads[index];
    auto known = zeroed<tesela_outside_reads>();
    known.capture = from.capture.c_str();
    known.axis = from.axis;
    known.extent = from.extent;
    known.index = from.index;
    known.b = from.b;
    known.h = from.h;
    known.q = from.q;
    known.k = from.k;
    known.count = from.count;
    return writeSized(known, outside, "tesela_outside_reads");
  });
}

tesela_code tesela_fill_normal(const tesela_tensor *tensor, uint64_t seed) {
  return guarded([&]() -> Status {
    Tensor filled;
    if (Status status = readFilled(tensor, "tensor", filled); !status)
      return status;
    if (Status status = checkType(filled, {"tensor"}, floats, "f32, f16 or bf16"); !status)
      return status;
    fillNormal(filled, seed);
    return Status::success();
  });
}

tesela_code tesela_fill_uniform(const tesela_tensor *tensor, uint64_t seed, int64_t low,
                                int64_t high) {
  return guarded([&]() -> Status {
    Tensor filled;
    if (Status status = readFilled(tensor, "tensor", filled); !status)
      return status;
    if (Status status =
            checkType(filled, {"tensor"}, {ElementType::i32, ElementType::boolean}, "i32 or bool");
        !status)
      return status;
    if (low > high)
      return invalid("low is " + std::to_string(low) + " and high is " + std::to_string(high) +
                     ": low must be at most high");
    if (filled.type == ElementType::i32 && (low < INT32_MIN || high > INT32_MAX))
      return invalid("low is " + std::to_string(low) + " and high is " + std::to_string(high) +
                     ": both must lie in [-2147483648, 2147483647], the range of i32");
    fillUniform(filled, seed, low, high);
    return Status::success();
  });
}

tesela_code tesela_fill_inputs(const char *kind, const tesela_tensor *q, const tesela_tensor *k,
                               const tesela_tensor *v, uint64_t seed) {
  return guarded([&]() -> Status {
    if (!kind)
      return invalid("kind is NULL: pass \"normal\"");
    std::optional<InputKind> known = parseInputKind(kind);
    if (!known) {
      std::string names;
      for (InputKind each : inputKinds())
        names += (names.empty() ? "" : ", ") + std::string(inputKindName(each));
      return invalid(std::string("the kind of inputs '") + kind + "' is not known; choose one of " +
                     names);
    }
    Tensor filled[3];
    const tesela_tensor *given[] = {q, k, v};
    constexpr const char *names[] = {"q", "k", "v"};
    for (int i = 0; i < 3; ++i) {
      if (Status status = readFilled(given[i], names[i], filled[i]); !status)
        return status;
      if (Status status = checkType(filled[i], {names[i]}, floats, "f32, f16 or bf16"); !status)
        return status;
      if (filled[i].rank != 4)
        return invalid(std::string(names[i]) + " is " + describe(filled[i]) +
                       ", its rank must be 4: [batch, heads, length, head dimension]");
    }
    fillInputs(*known, filled[0], filled[1], filled[2], seed);
    return Status::success();
  });
}
