//===- Kernel.cpp - A kernel for all lengths, and its launches --------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "KernelObject.h"

#include <algorithm>
#include <new>

namespace tesela::python {

PyTypeObject *kernelType;

namespace {

/// The lengths for which the schedule is chosen. Every kernel is correct for every length, but the
/// fastest schedule depends on it: with few queries heads share a tile, and with few keys other
/// roles are better (compiler/schedule). The first launch in a bucket compiles the bucket's kernel.
struct Bucket {
  int64_t mostQueries, mostKeys;           ///< the largest lengths in the bucket; 0: no limit
  int64_t expectedQueries, expectedLength; ///< the options of tesela_kernel_options
};
constexpr Bucket buckets[] = {
    {1, 0, 1, 0},             // decoding
    {32, 0, 8, 0},            // speculative decoding
    {64, 0, 64, 0},           // a tree of speculated tokens
    {512, 0, 512, 0},         // chunks of a prompt behind its cache
    {2048, 2047, 2048, 1024}, // chunks of a prompt
    {2048, 8191, 2048, 4096},
    {2048, 0, 2048, 8192},
    {0, 2047, 0, 1024},
    {0, 8191, 0, 4096},
    {0, 0, 0, 8192},
};
static_assert(bucketCount == sizeof buckets / sizeof *buckets);

} // namespace

int bucketOf(int64_t queries, int64_t keys) {
  int index = 0;
  while ((buckets[index].mostQueries && queries > buckets[index].mostQueries) ||
         (buckets[index].mostKeys && keys > buckets[index].mostKeys))
    ++index;
  return index;
}

namespace {

/// The parameters of a launch with dropout, after the variant's. The state may be left out.
constexpr Slot dropoutSlots[] = {
    {"dropout.p", false, false, 0},          {"dropout.seed", false, false, 0},
    {"dropout.seed_high", false, true, 0},   {"dropout.offset", false, true, 0},
    {"dropout.offset_high", false, true, 0}, {"dropout.first_q", false, true, 0},
    {"dropout.first_k", false, true, 0},     {"dropout.state", true, true, 0},
};

bool readSlots(Kernel &kernel) {
  size_t count = tesela_variant_parameter_count(kernel.variant->variant);
  kernel.slots.reset(new (std::nothrow) Slot[count + std::size(dropoutSlots)]);
  if (!kernel.slots) {
    PyErr_NoMemory();
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    auto info = sized<tesela_parameter_info>();
    if (tesela_variant_parameter(kernel.variant->variant, i, &info) != TESELA_OK) {
      raiseLast();
      return false;
    }
    if (info.is_constant)
      continue;
    kernel.slots[kernel.slotCount++] = {info.name, info.is_capture != 0, info.has_default != 0,
                                        info.default_value};
    kernel.captureCount += info.is_capture != 0;
  }
  if (kernel.options.dropout)
    for (const Slot &slot : dropoutSlots)
      kernel.slots[kernel.slotCount++] = slot;
  return true;
}

bool readConstants(Kernel &kernel, PyObject *constants) {
  Py_ssize_t count = PyTuple_Size(constants);
  kernel.constants.reset(new (std::nothrow) tesela_parameter[count + 1]);
  if (count < 0 || !kernel.constants) {
    PyErr_NoMemory();
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    tesela_parameter &constant = kernel.constants[i];
    std::memset(static_cast<void *>(&constant), 0, sizeof constant);
    if (!PyArg_ParseTuple(PyTuple_GetItem(constants, i), "sd", &constant.name, &constant.scalar))
      return false;
  }
  kernel.options.constants = kernel.constants.get();
  kernel.options.constant_count = size_t(count);
  return true;
}

bool readBindings(Kernel &kernel, PyObject *bindings) {
  Py_ssize_t count = PyTuple_Size(bindings);
  kernel.bindings.reset(new (std::nothrow) const char *[count + 1]);
  if (!kernel.bindings) {
    PyErr_NoMemory();
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    kernel.bindings[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(bindings, i), nullptr);
    if (!kernel.bindings[i])
      return false;
  }
  kernel.options.bindings = kernel.bindings.get();
  kernel.options.binding_count = size_t(count);
  return true;
}

void destroy(PyObject *object) {
  delete reinterpret_cast<KernelObject *>(object)->kernel;
  freeObject(object);
}

/// Kernel(context, variant, type, head_dim_qk, head_dim_v, constants, schedule, algorithm,
/// bindings, dropout)
PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *) {
  PyObject *context, *variant, *constants, *schedule, *algorithm, *bindings;
  int inputType, headDimQk, headDimV, drops;
  if (!PyArg_ParseTuple(arguments, "OOiiiO!UUO!p", &context, &variant, &inputType, &headDimQk,
                        &headDimV, &PyTuple_Type, &constants, &schedule, &algorithm, &PyTuple_Type,
                        &bindings, &drops))
    return nullptr;
  if (!asObject(context, contextType, "context") || !asObject(variant, variantType, "variant"))
    return nullptr;
  auto *allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  Owned self(allocate(type, 0));
  auto *kernel = self ? new (std::nothrow) Kernel() : nullptr;
  if (!kernel)
    return self ? PyErr_NoMemory() : nullptr;
  reinterpret_cast<KernelObject *>(self.get())->kernel = kernel;
  kernel->context = reinterpret_cast<ContextObject *>(Py_NewRef(context));
  kernel->variant = reinterpret_cast<VariantObject *>(Py_NewRef(variant));
  kernel->schedule = Py_NewRef(schedule);
  kernel->algorithm = Py_NewRef(algorithm);
  kernel->constantNames = Py_NewRef(constants);
  kernel->bindingTexts = Py_NewRef(bindings);
  kernel->options = sized<tesela_kernel_options>();
  tesela_kernel_options &options = kernel->options;
  options.variant = PyUnicode_AsUTF8AndSize(kernel->variant->text, nullptr);
  options.variant_file = PyUnicode_AsUTF8AndSize(kernel->variant->file, nullptr);
  options.schedule = PyUnicode_AsUTF8AndSize(schedule, nullptr);
  options.input_type = tesela_type(inputType);
  options.head_dim_qk = headDimQk;
  options.head_dim_v = headDimV;
  options.algorithm = PyUnicode_AsUTF8AndSize(algorithm, nullptr);
  options.dropout = drops;
  if (!options.schedule || !options.algorithm || !readSlots(*kernel) ||
      !readConstants(*kernel, constants) || !readBindings(*kernel, bindings))
    return nullptr;
  return self.release();
}

} // namespace

