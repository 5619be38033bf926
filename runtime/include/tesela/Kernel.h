//===- Kernel.h - A compiled kernel and its launches ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_KERNEL_H
#define TESELA_KERNEL_H

#include "tesela/Device.h"
#include "tesela/Tensor.h"
#include "tesela/Variant.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tesela {

/// A captured tensor and the name of the variant's parameter.
struct CaptureArgument {
  std::string name;
  Tensor tensor; ///< in the device's memory; strides must not be negative
};

/// A tensor and the name by which the kernel's template declares it.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// An extent of the launch and its name: B, H, Hkv, Sq or Sk.
struct NamedExtent {
  std::string name;
  int64_t value = 0;
};

/// Memory of the device that the caller lends to a launch. It must stay allocated and unchanged
/// until the launch has ended on the device. Launches that may run at the same time need one each.
struct LaunchWorkspace {
  void *address = nullptr; ///< a multiple of 256; nullptr: the kernel uses its own
  size_t bytes = 0;        ///< at least Kernel::workspaceBytes
};

/// The arguments of one launch. Tensors lie in the memory of the kernel's device.
///
///   q    [B, H,   Sq, Dqk]    k  [B, Hkv, Sk, Dqk]
///   o    [B, H,   Sq, Dv]     v  [B, Hkv, Sk, Dv]       all in the kernel's input type
///   lse  [B, H, Sq] in f32, without gaps, natural logarithm; not written if data is nullptr
///
/// H is a multiple of Hkv. The last stride is 1. On a GPU the base address and all
/// other strides are multiples of 16 bytes; on the host, of the element's size. Strides
/// of extents of 1 are ignored. k and v may repeat heads or batches with a stride of 0.
/// Sq and Sk are at most 2^31 - 4096. A tensor has fewer than 2^63 elements, less than
/// 2^63 bytes apart. If B or Sq is 0, nothing is launched. If Sk is 0, O = 0 and LSE =
/// -inf.
///
/// These five are attention's tensors. Other templates declare other tensors, with types and axes
/// (see templates/matmul.mlir); pass those with other names in `tensors`. The first tensor that has
/// an extent defines it, and the others must agree. The same rules hold for addresses and strides.
/// A tensor that is declared contiguous must have no gaps.
struct LaunchArguments {
  Tensor q, k, v, o, lse;
  /// The softmax scale, finite and positive; 1/sqrt(Dqk) if absent. For a negative scale, negate q
  /// and pass the scale's magnitude.
  std::optional<double> scale;
  std::vector<ScalarArgument> scalars; ///< those with a default may be left out
  std::vector<CaptureArgument> captures;
  std::vector<NamedTensor> tensors = {}; ///< tensors that are not members of this structure
  /// Extents that no tensor defines; others must agree. For sequences of different lengths, B is
  /// their number; Sq and Sk are at least the largest. Where no capture has it, Sk may be absent.
  std::vector<NamedExtent> extents = {};
  /// Device memory for what the kernel's launches compute for each other, of at least
  /// Kernel::workspaceBytes. If it is given, the launch allocates no device memory.
  LaunchWorkspace workspace = {};
  /// A promise that no element of a captured tensor has changed since this kernel's last launch on
  /// this stream. With `workspace`: since its last launch in that memory, which nothing else has
  /// written, no replayed graph either. The launch then uses again what the kernel computed from
  /// captured tensors alone (the summaries from which it finds empty tiles), for tensors with equal
  /// address, extents and strides. Never needed for a correct result; a false promise gives wrong
  /// results.
  bool capturesUnchanged = false;
};

/// The scalars of a launch of a kernel with KernelOptions::dropout. Each pair is dropped with the
/// `probability`, in [0, 1]; kept ones are divided by 1 - probability. Which pairs are dropped
/// depends only on seed, offset, b, h, q and k: it is the same in every kernel, forward and
/// backward, on every device (docs/numerics.md). Use another offset or seed to drop other pairs. A
/// launch may also have the captured tensor "dropout.state", 4 i32 in the device's memory, which
/// are exclusive-ored with seed and offset in the order seed, its upper half, offset, its upper
/// half. With it, each replay of a graph can drop other pairs.
TESELA_EXPORT std::vector<ScalarArgument> dropoutScalars(double probability, uint64_t seed,
                                                         uint64_t offset = 0);

