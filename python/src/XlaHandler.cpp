//===- XlaHandler.cpp - Attention as an operation of XLA --------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// XLA calls a handler on any thread, without the GIL, with buffers and attributes. The attributes
// describe the whole call, with the variant as its text. So an exported program, or one from JAX's
// cache on disk, runs in any process that has imported tesela.jax. Kernels are cached by these
// attributes; Python is asked only for a new one.
//
//   arguments   q, k, v, then the values of parameters; a value without axes is a scalar
//   results     o, and lse if it is requested
//   attributes  algorithm  "forward" (the default), or "backward": the arguments are q, k, v, o,
//                          lse, do and the values, and the results are dq, dk and dv
//               has_dlse   i32: whether dlse follows do among the arguments; default 0
//               text       the text of the variant
//               constants  values of its const parameters, "name=value,..."; as Python wrote them
//               operands   the names of the parameters among the arguments, "name,..."
//               names      the names of the parameters that are plain numbers, "name,..."
//               numbers    the values of these, f64
//               scale      f64; 0: 1/sqrt(head_dim_qk)
//               is_bshd    i32: whether all tensors but lse, dlse are [batch, length, heads, D]
//
//===----------------------------------------------------------------------===//
#include "Native.h"
#include "XlaAbi.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace tesela::python {

namespace {

constexpr int hostDevice = -1; // as in tesela._contexts

xla::ErrorCode xlaCode(tesela_code code) {
  switch (code) {
  case TESELA_INVALID_ARGUMENT:
  case TESELA_INVALID_VARIANT:
    return xla::ErrorCode::InvalidArgument;
  case TESELA_UNSUPPORTED:
    return xla::ErrorCode::Unimplemented;
  case TESELA_NOT_FOUND:
    return xla::ErrorCode::NotFound;
  case TESELA_OUT_OF_MEMORY:
    return xla::ErrorCode::ResourceExhausted;
  case TESELA_DRIVER:
    return xla::ErrorCode::Unavailable;
  case TESELA_CANCELLED:
    return xla::ErrorCode::Cancelled;
  case TESELA_DEADLINE_EXCEEDED:
    return xla::ErrorCode::DeadlineExceeded;
  default:
    return xla::ErrorCode::Internal;
  }
}

xla::Error *fail(const xla::Api *api, tesela_code code, const char *sentence) {
  xla::ErrorCreate error = {sizeof error, nullptr, sentence, xlaCode(code)};
  return api->createError(&error);
}

xla::Error *failWithLast(const xla::Api *api) {
  return fail(api, tesela_last_error_code(), tesela_last_error());
}

/// XLA asks for a handler's version and traits before it registers the handler. False: the frame is
/// a call.
bool answersMetadata(xla::CallFrame &frame, uint32_t traits) {
  if (!frame.extensions || frame.extensions->type != xla::metadataExtension)
    return false;
  auto *extension = reinterpret_cast<xla::MetadataExtension *>(frame.extensions);
  extension->metadata->version.major = xla::majorVersion;
  extension->metadata->version.minor = xla::minorVersion;
  extension->metadata->traits = traits;
  return true;
}

struct Attributes {
  std::string_view algorithm = "forward", text, constants, operands, names;
  const double *numbers = nullptr;
  size_t numberCount = 0;
  double scale = 0;
  bool isBshd = false, hasDlse = false;