/// On a GPU, gradients have one schedule for up to 512 queries, and one for all others.
int bucketFor(const Kernel &kernel, int64_t queries, int64_t keys) {
  const char *algorithm = kernel.options.algorithm;
  bool isForward =
      std::strcmp(algorithm, "forward") == 0 || std::strcmp(algorithm, "forward_in_parts") == 0;
  bool isForHost = std::strcmp(tesela_context_target(kernel.context->context), "host") == 0;
  if (isForward || isForHost)
    return bucketOf(queries, keys);
  constexpr int64_t few = 512;
  return queries <= few ? bucketOf(few, keys) : bucketCount - 1;
}

namespace {

tesela_kernel_options optionsFor(const Kernel &kernel, int bucket) {
  tesela_kernel_options options = kernel.options;
  options.expected_queries = buckets[bucket].expectedQueries;
  options.expected_length = buckets[bucket].expectedLength;
  options.tiers = kernel.hasTiers[bucket];
  return options;
}

/// The bucket's kernel, compiled if necessary; null if that raised.
tesela_kernel *find(Kernel &kernel, int bucket) {
  tesela_kernel *found = kernel.ofBucket[bucket].load(std::memory_order_acquire);
  if (found)
    return found;
  tesela_kernel_options options = optionsFor(kernel, bucket);
  tesela_code code;
  {
    WithoutGil others;
    code = tesela_compile(kernel.context->context, &options, &found);
  }
  if (code != TESELA_OK) {
    raiseLast();
    return nullptr;
  }
  tesela_kernel *before = nullptr; // another thread may have been faster
  if (kernel.ofBucket[bucket].compare_exchange_strong(before, found))
    return found;
  tesela_kernel_destroy(found);
  return before;
}

} // namespace

