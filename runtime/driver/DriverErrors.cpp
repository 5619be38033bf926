//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The remedy for each CUresult. Source: the CUDA Driver API reference, CUresult (CUDA 13.0). A test
// compares the list with cuda.h.
//
//===----------------------------------------------------------------------===//
#include "driver/DriverApi.h"

#include <algorithm>
#include <iterator>

namespace tesela::cuda {

static constexpr const char *profiler = "a profiler prevents this call: run without it";
static constexpr const char *contextGone =
    "the device's primary context was reset or destroyed: "
    "destroy its contexts and kernels, and create them again";
static constexpr const char *reportCall = "please report it with the call's arguments";
static constexpr const char *reportVariant = "please report it with the variant and its schedule";
static constexpr const char *library =
    "a library that the driver needs does not load: reinstall NVIDIA's driver";
static constexpr const char *smallerBlocks =
    "choose a schedule with fewer threads or smaller blocks";
static constexpr const char *reportLaunch =
    "the context is lost, start the process again; please report it with the launch's arguments";
static constexpr const char *mps =
    "the MPS server failed: restart nvidia-cuda-mps-control, or unset CUDA_MPS_PIPE_DIRECTORY";
static constexpr const char *mpsFull =
    "the MPS server has too many clients: end some, or run without it";
static constexpr const char *captureJoins =
    "the streams of a capture into a graph are joined wrongly: see the CUDA programming guide on "
    "stream capture";

/// Sorted by number.
static constexpr DriverError errors[] = {
    {1, Code::driver,
     "an argument has a value that the driver rejects: please report it with the launch's "
     "arguments"},
    {2, Code::outOfMemory, "free device memory or make the problem smaller"},
    {3, Code::driver,
     "CUDA does not survive fork(): start worker processes by spawn, or use Tesela only in "
     "them"},
    {4, Code::driver, "the process is ending: destroy contexts and kernels before it ends"},
    {5, Code::driver, profiler},
    {6, Code::driver, profiler},
    {7, Code::driver, profiler},
    {8, Code::driver, profiler},
    {34, Code::unsupported,
     "the libcuda.so.1 that was found is a stub for linking: remove its folder from "
     "LD_LIBRARY_PATH, so that the driver's own library is found"},
    {36, Code::unsupported, "update NVIDIA's driver"},
    {46, Code::driver,
     "another process has the GPU to itself, or its compute mode forbids it: see nvidia-smi -q -d "
     "COMPUTE, or choose another device"},
    {100, Code::notFound,
     "no GPU is visible: see CUDA_VISIBLE_DEVICES and nvidia-smi, or use the device 'host'"},
    {101, Code::notFound, "there is no such GPU: see CUDA_VISIBLE_DEVICES and nvidia-smi"},
    {102, Code::driver, "the GPU needs a licence (vGPU): see nvidia-smi -q"},
    {200, Code::inputOutput,
     "the code that was loaded is damaged or of another kind: empty the cache's folder; if it "
     "stays, please report it"},
    {201, Code::driver, contextGone},
    {202, Code::driver, contextGone},
    {205, Code::driver, reportCall},
    {206, Code::driver, reportCall},
    {207, Code::driver, reportCall},
    {208, Code::driver, reportCall},
    {209, Code::unsupported, "the kernel was compiled for another GPU: compile it for this one"},
    {210, Code::driver, reportCall},
    {211, Code::driver, reportCall},
    {212, Code::driver, reportCall},
    {213, Code::driver, reportCall},
    {214, Code::driver,
     "the GPU's memory has an error that cannot be corrected: see nvidia-smi -q -d ECC, and "
     "restart the machine"},
    {215, Code::driver, reportCall},
    {216, Code::driver, "another process or thread has the context: wait until it ends"},
    {217, Code::driver, reportCall},
    {218, Code::defect, reportVariant},
    {219, Code::driver, reportCall},
    {220, Code::driver,
     "a link between GPUs has an error that cannot be corrected: see nvidia-smi nvlink -e, and "
     "restart the machine"},
    {221, Code::notFound,
     "install libnvidia-ptxjitcompiler of the driver's version, or put a ptxas of CUDA 12.0 or "
     "later on PATH"},
    {222, Code::unsupported,
     "the driver is older than the PTX: update it, or put a ptxas of CUDA 13.0 on PATH"},
    {223, Code::unsupported,
     "unset CUDA_DISABLE_PTX_JIT, or put a ptxas of CUDA 12.0 or later on PATH"},
    {224, Code::driver, reportCall},
    {225, Code::driver, reportCall},
    {226, Code::driver,
     "an error of the GPU's memory was contained, but this process is lost: start it again"},
    {300, Code::defect, reportVariant},
    {301, Code::notFound, "a file that the driver needs does not exist: reinstall NVIDIA's driver"},
    {302, Code::driver, library},
    {303, Code::driver, library},
    {304, Code::driver,
     "the operating system refused a call of the driver: see the kernel's log (dmesg) and the "
     "limits of the process (ulimit -a)"},
    {400, Code::invalidArgument,
     "the stream must belong to the device's primary context, and not be destroyed"},
    {401, Code::driver, reportCall},
    {402, Code::driver, reportCall},
    {500, Code::defect,
     "the code lacks a kernel that its plan names: empty the cache's folder; if it stays, please "
     "report it"},
    {600, Code::driver, "wait for the stream before asking"},
    {700, Code::driver,
     "a tensor's address, extents or strides reach outside its memory; the context is lost, start "
     "the process again"},
    {701, Code::unsupported, smallerBlocks},
    {702, Code::driver,
     "a launch exceeded the time limit of a GPU with a display: split the problem, or use another "
     "GPU; the context is lost, start the process again"},
    {703, Code::driver, reportCall},
    {704, Code::driver, reportCall},
    {705, Code::driver, reportCall},
    {708, Code::driver,
     "the primary context was made by others with other flags: please report it with the call's "
     "arguments"},
    {709, Code::driver, contextGone},
    {710, Code::driver,
     "a kernel's assertion failed; the context is lost, start the process again"},
    {711, Code::driver, reportCall},
    {712, Code::driver, reportCall},
    {713, Code::driver, reportCall},
    {714, Code::driver, reportLaunch},
    {715, Code::driver, reportLaunch},
    {716, Code::driver, reportLaunch},
    {717, Code::driver, reportLaunch},
    {718, Code::driver, reportLaunch},
    {719, Code::driver,
     "a kernel failed, of Tesela or of others before it: run under compute-sanitizer to see which; "
     "the context is lost, start the process again"},
    {720, Code::unsupported, smallerBlocks},
    {721, Code::driver, reportLaunch},
    {800, Code::driver,
     "the process may not do this: ask the machine's administrator (containers need the GPU's "
     "devices and driver capabilities 'compute')"},
    {801, Code::unsupported,
     "this GPU or driver lacks the feature: update the driver, or use another device"},
    {802, Code::driver,
     "the system is not ready: on machines with NVSwitch start nvidia-fabricmanager, then try "
     "again"},
    {803, Code::driver, "the kernel module and libcuda differ in version: restart the machine"},
    {804, Code::unsupported,
     "CUDA's compatibility package does not support this GPU: remove it from LD_LIBRARY_PATH, and "
     "update the driver itself"},
    {805, Code::driver, mps},
    {806, Code::driver, mps},
    {807, Code::driver, mps},
    {808, Code::driver, mpsFull},
    {809, Code::driver, mpsFull},
    {810, Code::driver, mps},
    {811, Code::driver, reportCall},
    {812, Code::driver, reportCall},
    {900, Code::driver,
     "a stream is being captured into a graph, which does not allow this: do it before the capture "
     "or after it"},
    {901, Code::driver,
     "an earlier call broke the capture into a graph: end it, and look which call failed first"},
    {902, Code::driver, captureJoins},
    {903, Code::driver, captureJoins},
    {904, Code::driver, captureJoins},
    {905, Code::driver, captureJoins},
    {906, Code::driver,
     "the default stream must not be used while a blocking stream is captured: launch on a stream "
     "made with CU_STREAM_NON_BLOCKING, or after the capture"},
    {907, Code::driver, "an event of a capture was used outside of it: use another one"},
    {908, Code::driver,
     "a capture was ended on another thread than it was begun: end it there, or begin it in the "
     "relaxed mode"},
    {909, Code::driver,
     "the GPU did not answer in time: see nvidia-smi and the kernel's log (dmesg)"},
    {910, Code::driver, "the graph differs too much to be updated: instantiate it again"},
    {911, Code::driver, "another device that shares the work failed: see the kernel's log (dmesg)"},
    {912, Code::unsupported, "choose another schedule"},
    {913, Code::driver, "unset CUDA_MODULE_LOADING, or launch once outside of the capture"},
    {914, Code::driver, reportCall},
    {915, Code::driver, reportCall},
    {916, Code::driver, "the GPU's keys are being rotated: try again"},
    {999, Code::driver,
     "see nvidia-smi and the kernel's log (dmesg); after a suspend, reload the module nvidia_uvm, "
     "or restart the machine"},
};

const DriverError &driverError(int result) {
  static constexpr DriverError unknown = {
      0, Code::driver,
      "see NVIDIA's description of this error, nvidia-smi and the kernel's log (dmesg)"};
  const DriverError *known = std::ranges::lower_bound(errors, result, {}, &DriverError::result);
  return known != std::end(errors) && known->result == result ? *known : unknown;
}

} // namespace tesela::cuda