  void read(const xla::Attributes &given) {
    for (int64_t i = 0; i < given.count; ++i) {
      std::string_view name(given.names[i]->data, given.names[i]->length);
      switch (given.kinds[i]) {
      case xla::AttributeKind::String:
        readText(name, *static_cast<const xla::ByteSpan *>(given.items[i]));
        break;
      case xla::AttributeKind::Scalar:
        readScalar(name, *static_cast<const xla::Scalar *>(given.items[i]));
        break;
      case xla::AttributeKind::Array:
        if (name == "numbers") {
          auto *array = static_cast<const xla::Array *>(given.items[i]);
          numbers = static_cast<const double *>(array->data);
          numberCount = array->count;
        }
        break;
      case xla::AttributeKind::Dictionary:
        break;
      }
    }
  }

private:
  void readText(std::string_view name, const xla::ByteSpan &value) {
    std::string_view content(value.data, value.length);
    if (name == "algorithm")
      algorithm = content;
    else if (name == "text")
      text = content;
    else if (name == "constants")
      constants = content;
    else if (name == "operands")
      operands = content;
    else if (name == "names")
      names = content;
  }
  void readScalar(std::string_view name, const xla::Scalar &value) {
    if (name == "scale")
      scale = *static_cast<const double *>(value.value);
    else if (name == "is_bshd")
      isBshd = *static_cast<const int32_t *>(value.value) != 0;
    else if (name == "has_dlse")
      hasDlse = *static_cast<const int32_t *>(value.value) != 0;
  }
};

bool readType(xla::DataType given, tesela_type &type) {
  switch (given) {
  case xla::DataType::F32:
    type = TESELA_F32;
    return true;
  case xla::DataType::F16:
    type = TESELA_F16;
    return true;
  case xla::DataType::BF16:
    type = TESELA_BF16;
    return true;
  case xla::DataType::S32:
    type = TESELA_I32;
    return true;
  case xla::DataType::S64:
    type = TESELA_I64;
    return true;
  case xla::DataType::Pred:
  case xla::DataType::U8:
    type = TESELA_BOOL;
    return true;
  default:
    return false;
  }
}

/// The value of a scalar in host memory.
double readNumber(const xla::Buffer &buffer) {
  switch (buffer.type) {
  case xla::DataType::F32:
    return double(*static_cast<const float *>(buffer.data));
  case xla::DataType::S32:
    return *static_cast<const int32_t *>(buffer.data);
  default:
    return *static_cast<const uint8_t *>(buffer.data) != 0;
  }
}

std::vector<std::string> split(std::string_view names) {
  std::vector<std::string> parts;
  while (!names.empty()) {
    size_t end = names.find(',');
    parts.emplace_back(names.substr(0, end));
    names.remove_prefix(end == std::string_view::npos ? names.size() : end + 1);
  }
  return parts;
}

/// Shared by calls with the same attributes, types and lengths. It is never freed, because XLA's
/// programs may call it at any time.
struct Entry {
  const tesela_kernel *kernel;
  std::vector<std::string> operands, names;
};

PyObject *finder; ///< tesela.jax._finder.find

class Registry {
public:
  const Entry *find(const std::string &key) {
    std::shared_lock<std::shared_mutex> lock(mutex);
    auto found = entries.find(key);
    return found == entries.end() ? nullptr : found->second;
  }
  const Entry *add(std::string key, Entry &&entry) {
    auto *made = new Entry(std::move(entry));
    std::unique_lock<std::shared_mutex> lock(mutex);
    auto [place, isNew] = entries.try_emplace(std::move(key), made);
    if (!isNew) // another thread was faster
      delete made;
    return place->second;
  }

private:
  std::shared_mutex mutex;
  std::unordered_map<std::string, const Entry *> entries;
};

/// Never destroyed, because XLA's threads may run while the process ends.
Registry &registry() {
  static auto *made = new Registry();
  return *made;
}

/// Counts the calls that are in Python. Once the interpreter ends, a thread that asks for the GIL
/// is ended amid its work, which aborts the process. So the end waits for these calls, and no other
/// call enters Python after it.
class Visits {
public:
  /// Returns false if Python has ended.
  bool begin() {
    std::lock_guard<std::mutex> lock(mutex);
    count += !isOver;
    return !isOver;
  }
  void end() {
    std::lock_guard<std::mutex> lock(mutex);
    if (--count == 0)
      isEmpty.notify_all();
  }
  void close() {
    std::unique_lock<std::mutex> lock(mutex);
    isOver = true;
    isEmpty.wait(lock, [&] { return count == 0; });
  }

private:
  std::mutex mutex;
  std::condition_variable isEmpty;
  int count = 0;
  bool isOver = false;
};

/// Never destroyed, like the registry.
Visits &visits() {
  static auto *made = new Visits();
  return *made;
}

class WithGil {
public:
  WithGil() : state(PyGILState_Ensure()) {}
  WithGil(const WithGil &) = delete;
  WithGil &operator=(const WithGil &) = delete;
  ~WithGil() { PyGILState_Release(state); }

private:
  PyGILState_STATE state;
};

/// Converts Python's exception to an error of XLA and clears it.
xla::Error *failWithPython(const xla::Api *api) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Owned ofType(type), ofValue(value), ofTrace(trace);
  Owned text(value ? PyObject_Str(value) : nullptr);
  const char *sentence = text ? PyUnicode_AsUTF8AndSize(text.get(), nullptr) : nullptr;
  PyErr_Clear();
  return fail(api, errorCode(type), sentence ? sentence : "Python failed without a sentence");
}

/// One call by XLA.
class Call {
public:
  Call(xla::CallFrame &frame, bool isHost) : frame(frame), api(frame.api), isHost(isHost) {}

