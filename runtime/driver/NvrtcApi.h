//===- NvrtcApi.h - NVRTC's entry points ------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// libnvrtc is opened at run time, like libcuda. It compiles the oracle. Source: the NVRTC
// documentation.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_DRIVER_NVRTCAPI_H
#define TESELA_DRIVER_NVRTCAPI_H

#include "tesela/Status.h"

#include <cstddef>
#include <string>
#include <vector>

struct _nvrtcProgram; // NOLINT(bugprone-reserved-identifier): the name in nvrtc.h

namespace tesela::cuda {

/// The table: each function by its name in libnvrtc, with its parameters. All return an nvrtcResult
/// (an int here).
#define TESELA_NVRTC_TABLE(ENTRY)                                                                  \
  ENTRY(nvrtcVersion, (int *major, int *minor))                                                    \
  ENTRY(nvrtcCreateProgram,                                                                        \
        (_nvrtcProgram * *program, const char *source, const char *name, int headerCount,          \
         const char *const *headers, const char *const *includeNames))                             \
  ENTRY(nvrtcDestroyProgram, (_nvrtcProgram * *program))                                           \
  ENTRY(nvrtcCompileProgram,                                                                       \
        (_nvrtcProgram * program, int optionCount, const char *const *options))                    \
  ENTRY(nvrtcGetProgramLogSize, (_nvrtcProgram * program, size_t * bytes))                         \
  ENTRY(nvrtcGetProgramLog, (_nvrtcProgram * program, char *log))                                  \
  ENTRY(nvrtcGetCUBINSize, (_nvrtcProgram * program, size_t * bytes))                              \
  ENTRY(nvrtcGetCUBIN, (_nvrtcProgram * program, char *cubin))

struct NvrtcApi {
#define TESELA_ENTRY(name, parameters) int(*name) parameters = nullptr;
  TESELA_NVRTC_TABLE(TESELA_ENTRY)
#undef TESELA_ENTRY
  const char *(*nvrtcGetErrorString)(int result) = nullptr;

  /// Converts `result` of `call` to a Status with NVRTC's own text.
  Status check(int result, const char *call) const;

  /// Compiles CUDA C++ to a cubin for `sm` (90: sm_90). `name` appears in messages. An error in the
  /// source is Code::defect, because Tesela wrote the source.
  Result<std::string> compile(const std::string &source, const std::string &name, int sm) const;

  static Result<NvrtcApi> open(const std::vector<std::string> &names);
};

/// The process's NVRTC, opened by the first call: version 13, else 12, from the loader's path,
/// $CUDA_HOME or /usr/local/cuda. Code::notFound lists what was tried.
Result<const NvrtcApi *> nvrtc();

} // namespace tesela::cuda

#endif // TESELA_DRIVER_NVRTCAPI_H