/// Allocates device memory for a launch if the launch needs some.
static bool lendWorkspace(const tesela_kernel *kernel, const Allocator &allocator,
                          tesela_tensor_arguments &arguments, Owned &memory) {
  size_t bytes;
  if (tesela_kernel_workspace_bytes_of_tensors(kernel, &arguments, &bytes) != TESELA_OK) {
    raiseLast();
    return false;
  }
  if (bytes == 0)
    return true;
  memory = allocator.allocate(bytes);
  tesela_tensor view;
  Owned holder;
  if (!memory || !readTensor(memory.get(), "the workspace", view, holder))
    return false;
  arguments.workspace = view.data;
  arguments.workspace_bytes = bytes;
  return true;
}

/// For a kernel that started with a simple schedule: warns once if the best one was not compiled.
static bool warnOfTiers(Kernel &kernel, int bucket, const tesela_kernel *chosen) {
  int isBest;
  if (tesela_kernel_is_best(chosen, 0, &isBest) == TESELA_OK) {
    kernel.isSettled[bucket] = isBest != 0;
    return true;
  }
  kernel.isSettled[bucket] = true;
  return PyErr_WarnEx(PyExc_RuntimeWarning, tesela_last_error(), 1) == 0;
}

bool run(Kernel &kernel, tesela_tensor_arguments &arguments, int64_t queries, int64_t keys,
         void *stream, const Allocator *allocator) {
  int bucket = bucketFor(kernel, queries, keys);
  tesela_kernel *chosen = find(kernel, bucket);
  if (!chosen)
    return false;
  Owned workspace;
  if (allocator && !lendWorkspace(chosen, *allocator, arguments, workspace))
    return false;
  tesela_code code;
  {
    WithoutGil others;
    code = tesela_launch_tensors(chosen, &arguments, stream);
  }
  if (code == TESELA_OK)
    return !kernel.hasTiers[bucket] || kernel.isSettled[bucket] ||
           warnOfTiers(kernel, bucket, chosen);
  raiseLast();
  return false;
}

void swapLengthAndHeads(tesela_tensor &tensor) {
  if (tensor.rank != 4)
    return; // the library reports the error
  std::swap(tensor.extents[1], tensor.extents[2]);
  std::swap(tensor.strides[1], tensor.strides[2]);
}

namespace {

/// The tensors of a launch in the order of its arguments: five of attention, then those of its
/// gradients, which the C API takes by name.
constexpr const char *tensorNames[] = {"q", "k", "v", "o", "lse", "do", "dlse", "dq", "dk", "dv"};
constexpr int forwardTensors = 5, parametersTensors = 7, backwardTensors = 10, lsePlace = 4,
              dlsePlace = 6;

/// A launch's arguments for the C API.
class Launch {
public:
  /// Reads the tensors, scale, values and is_bshd. lse is None if it is not written, and dlse is
  /// None if there is no gradient of lse.
  bool read(Kernel &kernel, PyObject *const *arguments, int tensorCount) {
    PyObject *const *rest = arguments + tensorCount;
    int isBshd = PyObject_IsTrue(rest[2]);
    if (isBshd < 0)
      return false;
    given = sized<tesela_tensor_arguments>();
    for (int i = 0; i < tensorCount; ++i) {
      bool isOfRows = i == lsePlace || i == dlsePlace;
      if (isOfRows && arguments[i] == Py_None)
        continue;
      if (!readTensor(arguments[i], tensorNames[i], tensors[i], holders[i]))
        return false;
      if (isBshd && !isOfRows)
        swapLengthAndHeads(tensors[i]);
      if (i >= forwardTensors)
        named[given.tensor_count++] = {tensorNames[i], &tensors[i]};
    }
    return complete(kernel, arguments[lsePlace] != Py_None, rest[0], rest[1]);
  }
  /// Takes views of q, k, v, o and (if `hasLse`) lse that were read before.
  bool take(Kernel &kernel, const tesela_tensor *views, bool hasLse, PyObject *scale,
            PyObject *ofParameters) {
    given = sized<tesela_tensor_arguments>();
    std::copy_n(views, hasLse ? forwardTensors : forwardTensors - 1, tensors);
    return complete(kernel, hasLse, scale, ofParameters);
  }
  /// To be called after read(): adds the gradients of parameters, tensors with these names.
  bool addGradients(PyObject *names, PyObject *gradients) {
    size_t count = size_t(PyTuple_Size(names)), first = given.tensor_count;
    more.reset(new (std::nothrow) More[count]);
    all.reset(new (std::nothrow) tesela_named_tensor[first + count]);
    if (!more || !all || size_t(PyTuple_Size(gradients)) != count) {
      PyErr_SetString(PyExc_TypeError, "the launch takes a tensor for each name");
      return false;
    }
    std::copy_n(named, first, all.get());
    for (size_t i = 0; i < count; ++i) {
      const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, Py_ssize_t(i)), nullptr);
      if (!name || !readTensor(PyTuple_GetItem(gradients, Py_ssize_t(i)), name, more[i].tensor,
                               more[i].holder))
        return false;
      all[first + i] = {name, &more[i].tensor};
    }
    given.tensors = all.get();
    given.tensor_count = first + count;
    return true;
  }
  int64_t queries() const { return tensors[0].extents[2]; }
  int64_t keys() const { return tensors[1].extents[2]; }

  tesela_tensor_arguments given;