  xla::Error *run() {
    attributes.read(frame.attributes);
    if (xla::Error *error = readDevice())
      return error;
    if (xla::Error *error = readTensors())
      return error;
    const Entry *entry;
    if (xla::Error *error = findKernel(entry))
      return error;
    readParameters(*entry);
    return launch(entry->kernel);
  }

private:
  xla::CallFrame &frame;
  const xla::Api *api;
  bool isHost;
  Attributes attributes;
  int32_t device = hostDevice;
  void *stream = nullptr;
  tesela_tensor_arguments given = sized<tesela_tensor_arguments>();
  std::vector<tesela_tensor> tensors; ///< the arguments, then the results
  std::vector<tesela_named_tensor> named;
  std::vector<tesela_parameter> parameters;

  const xla::Buffer &argument(size_t index) const {
    return *static_cast<const xla::Buffer *>(frame.arguments.items[index]);
  }
  size_t argumentCount() const { return size_t(frame.arguments.count); }
  bool isBackward() const { return attributes.algorithm == "backward"; }
  /// The index of the first parameter's value among the arguments.
  size_t operandsBegin() const { return isBackward() ? 6 + attributes.hasDlse : 3; }

  xla::Error *readDevice() {
    if (isHost)
      return nullptr;
    xla::StreamGet ofStream = {sizeof ofStream, nullptr, frame.context, nullptr};
    if (xla::Error *error = api->getStream(&ofStream))
      return error;
    xla::DeviceOrdinalGet ofDevice = {sizeof ofDevice, nullptr, frame.context, 0};
    if (xla::Error *error = api->getDeviceOrdinal(&ofDevice))
      return error;
    stream = ofStream.stream;
    device = ofDevice.ordinal;
    return nullptr;
  }

  xla::Error *readTensor(const xla::Buffer &buffer) {
    tesela_tensor &tensor = tensors.emplace_back(sized<tesela_tensor>());
    tesela_type type;
    if (!readType(buffer.type, type))
      return fail(api, TESELA_UNSUPPORTED,
                  "an array's elements are of a type that Tesela does not have: it has float32, "
                  "float16, bfloat16, int32, int64 and bool");
    // A kernel on a GPU reads a scalar argument as a captured tensor of one element.
    const int64_t one = 1;
    int rank = buffer.rank ? int(buffer.rank) : 1;
    const int64_t *extents = buffer.rank ? buffer.extents : &one;
    if (tesela_tensor_contiguous(buffer.data, type, rank, extents, &tensor) != TESELA_OK)
      return failWithLast(api);
    tensor.memory = isHost ? TESELA_MEMORY_HOST : TESELA_MEMORY_CUDA;
    tensor.device_index = isHost ? 0 : device;
    return nullptr;
  }

  xla::Error *readTensors() {
    size_t results = size_t(frame.results.count);
    bool fits = isBackward() ? results == 3 : results == 1 || results == 2;
    if (argumentCount() < operandsBegin() || !fits)
      return fail(api, TESELA_INVALID_ARGUMENT,
                  "tesela_attention is called with other arrays than tesela.jax calls it with");
    tensors.reserve(argumentCount() + results);
    for (size_t i = 0; i < argumentCount(); ++i)
      if (xla::Error *error = readTensor(argument(i)))
        return error;
    for (size_t i = 0; i < results; ++i)
      if (xla::Error *error = readTensor(*static_cast<xla::Buffer *>(frame.results.items[i])))
        return error;
    tesela_tensor *result = &tensors[argumentCount()];
    tesela_tensor &q = tensors[0], &k = tensors[1], &v = tensors[2];
    if (q.rank != 4 || k.rank != 4 || v.rank != 4)
      return fail(api, TESELA_INVALID_ARGUMENT, "q, k and v must have four axes");
    for (tesela_tensor *shared : {&k, &v})
      if (shared->extents[0] == 1) { // broadcast over all batches
        shared->extents[0] = q.extents[0];
        shared->strides[0] = 0;
      }
    given.q = &q;
    given.k = &k;
    given.v = &v;
    given.scale = attributes.scale;
    if (isBackward())
      takeBackward(result);
    else
      takeForward(result, results);
    if (attributes.isBshd)
      for (tesela_tensor &tensor : tensors)
        if (&tensor < &tensors[operandsBegin()] || &tensor >= result)
          swapLengthAndHeads(tensor); // all but lse and dlse, which have three axes
    return nullptr;
  }

