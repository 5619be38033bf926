//===- HostBackend.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "backend/Backend.h"
#include "host/ThreadPool.h"
#include "targets/host/ObjectLoader.h"

#include <chrono>
#include <cstdlib>
#include <cstring>

namespace tesela {

namespace {

class HostLoadedCode : public LoadedCode {
public:
  struct Entry {
    HostKernel *kernel;
    size_t scratchBytes;
  };
  HostLoadedCode(std::shared_ptr<HostCode> code, std::vector<Entry> entries,
                 std::shared_ptr<ThreadPool> pool)
      : code(std::move(code)), entries(std::move(entries)), pool(std::move(pool)) {}

  Status launch(size_t index, int64_t items, void **arguments, void *stream, bool) const override {
    if (stream)
      return Error(Code::invalidArgument, "the host has no streams: pass a null stream; a launch "
                                          "on the host returns with the result");
    const Entry &entry = entries[index];
    return pool->run(items, entry.scratchBytes,
                     [&](int64_t item, void *scratch) { entry.kernel(arguments, item, scratch); });
  }

private:
  std::shared_ptr<HostCode> code; // owns the machine code that `entries` point into
  std::vector<Entry> entries;
  std::shared_ptr<ThreadPool> pool;
};

class HostBackend : public Backend {
public:
  explicit HostBackend(int threads)
      : Backend(hostDevice()), pool(std::make_shared<ThreadPool>(threads)) {}

  int addressAlignment() const override { return 0; }

  /// Host object files use this CPU's instructions; compilerVersion() already names the CPU.
  std::string codeIdentity() const override { return "host"; }

  Result<std::shared_ptr<const LoadedCode>> load(const Artifact &artifact) const override {
    Result<std::shared_ptr<HostCode>> code = HostCode::load(artifact.code);
    if (!code)
      return code.error();
    std::vector<HostLoadedCode::Entry> entries;
    for (const Launch &launch : artifact.launches) {
      Result<HostKernel *> kernel = (*code)->find(launch.kernel);
      if (!kernel)
        return kernel.error();
      entries.push_back({*kernel, size_t(launch.workspaceBytes)});
    }
    return std::shared_ptr<const LoadedCode>(
        std::make_shared<HostLoadedCode>(*code, std::move(entries), pool));
  }

  Result<void *> allocate(size_t bytes) const override {
    size_t rounded = (bytes / 256 + 1) * 256;
    void *address = rounded > bytes ? std::aligned_alloc(256, rounded) : nullptr;
    if (!address)
      return Error(Code::outOfMemory, "no host memory for " + std::to_string(bytes) +
                                          " bytes; make the problem smaller");
    return address;
  }
  void release(void *address) const override { std::free(address); }

  Status copyToDevice(void *to, const void *from, size_t bytes, void *stream) const override {
    std::memcpy(to, from, bytes);
    return Status::success();
  }
  Status copyToHost(void *to, const void *from, size_t bytes, void *stream) const override {
    std::memcpy(to, from, bytes);
    return Status::success();
  }
  Status fill(void *address, uint8_t byte, size_t bytes, void *stream) const override {
    std::memset(address, byte, bytes);
    return Status::success();
  }
  Status synchronize(void *stream) const override { return Status::success(); }

  Result<double> time(const std::function<Status()> &work, void *stream) const override {
    auto begin = std::chrono::steady_clock::now();
    if (Status status = work(); !status)
      return status.error();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  }

private:
  std::shared_ptr<ThreadPool> pool;
};

} // namespace

Result<std::shared_ptr<Backend>> createHostBackend(int threads) {
  return std::shared_ptr<Backend>(std::make_shared<HostBackend>(threads));
}

} // namespace tesela
