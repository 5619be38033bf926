//===- PlantedDefects.cpp - Kernels that are wrong on purpose --------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// tesela_planted_defects DEFECT [mended]: launches one small kernel. scripts/sanitize runs it under
// compute-sanitizer to show what its tools find: each defect, and the same kernel without it.
//
//   outside    threads write after the end of a buffer
//   race       threads read what another warp writes, without a barrier between
//   count      a barrier waits for a number of threads that is not a multiple of 32
//   copy       threads read what a tensor copy writes, before its barrier says that it is done
//   unwritten  threads read a buffer that nothing wrote
//
//===----------------------------------------------------------------------===//
#include "PtxKernel.h"

#include "tesela/Context.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>

using namespace tesela;

namespace {

/// 64 threads, each with one word of the buffer.
constexpr unsigned threads = 64;
constexpr size_t bufferBytes = 4 * threads;

constexpr int exitSkipped = 77;

/// A kernel with the address of the buffer in %rd1, that of the thread's word in %rd2, and tid.x in
/// %r1.
std::string kernelOf(const std::string &body) {
  return ".version 7.0\n.target sm_80\n.address_size 64\n"
         ".visible .entry planted(.param .u64 buffer) {\n"
         "  .reg .pred %p<4>;\n  .reg .b32 %r<8>;\n  .reg .b64 %rd<4>;\n"
         "  .shared .align 16 .b8 values[256];\n"
         "  mov.u32 %r1, %tid.x;\n"
         "  ld.param.u64 %rd1, [buffer];\n"
         "  cvta.to.global.u64 %rd1, %rd1;\n"
         "  mul.wide.u32 %rd2, %r1, 4;\n"
         "  add.u64 %rd2, %rd1, %rd2;\n" +
         body + "  ret;\n}\n";
}

std::string outside(bool mended) {
  return kernelOf(mended ? "  st.global.u32 [%rd2], %r1;\n" : "  st.global.u32 [%rd2+256], %r1;\n");
}

std::string race(bool mended) {
  return kernelOf(std::string("  mov.u32 %r2, values;\n"
                              "  shl.b32 %r3, %r1, 2;\n"
                              "  add.u32 %r4, %r2, %r3;\n"
                              "  st.shared.u32 [%r4], %r1;\n") +
                  (mended ? "  bar.sync 0;\n" : "") +
                  "  xor.b32 %r3, %r3, 252;\n" // word of thread 63 - tid (other warp)
                  "  add.u32 %r4, %r2, %r3;\n"
                  "  ld.shared.u32 %r5, [%r4];\n"
                  "  st.global.u32 [%rd2], %r5;\n");
}

/// A barrier for a number of threads that is not a multiple of 32; the hardware refuses it. (The
/// tool also knows two halves of a warp at two barriers, but the kernel hangs under it.) The number
/// is read from the buffer of zeros, so that ptxas does not see it.
std::string count(bool mended) {
  return kernelOf("  ld.global.u32 %r3, [%rd1];\n"
                  "  add.u32 %r3, %r3, " +
                  std::string(mended ? "64" : "33") +
                  ";\n"
                  "  bar.sync 1, %r3;\n"
                  "  st.global.u32 [%rd2], %r1;\n");
}

/// Each thread adds 1 to its word. The defect is that main() does not initialise the buffer.
std::string unwritten() {
  return kernelOf("  ld.global.u32 %r3, [%rd2];\n"
                  "  add.u32 %r3, %r3, 1;\n"
                  "  st.global.u32 [%rd2], %r3;\n");
}

/// Copies the buffer through a tensor map to shared memory; each thread writes one word back.
std::string copy(bool mended) {
  std::string wait = "waiting:\n"
                     "  mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0;\n"
                     "  @!%p2 bra waiting;\n";
  std::string read = "  shl.b32 %r4, %r1, 2;\n"
                     "  add.u32 %r4, %r2, %r4;\n"
                     "  ld.shared.u32 %r5, [%r4];\n"
                     "  st.global.u32 [%rd2], %r5;\n";
  return ".version 8.0\n.target sm_90\n.address_size 64\n"
         ".visible .entry planted(.param .align 64 .b8 map[128], .param .u64 buffer) {\n"
         "  .reg .pred %p<4>;\n  .reg .b32 %r<8>;\n  .reg .b64 %rd<4>;\n"
         "  .shared .align 128 .b8 tile[256];\n"
         "  .shared .align 8 .b64 barrier;\n"
         "  mov.u32 %r1, %tid.x;\n"
         "  ld.param.u64 %rd1, [buffer];\n"
         "  cvta.to.global.u64 %rd1, %rd1;\n"
         "  mul.wide.u32 %rd2, %r1, 4;\n"
         "  add.u64 %rd2, %rd1, %rd2;\n"
         "  mov.u32 %r2, tile;\n"
         "  mov.u32 %r3, barrier;\n"
         "  setp.ne.u32 %p1, %r1, 0;\n"
         "  @%p1 bra started;\n"
         "  mbarrier.init.shared.b64 [%r3], 1;\n"
         "  fence.proxy.async;\n"
         "  mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;\n"
         "  mov.b64 %rd3, map;\n"
         "  cvta.param.u64 %rd3, %rd3;\n"
         "  mov.u32 %r6, 0;\n"
         "  cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes\n"
         "    [%r2], [%rd3, {%r6}], [%r3];\n"
         "started:\n"
         "  bar.sync 0;\n" +
         (mended ? wait + read : read + wait) + "  ret;\n}\n";
}

struct alignas(64) TensorMap {
  char bytes[128];
};

/// A tensor map of the buffer: one axis of 64 words of 32 bits, in one box. Numbers as in cuda.h.
bool encodeTensorMap(TensorMap &map, void *buffer) {
  using Encode = int(TensorMap *, int type, uint32_t rank, void *address, const uint64_t *extents,
                     const uint64_t *strides, const uint32_t *box, const uint32_t *elementStrides,
                     int interleave, int swizzle, int promotion, int fill);
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  auto *encode =
      reinterpret_cast<Encode *>(library ? dlsym(library, "cuTensorMapEncodeTiled") : nullptr);
  uint64_t extents[] = {threads}, strides[] = {0};
  uint32_t box[] = {threads}, elementStrides[] = {1};
  constexpr int typeUint32 = 2;
  return encode && encode(&map, typeUint32, 1, buffer, extents, strides, box, elementStrides, 0, 0,
                          0, 0) == 0;
}

/// The kernel's text; "" if there is no such defect.
std::string textOf(const std::string &defect, bool mended) {
  if (defect == "outside")
    return outside(mended);
  if (defect == "race")
    return race(mended);
  if (defect == "count")
    return count(mended);
  if (defect == "unwritten")
    return unwritten();
  return defect == "copy" ? copy(mended) : "";
}

int fail(const std::string &sentence, int exitCode) {
  std::fprintf(stderr, "tesela_planted_defects: %s\n", sentence.c_str());
  return exitCode;
}

} // namespace