  void takeForward(tesela_tensor *result, size_t results) {
    given.o = &result[0];
    given.lse = results == 2 ? &result[1] : nullptr;
  }
  void takeBackward(tesela_tensor *result) {
    given.o = &tensors[3];
    given.lse = &tensors[4];
    named = {{"do", &tensors[5]}, {"dq", &result[0]}, {"dk", &result[1]}, {"dv", &result[2]}};
    if (attributes.hasDlse)
      named.push_back({"dlse", &tensors[6]});
    given.tensors = named.data();
    given.tensor_count = named.size();
  }

  int64_t queries() const { return tensors[0].extents[2]; }
  int64_t keys() const { return tensors[1].extents[2]; }
  int64_t headDimQk() const { return tensors[0].extents[3]; }
  int64_t headDimV() const { return tensors[2].extents[3]; }

  /// Whether the argument is a scalar that the kernel must read itself.
  bool isLifted(size_t index) const { return !isHost && argument(index).rank == 0; }

  /// The key: everything that the kernel depends on.
  std::string key() const {
    const int64_t numbers[] = {
        device, tensors[0].type, headDimQk(), headDimV(), bucketOf(queries(), keys()),
    };
    std::string key;
    key.reserve(sizeof numbers + attributes.text.size() + attributes.constants.size() +
                attributes.operands.size() + attributes.names.size() + attributes.algorithm.size() +
                argumentCount() + 5);
    key.append(reinterpret_cast<const char *>(numbers), sizeof numbers);
    for (size_t i = operandsBegin(); i < argumentCount(); ++i)
      key.push_back(isLifted(i) ? 'l' : 'c');
    for (std::string_view text : {attributes.algorithm, attributes.operands, attributes.names,
                                  attributes.constants, attributes.text})
      key.append(1, '\0').append(text);
    return key;
  }

  xla::Error *findKernel(const Entry *&entry) {
    std::string name = key();
    entry = registry().find(name);
    return entry ? nullptr : makeEntry(std::move(name), entry);
  }

  /// Gets the kernel from Python, which compiles it if necessary.
  xla::Error *makeEntry(std::string name, const Entry *&entry) {
    Entry made = {nullptr, split(attributes.operands), split(attributes.names)};
    if (made.operands.size() + operandsBegin() != argumentCount() ||
        made.names.size() != attributes.numberCount)
      return fail(api, TESELA_INVALID_ARGUMENT,
                  "tesela_attention has other parameters than tesela.jax calls it with");
    std::string lifted;
    for (size_t i = 0; i < made.operands.size(); ++i)
      if (isLifted(i + operandsBegin()))
        lifted.append(lifted.empty() ? "" : ",").append(made.operands[i]);
    auto hasProbability = [](const std::vector<std::string> &names) {
      return std::find(names.begin(), names.end(), "dropout.p") != names.end();
    };
    bool drops = hasProbability(made.names) || hasProbability(made.operands);
    if (!visits().begin())
      return fail(api, TESELA_CANCELLED,
                  "Python is ending, and the call's kernel is not made yet: make the call before");
    struct Visit {
      ~Visit() { visits().end(); }
    } visit;
    WithGil gil;
    Owned kernel(PyObject_CallFunction(
        finder, "s#s#s#iLLiLLs#O", attributes.text.data(), Py_ssize_t(attributes.text.size()),
        attributes.constants.data(), Py_ssize_t(attributes.constants.size()), lifted.data(),
        Py_ssize_t(lifted.size()), int(tensors[0].type), static_cast<long long>(headDimQk()),
        static_cast<long long>(headDimV()), int(device), static_cast<long long>(queries()),
        static_cast<long long>(keys()), attributes.algorithm.data(),
        Py_ssize_t(attributes.algorithm.size()), drops ? Py_True : Py_False));
    made.kernel =
        kernel ? static_cast<const tesela_kernel *>(PyLong_AsVoidPtr(kernel.get())) : nullptr;
    if (!made.kernel)
      return failWithPython(api);
    entry = registry().add(std::move(name), std::move(made));
    return nullptr;
  }

  void readParameters(const Entry &entry) {
    parameters.reserve(entry.operands.size() + entry.names.size());
    auto add = [&](const std::string &name) -> tesela_parameter & {
      tesela_parameter &parameter = parameters.emplace_back();
      parameter.name = name.c_str();
      return parameter;
    };
    for (size_t i = 0; i < entry.operands.size(); ++i) {
      const xla::Buffer &buffer = argument(operandsBegin() + i);
      tesela_parameter &parameter = add(entry.operands[i]);
      if (buffer.rank == 0 && isHost)
        parameter.scalar = readNumber(buffer);
      else
        parameter.tensor = &tensors[operandsBegin() + i];
    }
    for (size_t i = 0; i < entry.names.size(); ++i)
      add(entry.names[i]).scalar = attributes.numbers[i];
    given.parameters = parameters.data();
    given.parameter_count = parameters.size();
  }

