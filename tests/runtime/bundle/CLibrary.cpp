//===- CLibrary.cpp -------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "CLibrary.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <iterator>

namespace tesela {

namespace {

/// The arguments for the C side, equal for every variant. The C code repeats these structures.
struct RawTensor {
  void *data;
  int64_t extents[8], strides[8];
};
struct RawArguments {
  RawTensor tensors[16], parameters[16];
  double scalars[16];
  int64_t extents[5];
  int givesExtent[5];
  float scale;
  int givesScale, givesScalar[16], capturesUnchanged;
  void *workspace;
  size_t workspaceBytes;
};

constexpr const char *adapterStart = R"(
#include "NAME.c"
typedef struct raw_tensor {
  void *data;
  int64_t extents[8], strides[8];
} raw_tensor;
typedef struct raw_arguments {
  raw_tensor tensors[16], parameters[16];
  double scalars[16];
  int64_t extents[5];
  int gives_extent[5];
  float scale;
  int gives_scale, gives_scalar[16], captures_unchanged;
  void *workspace;
  size_t workspace_bytes;
} raw_arguments;
static void convert(NAME_arguments *to, const raw_arguments *from) {
  NAME_set_defaults(to);
  to->captures_unchanged = from->captures_unchanged;
  to->workspace = from->workspace;
  to->workspace_bytes = from->workspace_bytes;
)";

constexpr const char *adapterEnd = R"(}
int adapter_create(int device, void **kernel, char *message) {
  NAME_error error;
  NAME_kernel *made;
  int code = NAME_create(device, &made, &error);
  *kernel = made;
  strcpy(message, error.message);
  return code;
}
void adapter_destroy(void *kernel) { NAME_destroy(kernel); }
const char *adapter_target(const void *kernel) { return NAME_target(kernel); }
int adapter_workspace(const void *kernel, const raw_arguments *from, size_t *bytes, char *message) {
  NAME_error error;
  NAME_arguments arguments;
  int code;
  convert(&arguments, from);
  code = NAME_workspace_bytes(kernel, &arguments, bytes, &error);
  strcpy(message, error.message);
  return code;
}
int adapter_launch(const void *kernel, const raw_arguments *from, void *stream, char *message) {
  NAME_error error;
  NAME_arguments arguments;
  int code;
  convert(&arguments, from);
  code = NAME_launch(kernel, &arguments, stream, &error);
  strcpy(message, error.message);
  return code;
}
void *adapter_allocate(const void *kernel, size_t bytes) {
  void *address;
  return NAME_allocate(kernel, bytes, &address, NULL) == NAME_ok ? address : NULL;
}
void adapter_release(const void *kernel, void *address) { NAME_release(kernel, address); }
)";

std::string withName(std::string text, const std::string &name) {
  for (size_t at = text.find("NAME"); at != text.npos; at = text.find("NAME", at + name.size()))
    text.replace(at, 4, name);
  return text;
}

/// C statements that take a tensor with strides.
std::string takeText(const std::string &member, const std::string &from) {
  return fmt::format("  to->{0}.data = from->{1}.data;\n"
                     "  memcpy(to->{0}.extents, from->{1}.extents, sizeof to->{0}.extents);\n"
                     "  memcpy(to->{0}.strides, from->{1}.strides, sizeof to->{0}.strides);\n",
                     member, from);
}

std::string adapterText(const std::string &name, const std::string &header,
                        const nlohmann::json &tensors, const std::vector<std::string> &extents,
                        const std::vector<VariantParameter> &parameters) {
  std::string text = withName(adapterStart, name);
  if (header.find("  float scale; ") != header.npos)
    text += "  if (from->gives_scale)\n    to->scale = from->scale;\n";
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::string member = tensors[i]["name"], from = fmt::format("tensors[{}]", i);
    if (member == "do") // a keyword of C
      member = "do_";
    text += tensors[i]["contiguous"] ? fmt::format("  to->{} = from->{}.data;\n", member, from)
                                     : takeText(member, from);
  }
  for (size_t i = 0; i < extents.size(); ++i)
    text += fmt::format("  if (from->gives_extent[{0}])\n    to->{1} = from->extents[{0}];\n", i,
                        extents[i]);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const VariantParameter &each = parameters[i];
    if (each.isCapture)
      text += takeText(each.name, fmt::format("parameters[{}]", i));
    else
      text +=
          fmt::format("  if (from->gives_scalar[{1}])\n    to->{0} = ({2})from->scalars[{1}];\n",
                      each.name, i, each.type == ElementType::i32 ? "int32_t" : "float");
  }
  return text + withName(adapterEnd, name);
}

RawTensor raw(const Tensor &tensor) {
  RawTensor all = {tensor.data, {}, {}};
  std::copy(tensor.extents.begin(), tensor.extents.end(), all.extents);
  std::copy(tensor.strides.begin(), tensor.strides.end(), all.strides);
  return all;
}