int main(int count, char **words) {
  std::string defect = count > 1 ? words[1] : "";
  bool mended = count > 2 && std::strcmp(words[2], "mended") == 0;
  std::string text = textOf(defect, mended);
  if (text.empty())
    return fail("give outside, race, count, copy or unwritten, and \"mended\" for the right kernel",
                2);
  ContextOptions options;
  options.device = "cuda";
  options.diskCache = false;
  Result<Context> context = Context::create(options);
  if (!context)
    return fail(context.error().message(), exitSkipped);
  if (defect == "copy" && context->device().sm < 90)
    return fail(context->device().name + " has no tensor copies: they need sm_90", exitSkipped);
  Result<Buffer> buffer = context->allocate(bufferBytes);
  if (!buffer)
    return fail(buffer.error().message(), 1);
  if (defect != "unwritten" || mended)
    if (Status status = context->fill(*buffer, 0); !status)
      return fail(status.error().message(), 1);
  Result<PtxKernel> kernel = PtxKernel::load(text, "planted");
  if (!kernel)
    return fail(kernel.error().message(), 1);
  void *address = buffer->data();
  TensorMap map;
  std::vector<void *> parameters = {&address};
  if (defect == "copy") {
    if (!encodeTensorMap(map, address))
      return fail("the driver does not encode the tensor map", 1);
    parameters.insert(parameters.begin(), &map);
  }
  if (Status status = kernel->launch(1, threads, parameters); !status)
    return fail(status.error().message(), 1);
  if (Status status = context->synchronize(); !status)
    return fail(status.error().message(), 1);
  return 0;
}