/// What is known about a kernel: its origin, its schedule, its resources.
struct KernelInfo {
  std::string variantName;
  std::string target; ///< what the kernel was compiled for: "host", "sm_90"
  ElementType inputType = ElementType::bf16;
  int headDimQk = 0, headDimV = 0;
  std::string schedule; ///< the chosen #tile.schedule, as text
  /// Who chose the schedule: KernelOptions::schedule (all or a part of it), the heuristic, or
  /// measurements (recorded in the file `tunedRecord`). `simple`: the schedule that compiles
  /// soonest, until the best one replaces it (ContextOptions::tiers). Launches with other sizes may
  /// run other schedules, if compile() got no sizes or if kernels are replaced
  /// (ContextOptions::tuning).
  enum class ScheduleOrigin {
    given,
    heuristic,
    tuned,
    simple
  } scheduleOrigin = ScheduleOrigin::heuristic;
  std::string tunedRecord;
  std::vector<VariantParameter> parameters;

  /// `package`: the kernel was shipped with the library (docs/cache.md).
  enum class Origin { compiled, memoryCache, diskCache, bundle, package } origin = Origin::compiled;
  /// Milliseconds of each stage of the request that made this handle, in order: the compiler's
  /// stages, "assemble", "load"; or "cache" and "load".
  std::vector<std::pair<std::string, double>> stages;
  /// The path of a ptxas, or "driver 13.0". For a shipped kernel the version of the ptxas that made
  /// it. Empty for the host.
  std::string assembler;

  /// The most demanding kernel of the plan; on GPUs only.
  std::optional<int> registers;       ///< per thread
  std::optional<int> spillBytes;      ///< per thread, stores plus loads
  std::optional<int64_t> sharedBytes; ///< per thread block, static plus dynamic
  std::optional<int> threads;         ///< per thread block
};

/// A loaded kernel: a handle that is cheap to copy. It keeps its context alive. All members may be
/// called from several threads at once.
class TESELA_EXPORT Kernel {
public:
  /// With two tiers (ContextOptions::tiers): about the kernel that launches run now.
  const KernelInfo &info() const;

  /// Waits at most `wait` for the best schedule's kernel. True: the next launch outside of a
  /// capture runs it; always true without two tiers. An Error says why it was not compiled
  /// (Code::cancelled: the context was destroyed before, or this is a child of fork()). Launches
  /// then run the simple kernel; the next request for the kernel compiles the best one again.
  Result<bool> isBest(std::chrono::milliseconds wait = std::chrono::milliseconds(0)) const;

  /// Launches on `stream`: a CUstream or cudaStream_t of the device's primary context, or nullptr
  /// for the default stream. Returns at once, except for a first launch under
  /// ContextOptions::verify. On the host, `stream` must be nullptr, and the result is there on
  /// return.
  ///
  /// A launch of a ready kernel waits neither for a compilation nor for the device, and allocates
  /// no host memory (for variants with up to 16 parameters). Only without arguments.workspace it
  /// may allocate device memory, which may wait for the device: if workspaceBytes is not 0, at the
  /// stream's first launch and at larger ones than before; and once per thousand streams. On
  /// a stream in capture (any mode) the launch becomes part of the graph; no earlier launch is
  /// needed. The graph then owns what the launch needs, including the kernel's code, until the
  /// graph and its last instance are destroyed. A capture may allocate. Instances of a graph may
  /// run at the same time.
  ///
  /// Code::invalidArgument: an argument does not fit. Code::unsupported: the device cannot do it.
  /// In both cases nothing is launched.
  Status launch(const LaunchArguments &arguments, void *stream = nullptr) const;

  /// The checks of launch() without the launch.
  Status checkArguments(const LaunchArguments &arguments) const;

  /// The bytes of arguments.workspace that a launch of `arguments` needs; 0: none. Depends on
  /// extents, not on the tensors' contents; arguments.workspace is ignored. If no launch of
  /// the kernel can need a workspace, wrong arguments are not reported here; launch() reports
  /// them.
  Result<size_t> workspaceBytes(const LaunchArguments &arguments) const;

  struct State;
  explicit Kernel(std::shared_ptr<const State> state);
  const std::shared_ptr<const State> &internal() const { return state; }

private:
  std::shared_ptr<const State> state;
};

} // namespace tesela

#endif // TESELA_KERNEL_H