Tensor tensorOf(const LaunchArguments &arguments, const std::string &name) {
  const std::pair<const char *, const Tensor *> members[] = {{"q", &arguments.q},
                                                             {"k", &arguments.k},
                                                             {"v", &arguments.v},
                                                             {"o", &arguments.o},
                                                             {"lse", &arguments.lse}};
  for (auto [member, tensor] : members)
    if (name == member)
      return *tensor;
  for (const NamedTensor &each : arguments.tensors)
    if (each.name == name)
      return each.tensor;
  return {};
}

RawArguments raw(const LaunchArguments &arguments, const std::vector<std::string> &tensors,
                 const std::vector<std::string> &extents,
                 const std::vector<VariantParameter> &parameters) {
  RawArguments all = {};
  for (size_t i = 0; i < tensors.size(); ++i)
    all.tensors[i] = raw(tensorOf(arguments, tensors[i]));
  for (size_t i = 0; i < extents.size(); ++i)
    for (const NamedExtent &each : arguments.extents)
      if (each.name == extents[i]) {
        all.extents[i] = each.value;
        all.givesExtent[i] = 1;
      }
  all.givesScale = arguments.scale.has_value();
  all.scale = float(arguments.scale.value_or(0));
  all.capturesUnchanged = arguments.capturesUnchanged;
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (const CaptureArgument &capture : arguments.captures)
      if (capture.name == parameters[i].name)
        all.parameters[i] = raw(capture.tensor);
    for (const ScalarArgument &scalar : arguments.scalars)
      if (scalar.name == parameters[i].name) {
        all.scalars[i] = scalar.value;
        all.givesScalar[i] = 1;
      }
  }
  return all;
}

} // namespace

struct CLibrary::Functions {
  int (*create)(int, void **, char *);
  void (*destroy)(void *);
  const char *(*target)(const void *);
  int (*workspace)(const void *, const RawArguments *, size_t *, char *);
  int (*launch)(const void *, const RawArguments *, void *, char *);
  void *(*allocate)(const void *, size_t);
  void (*release)(const void *, void *);
};

std::unique_ptr<CLibrary> CLibrary::build(const std::string &folder, const nlohmann::json &manifest,
                                          const std::vector<VariantParameter> &parameters) {
  std::string name = manifest["name"];
  std::ifstream header(folder + "/" + name + ".h");
  const std::string text(std::istreambuf_iterator<char>(header), {});
  std::unique_ptr<CLibrary> opened(new CLibrary);
  for (const nlohmann::json &tensor : manifest["tensors"])
    opened->tensors.push_back(tensor["name"]);
  for (const char *extent : {"B", "H", "Hkv", "Sq", "Sk"})
    if (text.find(fmt::format("  int64_t {};", extent)) != text.npos)
      opened->extents_.push_back(extent);
  std::string adapter = folder + "/adapter.c", library = folder + "/adapter.so";
  std::ofstream(adapter) << adapterText(name, text, manifest["tensors"], opened->extents_,
                                        parameters);
  // The warnings that docs/export.md promises to pass, with the optimizer, which finds more of
  // them.
  std::string command = "cc -std=c99 -O2 -Wall -Wextra -Werror -pedantic -fPIC -shared -I " +
                        folder + " " + adapter + " -o " + library + " -ldl";
  if (std::system(command.c_str()) != 0) {
    ADD_FAILURE() << command;
    return nullptr;
  }
  opened->parameters = parameters;
  opened->functions = std::make_unique<Functions>();
  opened->handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!opened->handle) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  auto find = [&](auto &function, const char *symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        dlsym(opened->handle, symbol));
  };
  find(opened->functions->create, "adapter_create");
  find(opened->functions->destroy, "adapter_destroy");
  find(opened->functions->target, "adapter_target");
  find(opened->functions->workspace, "adapter_workspace");
  find(opened->functions->launch, "adapter_launch");
  find(opened->functions->allocate, "adapter_allocate");
  find(opened->functions->release, "adapter_release");
  return opened;
}

CLibrary::~CLibrary() {
  destroy();
  if (handle)
    dlclose(handle);
}

CLibrary::Outcome CLibrary::create(int device) {
  destroy();
  char message[1024];
  int code = functions->create(device, &kernel, message);
  return {code, message};
}

void CLibrary::destroy() {
  if (kernel)
    functions->destroy(kernel);
  kernel = nullptr;
}

std::string CLibrary::target() const { return functions->target(kernel); }

CLibrary::Outcome CLibrary::workspaceBytes(const LaunchArguments &arguments, size_t &bytes) {
  RawArguments all = raw(arguments, tensors, extents_, parameters);
  char message[1024];
  int code = functions->workspace(kernel, &all, &bytes, message);
  return {code, message};
}

CLibrary::Outcome CLibrary::launch(const LaunchArguments &arguments, void *stream,
                                   std::pair<void *, size_t> workspace) {
  RawArguments all = raw(arguments, tensors, extents_, parameters);
  all.workspace = workspace.first;
  all.workspaceBytes = workspace.second;
  char message[1024];
  int code = functions->launch(kernel, &all, stream, message);
  return {code, message};
}

void *CLibrary::allocate(size_t bytes) { return functions->allocate(kernel, bytes); }
void CLibrary::release(void *address) { functions->release(kernel, address); }

} // namespace tesela
