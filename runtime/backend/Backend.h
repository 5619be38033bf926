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

/// What orders a launch on a stream: the stream, or the graph that the stream captures into.
struct StreamUse {
  /// No other stream of the process ever has this number; in a capture, no other stream of that
  /// capture.
  uint64_t stream = 0;
  bool isCaptured = false; ///< launches become part of a graph
  uint64_t capture = 0;    ///< the number of the active capture
  void *graph = nullptr;   ///< the graph that it captures into
};

/// A counter from which a persistent kernel takes its work items.
struct LaunchCounter {
  uint64_t address = 0;               ///< the slot's value (ArgumentSlot::Kind::counter)
  std::shared_ptr<const void> memory; ///< hold it until the launches have been started
};

/// An artifact's code, loaded. It keeps its backend alive.
class LoadedCode : public std::enable_shared_from_this<LoadedCode> {
public:
  virtual ~LoadedCode() = default;

  /// Makes the device current for the calling thread if necessary. True: leave() must follow on the
  /// same thread. Members that prepare or start a launch must be called between enter() and
  /// leave().
  virtual Result<bool> enter() const { return false; }
  virtual void leave() const {}

  /// `isNumbered` false: outside of captures, the stream's number is not needed.
  virtual Result<StreamUse> streamUse(void *stream, bool isNumbered) const { return StreamUse(); }
  /// The counter for launches with that use. Only kernels of GPUs have counters; on the host
  /// Code::defect.
  virtual Result<LaunchCounter> counter(const StreamUse &use) const {
    return Error(Code::defect, "the kernel asks for a counter, which only a GPU has");
  }
  /// Keeps `kept` as long as the graph of `use`, its copies and its instances exist. A thread of
  /// Tesela then releases it. Only GPUs have graphs.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): the GPU's function keeps it
  virtual Status keepForGraph(const StreamUse &use, std::shared_ptr<const void> kept) const {
    return Error(Code::defect, "the launch is captured into a graph, which only a GPU has");
  }
  /// Encodes the map by which kernels copy boxes of a tensor. Only kernels of GPUs have such
  /// copies; on the host Code::defect.
  virtual Status encodeTensorMap(const TensorTiling &tiling, TensorMap &map) const {
    return Error(Code::defect, "the kernel asks for a tensor map, which only a GPU has");
  }
  /// Starts `items` work items of the plan's launch `index`. `items` is above 0 and within the
  /// device's grid (LaunchPlan::checkItems). arguments[i] points to the value of slot i.
  /// `overlaps`: the launch is dependent (Launch::dependent), and the launch before it on the
  /// stream belongs to the same call.
  virtual Status launch(size_t index, int64_t items, void **arguments, void *stream,
                        bool overlaps) const = 0;

  /// The address of zero bytes that kernels can read, in place of tensors without elements: 8 bytes
  /// on the host, zeroBytes on a GPU.
  static constexpr size_t zeroBytes = 1152; // a row of the widest head, 576 elements of 2 bytes
  virtual uint64_t addressOfZero() const {
    static const uint64_t zero = 0;
    return reinterpret_cast<uintptr_t>(&zero);
  }
  /// What the device reports about the kernels; nullopt on the host.
  virtual std::optional<Resources> resources() const { return std::nullopt; }
  /// Static plus dynamic shared memory of a thread block, in bytes.
  virtual std::optional<int64_t> sharedBytes() const { return std::nullopt; }
};

/// The host or one GPU. All members may be called from several threads at once.
class Backend : public std::enable_shared_from_this<Backend> {
public:
  virtual ~Backend() = default;
  const Device &device() const { return device_; }

  /// The alignment in bytes of addresses and strides of q, k, v and o; 0: the element's size.
  virtual int addressAlignment() const = 0;

  /// What the code for this machine depends on, besides the specification and the compiler; part of
  /// the cache's key. Machines with equal code have equal identities.
  virtual std::string codeIdentity() const = 0;
  /// Whether codeIdentity() returns at once. Otherwise it runs a program, which takes
  /// milliseconds.
  virtual bool knowsIdentity() const { return true; }
  /// The identity of code that the assembler of codeIdentity() was too old for, so that another
  /// assembler made it; "": there is no other one.
  virtual std::string spareIdentity() const { return ""; }
  /// The identity of an artifact that assemble() returned: codeIdentity() or spareIdentity().
  virtual std::string identityOf(const Artifact &assembled) const { return codeIdentity(); }
  /// What assembles PTX; "" for the host.
  virtual std::string assemblerName() const { return ""; }

  /// The artifact in the form in which it is cached: with a cubin instead of PTX, if the machine
  /// can make one.
  virtual Result<Artifact> assemble(Artifact artifact, const RequestLimits &limits) const {
    return artifact;
  }
  virtual Result<std::shared_ptr<const LoadedCode>> load(const Artifact &artifact) const = 0;

  virtual Result<void *> allocate(size_t bytes) const = 0;
  virtual void release(void *address) const = 0;
  /// These three run on `stream` after its earlier work, and wait for it.
  virtual Status copyToDevice(void *to, const void *from, size_t bytes, void *stream) const = 0;
  virtual Status copyToHost(void *to, const void *from, size_t bytes, void *stream) const = 0;
  virtual Status fill(void *address, uint8_t byte, size_t bytes, void *stream) const = 0;
  /// A stream that does not synchronise with the default stream; null on the host.
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

/// `threads` 0: one for each usable processor.
Result<std::shared_ptr<Backend>> createHostBackend(int threads);
/// `device` must be one of cudaDevices().
Result<std::shared_ptr<Backend>> createCudaBackend(const Device &device);

} // namespace tesela

#endif // TESELA_BACKEND_BACKEND_H
