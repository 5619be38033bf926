//===- Backend.h - What a device does for the runtime -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_BACKEND_BACKEND_H
#define TESELA_BACKEND_BACKEND_H

#include "backend/TensorMap.h"
#include "tesela/Device.h"
#include "tesela/RequestLimits.h"
#include "tesela/compiler/Artifact.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tesela {

/// What launches on a stream run after and beside.
struct StreamUse {
  /// No other stream of the process ever has this number. In a capture: no other stream of it has.
  uint64_t stream = 0;
  bool isCaptured = false; ///< what is launched becomes part of a graph
  uint64_t capture = 0;    ///< the number of the capture that goes on
  void *graph = nullptr;   ///< what it captures into
};

/// A counter for launches.
struct LaunchCounter {
  uint64_t address = 0;               ///< the slot's value (ArgumentSlot::Kind::counter)
  std::shared_ptr<const void> memory; ///< to be held until the launches have been started
};

/// An artifact's code, loaded. It keeps its backend alive.
class LoadedCode : public std::enable_shared_from_this<LoadedCode> {
public:
  virtual ~LoadedCode() = default;

  /// Makes the device current for the calling thread, where that is needed: then true, and leave()
  /// must follow on the same thread. The members that start, or prepare, a launch are called
  /// between the two.
  virtual Result<bool> enter() const { return false; }
  virtual void leave() const {}

  /// `isNumbered` false: outside of captures `stream` is not asked for.
  virtual Result<StreamUse> streamUse(void *stream, bool isNumbered) const { return StreamUse(); }
  /// The counter of launches of that use. Only a GPU has kernels that ask for one: elsewhere
  /// Code::defect.
  virtual Result<LaunchCounter> counter(const StreamUse &use) const {
    return Error(Code::defect, "the kernel asks for a counter, which only a GPU has");
  }
  /// Keeps `kept` as long as the graph of `use`, its copies and its instances exist. It goes on a
  /// thread of Tesela's own. Only a GPU has graphs.
  virtual Status keepForGraph(const StreamUse &use, std::shared_ptr<const void> kept) const {
    return Error(Code::defect, "the launch is captured into a graph, which only a GPU has");
  }
  /// The map that kernels copy boxes of a tensor by. Only a GPU has such copies: elsewhere
  /// Code::defect.
  virtual Status encodeTensorMap(const TensorTiling &tiling, TensorMap &map) const {
    return Error(Code::defect, "the kernel asks for a tensor map, which only a GPU has");
  }
  /// Starts `items` work items, more than 0 and within the device's grid (LaunchPlan::checkItems),
  /// of the plan's launch `index`;
  /// arguments[i] points at the value of slot i. `overlaps`: it is a dependent one
  /// (Launch::dependent), and what the stream was given last is a launch of the same call.
  virtual Status launch(size_t index, int64_t items, void **arguments, void *stream,
                        bool overlaps) const = 0;

  /// Where zero bytes lie that kernels can read, 8 on the host and zeroBytes on a GPU: what tensors
  /// without elements are read from.
  static constexpr size_t zeroBytes = 1152; // a row of the widest head, 576 elements of 2 bytes
  virtual uint64_t addressOfZero() const {
    static const uint64_t zero = 0;
    return reinterpret_cast<uintptr_t>(&zero);
  }
  /// What the device knows of the kernels; absent on the host.
  virtual std::optional<Resources> resources() const { return std::nullopt; }
  /// Static and dynamic shared memory of a block.
  virtual std::optional<int64_t> sharedBytes() const { return std::nullopt; }
};

/// The host or one GPU. All members may be called from several threads at once.
class Backend : public std::enable_shared_from_this<Backend> {
public:
  virtual ~Backend() = default;
  const Device &device() const { return device_; }

  /// Alignment in bytes that addresses and strides of q, k, v and o need; 0: the element's.
  virtual int addressAlignment() const = 0;

  /// What code for this machine depends on besides the specification and the compiler: part of the
  /// cache's key. Machines whose code is the same have the same.
  virtual std::string codeIdentity() const = 0;
  /// Whether codeIdentity() answers at once; else a program is started and asked, which takes
  /// milliseconds.
  virtual bool knowsIdentity() const { return true; }
  /// The same of code that assemble() could not leave to the assembler of codeIdentity(), which was
  /// too old for it; "": there is no other assembler.
  virtual std::string spareIdentity() const { return ""; }
  /// Which of the two is that of an artifact that assemble() gave.
  virtual std::string identityOf(const Artifact &assembled) const { return codeIdentity(); }
  /// What assembles PTX; "" for the host.
  virtual std::string assemblerName() const { return ""; }

  /// The compiler's artifact as it is kept: with a cubin in place of PTX where the machine
  /// can make one.
  virtual Result<Artifact> assemble(Artifact artifact, const RequestLimits &limits) const {
    return artifact;
  }
  virtual Result<std::shared_ptr<const LoadedCode>> load(const Artifact &artifact) const = 0;

  virtual Result<void *> allocate(size_t bytes) const = 0;
  virtual void release(void *address) const = 0;
  /// These three work on `stream`, behind what it was given before, and wait for it.
  virtual Status copyToDevice(void *to, const void *from, size_t bytes, void *stream) const = 0;
  virtual Status copyToHost(void *to, const void *from, size_t bytes, void *stream) const = 0;
  virtual Status fill(void *address, uint8_t byte, size_t bytes, void *stream) const = 0;
  /// A stream that no other waits for; null on the host, which has none.
  virtual Result<void *> createStream() const { return nullptr; }
  virtual void destroyStream(void *stream) const {}
  virtual Status synchronize(void *stream) const = 0;
  /// The milliseconds that `work` takes on `stream`.
  virtual Result<double> time(const std::function<Status()> &work, void *stream) const = 0;

protected:
  explicit Backend(Device device) : device_(std::move(device)) {}

private:
  Device device_;
};

/// `threads` 0: the hardware's.
Result<std::shared_ptr<Backend>> createHostBackend(int threads);
/// `device` is one of cudaDevices().
Result<std::shared_ptr<Backend>> createCudaBackend(const Device &device);

} // namespace tesela

#endif // TESELA_BACKEND_BACKEND_H
