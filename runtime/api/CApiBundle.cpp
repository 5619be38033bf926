//===- CApiBundle.cpp - tesela/c/bundle.h ----------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/CApi.h"
#include "tesela/Bundle.h"

using namespace tesela;
using namespace tesela::c;

struct tesela_bundle {
  BundleInfo info;
};

namespace {

constexpr const char *bundleMaker = "tesela_bundle_read";

Result<BundleOptions> bundleOptions(const tesela_bundle_options *options) {
  tesela_bundle_options given;
  if (Status status = readSized(options, given, "tesela_bundle_options"); !status)
    return status.error();
  Result<KernelOptions> kernel = kernelOptions(given.kernel);
  if (!kernel)
    return kernel.error();
  if (given.target_count > 0 && !given.targets)
    return noArray("targets", "target_count", given.target_count);
  BundleOptions chosen;
  chosen.kernel = std::move(*kernel);
  for (size_t i = 0; i < given.target_count; ++i) {
    if (!given.targets[i])
      return invalid("target " + std::to_string(i) + " is NULL: pass a name such as \"sm_90\"");
    chosen.targets.push_back(given.targets[i]);
  }
  chosen.name = textOr(given.name);
  chosen.ptx = given.ptx != 0;
  chosen.noLauncher = given.no_launcher != 0;
  return chosen;
}

Status checkPath(const char *path, const char *name) {
  if (path && *path)
    return Status::success();
  return invalid(std::string(name) + " is " + (path ? "empty" : "NULL") +
                 ": pass the bundle's folder");
}

} // namespace

tesela_code tesela_bundle_export(const tesela_bundle_options *options, const char *folder,
                                 tesela_bundle **bundle) {
  return guarded([&]() -> Status {
    if (bundle)
      *bundle = nullptr;
    Result<BundleOptions> chosen = bundleOptions(options);
    if (!chosen)
      return chosen.error();
    if (Status status = checkPath(folder, "folder"); !status)
      return status;
    Result<BundleInfo> written = exportBundle(*chosen, folder);
    if (!written)
      return written.error();
    if (bundle)
      *bundle = new tesela_bundle{std::move(*written)};
    return Status::success();
  });
}

tesela_code tesela_bundle_read(const char *path, tesela_bundle **bundle) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(bundle, "bundle"); !status)
      return status;
    if (Status status = checkPath(path, "path"); !status)
      return status;
    Result<BundleInfo> info = readBundle(path);
    if (!info)
      return info.error();
    *bundle = new tesela_bundle{std::move(*info)};
    return Status::success();
  });
}

void tesela_bundle_destroy(tesela_bundle *bundle) { delete bundle; }

tesela_code tesela_bundle_describe(const tesela_bundle *bundle, tesela_bundle_info *info) {
  return guarded([&]() -> Status {
    if (!bundle)
      return noHandle("bundle", bundleMaker);
    const BundleInfo &from = bundle->info;
    auto known = zeroed<tesela_bundle_info>();
    known.name = from.name.c_str();
    known.version = from.version.c_str();
    known.variant = from.variantName.c_str();
    known.variant_text = from.variantText.c_str();
    known.input_type = tesela_type(from.inputType);
    known.head_dim_qk = from.headDimQk;
    known.head_dim_v = from.headDimV;
    known.target_count = from.targets.size();
    return writeSized(known, info, "tesela_bundle_info");
  });
}

tesela_code tesela_bundle_target_describe(const tesela_bundle *bundle, size_t index,
                                          tesela_bundle_target *target) {
  return guarded([&]() -> Status {
    if (!bundle)
      return noHandle("bundle", bundleMaker);
    if (Status status = checkIndex(index, bundle->info.targets.size(), "targets"); !status)
      return status;
    const BundleTarget &from = bundle->info.targets[index];
    auto known = zeroed<tesela_bundle_target>();
    known.target = from.target.c_str();
    known.architecture = from.architecture.c_str();
    known.file = from.file.c_str();
    known.digest = from.digest.c_str();
    known.bytes = from.bytes;
    known.code_format = from.codeFormat.c_str();
    known.schedule = from.schedule.c_str();
    return writeSized(known, target, "tesela_bundle_target");
  });
}

tesela_code tesela_bundle_load(tesela_context *context, const char *path, tesela_kernel **kernel) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(kernel, "kernel"); !status)
      return status;
    if (!context)
      return noHandle("context", "tesela_context_create");
    if (Status status = checkPath(path, "path"); !status)
      return status;
    Result<Kernel> loaded = loadKernel(context->context, path);
    if (!loaded)
      return loaded.error();
    *kernel = makeKernelHandle(std::move(*loaded), context->context.device());
    return Status::success();
  });
}