  xla::Error *launch(const tesela_kernel *kernel) {
    xla::MemoryFree memory = {sizeof memory, nullptr, frame.context, 0, nullptr};
    if (!isHost && (isBackward() || argumentCount() > operandsBegin()))
      if (xla::Error *error = lendWorkspace(kernel, memory))
        return error;
    xla::Error *error =
        tesela_launch_tensors(kernel, &given, stream) == TESELA_OK ? nullptr : failWithLast(api);
    if (!memory.data)
      return error;
    // XLA's allocator reuses the memory only for later work on the stream.
    xla::Error *whileFreeing = api->free(&memory);
    if (!error || !whileFreeing)
      return error ? error : whileFreeing;
    xla::ErrorDestroy second = {sizeof second, nullptr, whileFreeing};
    api->destroyError(&second);
    return error;
  }

  /// Gradients, and masks that read captured tensors, need memory. It comes from XLA's allocator.
  /// In a capture that would reuse the memory before the graph runs, so there the graph owns its
  /// memory.
  xla::Error *lendWorkspace(const tesela_kernel *kernel, xla::MemoryFree &memory) {
    size_t bytes;
    if (tesela_kernel_workspace_bytes_of_tensors(kernel, &given, &bytes) != TESELA_OK)
      return failWithLast(api);
    int isCaptured = 0;
    if (bytes > 0 && tesela_kernel_is_captured(kernel, stream, &isCaptured) != TESELA_OK)
      return failWithLast(api);
    if (bytes == 0 || isCaptured)
      return nullptr;
    constexpr size_t multiple = 256;    // the library's alignment
    constexpr size_t xlaAlignment = 16; // the largest alignment that XLA guarantees
    memory.bytes = bytes + multiple;
    xla::MemoryAllocate request = {sizeof request, nullptr,      frame.context,
                                   memory.bytes,   xlaAlignment, nullptr};
    if (xla::Error *error = api->allocate(&request))
      return error;
    memory.data = request.data;
    auto address = reinterpret_cast<uintptr_t>(request.data);
    given.workspace = reinterpret_cast<void *>((address + multiple - 1) / multiple * multiple);
    given.workspace_bytes = bytes;
    return nullptr;
  }
};

std::atomic<long long> callCount = 0;

/// XLA may record calls on a GPU: a call launches the same kernels each time, as its attributes and
/// shapes determine, and everything else that it does (such as compiling) is allowed in a capture.
template <bool isHost> xla::Error *handle(xla::CallFrame *frame) {
  constexpr uint32_t traits = isHost ? 0 : xla::commandBufferCompatible;
  if (answersMetadata(*frame, traits))
    return nullptr;
  ++callCount;
  return Call(*frame, isHost).run();
}

} // namespace

PyObject *xlaCalls(PyObject *, PyObject *) { return PyLong_FromLongLong(callCount); }

static pid_t process; ///< that imported the module; a fork of it has no calls to wait for

static PyObject *endVisits(PyObject *, PyObject *) {
  if (process == getpid()) {
    WithoutGil released;
    visits().close();
  }
  Py_RETURN_NONE;
}

/// Calls endVisits() when the interpreter ends, before any of its parts do.
static bool registerEnd() {
  process = getpid();
  static PyMethodDef end = {"end_visits", endVisits, METH_NOARGS, nullptr};
  Owned module(PyImport_ImportModule("atexit"));
  Owned function(module ? PyCFunction_New(&end, nullptr) : nullptr);
  Owned registered(function ? PyObject_CallMethod(module.get(), "register", "O", function.get())
                            : nullptr);
  return bool(registered);
}

PyObject *xlaHandlers(PyObject *, PyObject *newFinder) {
  if (!registerEnd())
    return nullptr;
  Py_INCREF(newFinder);
  Py_XDECREF(std::exchange(finder, newFinder));
  Owned host(PyCapsule_New(reinterpret_cast<void *>(handle<true>), nullptr, nullptr));
  Owned cuda(PyCapsule_New(reinterpret_cast<void *>(handle<false>), nullptr, nullptr));
  return host && cuda ? PyTuple_Pack(2, host.get(), cuda.get()) : nullptr;
}

} // namespace tesela::python