private:
  tesela_tensor tensors[backwardTensors];
  Owned holders[backwardTensors];
  tesela_named_tensor named[backwardTensors - forwardTensors];
  struct More {
    tesela_tensor tensor;
    Owned holder;
  };
  std::unique_ptr<More[]> more;
  std::unique_ptr<tesela_named_tensor[]> all;
  Values values;

  bool complete(Kernel &kernel, bool hasLse, PyObject *scale, PyObject *ofParameters) {
    given.q = &tensors[0];
    given.k = &tensors[1];
    given.v = &tensors[2];
    given.o = &tensors[3];
    given.lse = hasLse ? &tensors[lsePlace] : nullptr;
    given.tensors = named;
    if (!readScale(scale, given) || !values.read(kernel, ofParameters))
      return false;
    given.parameters = values.data();
    given.parameter_count = values.size();
    given.parameters_in_order = 1;
    return true;
  }
};

/// The arguments are the tensors, scale, values, is_bshd, stream and allocate; with `hasGradients`
/// also the names of parameters and the tensors for their gradients.
PyObject *launchTensors(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                        int tensorCount, bool needsMemory, bool hasGradients = false) {
  int expected = tensorCount + 5 + 2 * hasGradients;
  if (count != expected)
    return PyErr_Format(PyExc_TypeError, "the launch takes %d arguments, not %zd", expected, count);
  PyObject *streamOf = arguments[tensorCount + 3], *allocate = arguments[tensorCount + 4];
  Kernel &kernel = kernelOf(self);
  Launch launch;
  if (!launch.read(kernel, arguments, tensorCount))
    return nullptr;
  if (hasGradients && !launch.addGradients(arguments[expected - 2], arguments[expected - 1]))
    return nullptr;
  void *stream = PyLong_AsVoidPtr(streamOf);
  if (!stream && PyErr_Occurred())
    return nullptr;
  AllocatingFunction allocator(allocate);
  if (!run(kernel, launch.given, launch.queries(), launch.keys(), stream,
           needsMemory && allocate != Py_None ? &allocator : nullptr))
    return nullptr;
  Py_RETURN_NONE;
}

/// launch(q, k, v, o, lse, scale, values, is_bshd, stream, allocate)
PyObject *launch(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
  return launchTensors(self, arguments, count, forwardTensors, kernelOf(self).captureCount > 0);
}

/// launch_backward(q, k, v, o, lse, do, dlse, dq, dk, dv, scale, values, is_bshd, stream, allocate)
PyObject *launchBackward(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
  return launchTensors(self, arguments, count, backwardTensors, true);
}

/// launch_parameters(q, k, v, o, lse, do, dlse, scale, values, is_bshd, stream, allocate, names,
/// gradients)
PyObject *launchParameters(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
  return launchTensors(self, arguments, count, parametersTensors, true, /*hasGradients=*/true);
}

bool readLengths(PyObject *self, PyObject *arguments, int &bucket) {
  long long queries, keys;
  if (!PyArg_ParseTuple(arguments, "LL", &queries, &keys))
    return false;
  bucket = bucketFor(kernelOf(self), queries, keys);
  return true;
}

