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

/// The tensor that a variant captures under `name`.
struct CaptureArgument {
  std::string name;
  Tensor tensor; ///< in the device's memory; any strides that are not negative
};

/// A tensor by the name under which a kernel's template declares it.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// An extent of the launch, by its name: B, H, Hkv, Sq or Sk.
struct NamedExtent {
  std::string name;
  int64_t value = 0;
};

/// Memory of the device that the caller lends a launch. It must stay as it is until the launch has
/// ended on the device; launches that may run at the same time need one each.
struct LaunchWorkspace {
  void *address = nullptr; ///< a multiple of 256; none: the kernel has its own
  size_t bytes = 0;        ///< at least Kernel::workspaceBytes
};

/// The arguments of one launch. Tensors lie in the memory of the kernel's device.
///
///   q    [B, H,   Sq, Dqk]    k  [B, Hkv, Sk, Dqk]
///   o    [B, H,   Sq, Dv]     v  [B, Hkv, Sk, Dv]       all in the kernel's input type
///   lse  [B, H, Sq] in f32, without gaps, natural logarithm; without an address: not written
///
/// H is a multiple of Hkv. The last stride is 1. On a GPU the base address and
/// all other strides are multiples of 16 bytes; on the host, of the element.
/// Strides of extents of 1 are ignored; k and v may repeat heads or batches with
/// a stride of 0. Sq and Sk are at most 2^31 - 4096, a tensor's elements fewer than
/// 2^63 and less than 2^63 bytes apart. B = 0 or Sq = 0 launches nothing; Sk = 0 gives O = 0 and
/// LSE = -inf.
///
/// That is attention. Every other template declares tensors of its own, with their types and axes
/// (templates/matmul.mlir, say): those whose names are none of these five are passed in `tensors`.
/// The first tensor that names an extent tells it, the others must agree. The rules of addresses
/// and strides are the same; a tensor that is declared contiguous has no gaps.
struct LaunchArguments {
  Tensor q, k, v, o, lse;
  /// The softmax scale, finite and positive; 1/sqrt(Dqk) where absent. For a
  /// negative scale, negate q and pass the scale's magnitude.
  std::optional<double> scale;
  std::vector<ScalarArgument> scalars; ///< those with a default may be left out
  std::vector<CaptureArgument> captures;
  std::vector<NamedTensor> tensors = {}; ///< those that have no member here
  /// The extents that no tensor tells; one that a tensor tells must agree. Of sequences of
  /// different lengths, B is their number, Sq and Sk those of the longest, or more.
  std::vector<NamedExtent> extents = {};
  /// What the kernel computes of captured tensors lies here, and the launch allocates no device
  /// memory for it: for those who manage the device's memory.
  LaunchWorkspace workspace = {};
  /// No captured tensor's elements have changed since this kernel's last launch on this stream, or
  /// in this workspace where one is given, which nothing else has written since (a replay of a
  /// graph that was captured with it included). What the kernel computes of the tensors alone (the
  /// summaries that tell it which tiles a mask empties) is then kept for those that are passed with
  /// the same address, extents and strides. Never needed for a right result, and wrong results
  /// where it is not true.
  bool capturesUnchanged = false;
};

/// The scalars of a launch of a kernel with KernelOptions::dropout: a pair is dropped with the
/// `probability`, in [0, 1], and kept ones are divided by 1 - probability. Which pairs follows from
/// the seed, the offset, b, h, q and k alone: the same in every kernel, forward and backward, and
/// on every device (docs/numerics.md). A launch that shall drop other pairs takes another offset,
/// or another seed. Such a launch may also have the captured tensor "dropout.state", of 4 i32 in
/// the device's memory, which are exclusive-ored to the words of the seed and the offset, the lower
/// halves first: what a graph replays can so drop other pairs each time.
TESELA_EXPORT std::vector<ScalarArgument> dropoutScalars(double probability, uint64_t seed,
                                                         uint64_t offset = 0);