/// address(queries, keys)
PyObject *address(PyObject *self, PyObject *arguments) {
  int bucket;
  if (!readLengths(self, arguments, bucket))
    return nullptr;
  tesela_kernel *kernel = find(kernelOf(self), bucket);
  return kernel ? PyLong_FromVoidPtr(kernel) : nullptr;
}

/// describe(queries, keys)
PyObject *describe(PyObject *self, PyObject *arguments) {
  int bucket;
  if (!readLengths(self, arguments, bucket))
    return nullptr;
  tesela_kernel *kernel = find(kernelOf(self), bucket);
  if (!kernel)
    return nullptr;
  auto info = sized<tesela_kernel_info>();
  if (tesela_kernel_describe(kernel, &info) != TESELA_OK)
    return raiseLast();
  static const char *const origins[] = {"compiled", "memory", "disk", "bundle", "package"};
  static const char *const choosers[] = {"given", "heuristic", "tuned", "simple"};
  return Py_BuildValue("{s:s,s:s,s:s,s:s,s:d,s:i,s:i,s:L,s:i,s:s}", "target", info.target,
                       "schedule", info.schedule, "assembler", info.assembler, "origin",
                       origins[info.origin], "compile_ms", info.compile_ms, "registers",
                       info.registers, "spill_bytes", info.spill_bytes, "shared_bytes",
                       static_cast<long long>(info.shared_bytes), "threads", info.threads,
                       "schedule_origin", choosers[info.schedule_origin]);
}

/// tensor_type(queries, keys, name)
PyObject *tensorType(PyObject *self, PyObject *arguments) {
  long long queries, keys;
  const char *name;
  if (!PyArg_ParseTuple(arguments, "LLs", &queries, &keys, &name))
    return nullptr;
  tesela_kernel *kernel = find(kernelOf(self), bucketFor(kernelOf(self), queries, keys));
  tesela_type type;
  if (!kernel)
    return nullptr;
  if (tesela_kernel_tensor_type(kernel, name, &type) != TESELA_OK)
    return raiseLast();
  return PyLong_FromLong(type);
}

/// If the best kernel of the bucket was not compiled, a new request tries again, and the next
/// launch takes a handle that knows the result. The old handle is kept, because other threads may
/// be launching it. After `mostRetired` failures the last handle stays.
void retireFailed(Kernel &kernel, int bucket) {
  constexpr size_t mostRetired = 16;
  if (kernel.retired.size() == mostRetired)
    return;
  tesela_kernel *found = kernel.ofBucket[bucket].load(std::memory_order_acquire);
  int isBest;
  if (!found || tesela_kernel_is_best(found, 0, &isBest) == TESELA_OK)
    return;
  kernel.retired.emplace_back(found);
  kernel.ofBucket[bucket].store(nullptr, std::memory_order_release);
  kernel.isSettled[bucket] = false;
}

/// prepare(queries, keys, milliseconds, has_tiers)
PyObject *prepareInBackground(PyObject *self, PyObject *arguments) {
  long long queries, keys, milliseconds;
  int hasTiers;
  if (!PyArg_ParseTuple(arguments, "LLLp", &queries, &keys, &milliseconds, &hasTiers))
    return nullptr;
  Kernel &kernel = kernelOf(self);
  int bucket = bucketFor(kernel, queries, keys);
  kernel.hasTiers[bucket] = hasTiers;
  PyObject *prepared = prepare(kernel.context->context, optionsFor(kernel, bucket), milliseconds);
  if (prepared && hasTiers)
    retireFailed(kernel, bucket);
  return prepared;
}

bool readSizes(PyObject *from, tesela_sizes &sizes) {
  long long numbers[5];
  if (!PyArg_ParseTuple(from, "LLLLL", &numbers[0], &numbers[1], &numbers[2], &numbers[3],
                        &numbers[4]))
    return false;
  sizes = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
  return true;
}