/// What is known of a kernel: where it came from, what it needs.
struct KernelInfo {
  std::string variantName;
  std::string target; ///< what it was compiled for: "host", "sm_90"
  ElementType inputType = ElementType::bf16;
  int headDimQk = 0, headDimV = 0;
  std::string schedule; ///< the chosen #tile.schedule, as text
  /// Who chose it: KernelOptions::schedule, in part or whole; the heuristic; or measurements, whose
  /// record is the file `tunedRecord`. Launches of other sizes may run other schedules, where no
  /// sizes were given to compile() or kernels are swapped in (ContextOptions::tuning). `simple`:
  /// the one that is compiled soonest, until the best one has taken its place
  /// (ContextOptions::tiers).
  enum class ScheduleOrigin {
    given,
    heuristic,
    tuned,
    simple
  } scheduleOrigin = ScheduleOrigin::heuristic;
  std::string tunedRecord;
  std::vector<VariantParameter> parameters;

  /// `package`: it came with the library (docs/cache.md).
  enum class Origin { compiled, memoryCache, diskCache, bundle, package } origin = Origin::compiled;
  /// Milliseconds by stage, in order, of the request that made this handle:
  /// the compiler's stages, "assemble", "load"; or "cache" and "load".
  std::vector<std::pair<std::string, double>> stages;
  /// The path of a ptxas, or "driver 13.0"; of a kernel of the package the version of the ptxas
  /// that made it; "" for the host.
  std::string assembler;

  /// Of the most demanding kernel of the plan; a GPU's only.
  std::optional<int> registers;       ///< a thread
  std::optional<int> spillBytes;      ///< a thread, stores and loads
  std::optional<int64_t> sharedBytes; ///< a block, static and dynamic
  std::optional<int> threads;         ///< a block
};

/// A loaded kernel: a cheap handle, copied freely. It keeps its context alive. All
/// members may be called from several threads at once.
class TESELA_EXPORT Kernel {
public:
  /// Of a kernel with two tiers (ContextOptions::tiers): that of the one that launches run now.
  const KernelInfo &info() const;

  /// Whether the best schedule's kernel is there, after waiting for `wait` at most: then the next
  /// launch outside of a capture runs it. At once true without two tiers. A failure says why it was
  /// not compiled, and launches go on with the simple one: Code::cancelled where the context went
  /// before, or in a child of fork(). Compiled once more where the kernel is asked for again.
  Result<bool> isBest(std::chrono::milliseconds wait = std::chrono::milliseconds(0)) const;

  /// Launches on `stream` (a CUstream or cudaStream_t of the device's primary context; nullptr is
  /// the default stream) and returns at once, but the first time where ContextOptions::verify asks
  /// for it; on the host it returns when the result is there and `stream` must be nullptr.
  /// A ready kernel's launch waits for no compilation and not for the device, and allocates no host
  /// memory (for variants of up to 16 parameters). Device memory it allocates, which may wait for
  /// the device, only where arguments.workspace is not given: for a mask that reads captured
  /// tensors on a stream's first launch and on larger ones than before, and once for a thousand
  /// streams. On a stream that captures into a graph, in any mode, the launch becomes part of the
  /// graph, without a launch before. The graph then owns what the launch needs, the kernel's code
  /// included, until it and its last instance are destroyed; a capture may allocate. Instances of a
  /// graph may run at the same time. Any argument that does not fit is Code::invalidArgument,
  /// what fits but is more than the device can do is Code::unsupported, and nothing is launched.
  Status launch(const LaunchArguments &arguments, void *stream = nullptr) const;

  /// Only the checks of launch().
  Status checkArguments(const LaunchArguments &arguments) const;

  /// Bytes of arguments.workspace that a launch of `arguments` takes, whose own workspace is not
  /// looked at; 0: it needs none. Grows with the extents of captured tensors only. Arguments that
  /// do not fit are an error where the kernel has launches that need one; else launch() tells of
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