/// explain(sizes, target, values)
PyObject *explainTiles(PyObject *self, PyObject *arguments) {
  PyObject *sizes, *values;
  const char *target;
  tesela_sizes given;
  if (!PyArg_ParseTuple(arguments, "O!sO!", &PyTuple_Type, &sizes, &target, &PyTuple_Type,
                        &values) ||
      !readSizes(sizes, given))
    return nullptr;
  Kernel &kernel = kernelOf(self);
  return explain(*kernel.variant, kernel.options, given, target, values);
}

/// tune(sizes, values, seconds, exhaustive, keep_nothing, progress)
PyObject *tuneSchedule(PyObject *self, PyObject *arguments) {
  PyObject *sizes, *given, *progress;
  auto shape = sized<tesela_tune_shape>();
  auto tuning = sized<tesela_tune_options>();
  if (!PyArg_ParseTuple(arguments, "O!OdppO", &PyTuple_Type, &sizes, &given, &tuning.seconds,
                        &tuning.exhaustive, &tuning.keep_nothing, &progress) ||
      !readSizes(sizes, shape.sizes))
    return nullptr;
  Kernel &kernel = kernelOf(self);
  Values values;
  if (!values.readGiven(kernel, given))
    return nullptr;
  shape.parameters = values.data();
  shape.parameter_count = values.size();
  return tune(kernel.context->context, kernel.options, shape, tuning, progress);
}

PyMethodDef methods[] = {
    {"launch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launch)), METH_FASTCALL,
     "launch(q, k, v, o, lse, scale, values, is_bshd, stream, allocate)"},
    {"launch_backward", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launchBackward)),
     METH_FASTCALL,
     "launch_backward(q, k, v, o, lse, do, dlse, dq, dk, dv, scale, values, is_bshd, stream, "
     "allocate); of a kernel of the algorithm \"backward\""},
    {"launch_parameters",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launchParameters)), METH_FASTCALL,
     "launch_parameters(q, k, v, o, lse, do, dlse, scale, values, is_bshd, stream, allocate, "
     "names, "
     "gradients); of a kernel of the algorithm \"backward_parameters\""},
    {"launch_named", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launchNamed)),
     METH_FASTCALL,
     "launch_named(names, tensors, scale, values, others, extents, is_bshd, stream, allocate); of "
     "any kernel, with its tensors by their names"},
    {"address", address, METH_VARARGS,
     "address(queries, keys): the tesela_kernel * for launches of these lengths, as a number; "
     "it lives as long as this object."},
    {"prepare", prepareInBackground, METH_VARARGS,
     "prepare(queries, keys, milliseconds, has_tiers): has the kernel for launches of these "
     "lengths "
     "made in the background, a simple one first with has_tiers; a Preparation."},
    {"explain", explainTiles, METH_VARARGS,
     "explain((batch, heads, kv_heads, length, kv_length), target, values): an Explanation."},
    {"tune", tuneSchedule, METH_VARARGS,
     "tune((batch, heads, kv_heads, length, kv_length), values, seconds, exhaustive, keep_nothing, "
     "progress): what came of it, a dictionary."},
    {"tensor_type", tensorType, METH_VARARGS,
     "tensor_type(queries, keys, name): the element type of a tensor of launches of these lengths, "
     "such as BF16"},
    {"describe", describe, METH_VARARGS,
     "describe(queries, keys): what is known of the kernel for launches of these lengths."},
    {}};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char *>("A variant for a device, an element type and head dimensions, "
                                   "or its gradients; for all lengths.")},
    {Py_tp_new, reinterpret_cast<void *>(make)},
    {Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
    {Py_tp_methods, methods},
    {}};
PyType_Spec spec = {"tesela._native.Kernel", sizeof(KernelObject), 0, Py_TPFLAGS_DEFAULT, slots};

} // namespace

bool launchViews(PyObject *object, const tesela_tensor *views, bool hasLse, PyObject *scale,
                 PyObject *values, void *stream, const Allocator *allocator) {
  if (!asObject(object, kernelType, "kernel"))
    return false;
  Kernel &kernel = kernelOf(object);
  Launch launch;
  return launch.take(kernel, views, hasLse, scale, values) &&
         run(kernel, launch.given, launch.queries(), launch.keys(), stream,
             kernel.captureCount > 0 ? allocator : nullptr);
}

bool addKernelType(PyObject *module) { return addType(module, spec, "Kernel", kernelType); }

} // namespace tesela::python
