//===- Cache.cpp - The kernels on disk --------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Native.h"

namespace tesela::python {

namespace {

/// A cache, opened while it is used.
struct Cache {
  tesela_cache *cache = nullptr;
  ~Cache() { tesela_cache_destroy(cache); }

  /// `folder`: str or None. False if it raised.
  bool open(PyObject *folder) {
    const char *path = folder == Py_None ? nullptr : PyUnicode_AsUTF8AndSize(folder, nullptr);
    if (!path && folder != Py_None)
      return false;
    if (tesela_cache_open(path, &cache) == TESELA_OK)
      return true;
    raiseLast();
    return false;
  }
};

PyObject *describe(const tesela_cached_kernel &kernel) {
  static const char *const types[] = {"f32", "f16", "bf16", "i32", "bool"};
  return Py_BuildValue("{s:s,s:s,s:L,s:L,s:s,s:L,s:s,s:s,s:s,s:i,s:i,s:s}", "key", kernel.key,
                       "path", kernel.path, "bytes", static_cast<long long>(kernel.bytes), "used",
                       static_cast<long long>(kernel.used), "damage", kernel.damage, "made",
                       static_cast<long long>(kernel.made), "variant", kernel.variant, "target",
                       kernel.target, "input_type", types[kernel.input_type], "head_dim_qk",
                       kernel.head_dim_qk, "head_dim_v", kernel.head_dim_v, "schedule",
                       kernel.schedule);
}

PyObject *describe(const tesela_cache_removal &removal) {
  return Py_BuildValue("(LLL)", static_cast<long long>(removal.kernels),
                       static_cast<long long>(removal.bytes),
                       static_cast<long long>(removal.bytes_left));
}

} // namespace

PyObject *cacheFolder(PyObject *, PyObject *folder) {
  Cache cache;
  return cache.open(folder) ? PyUnicode_DecodeFSDefault(tesela_cache_folder(cache.cache)) : nullptr;
}

PyObject *cacheList(PyObject *, PyObject *arguments) {
  PyObject *folder;
  int verify;
  Cache cache;
  if (!PyArg_ParseTuple(arguments, "Op", &folder, &verify) || !cache.open(folder))
    return nullptr;
  tesela_cached_kernels *kernels;
  tesela_code code;
  {
    WithoutGil others;
    code = verify ? tesela_cache_verify(cache.cache, &kernels)
                  : tesela_cache_list(cache.cache, &kernels);
  }
  if (code != TESELA_OK)
    return raiseLast();
  Owned list(PyList_New(0));
  for (size_t i = 0; list && i < tesela_cached_kernels_count(kernels); ++i) {
    auto kernel = sized<tesela_cached_kernel>();
    bool isThere = tesela_cached_kernels_describe(kernels, i, &kernel) == TESELA_OK;
    Owned item(isThere ? describe(kernel) : raiseLast());
    if (!item || PyList_Append(list.get(), item.get()) < 0)
      list = Owned();
  }
  tesela_cached_kernels_destroy(kernels);
  return list.release();
}

/// cache_prune(folder, most_bytes, most_seconds_old); (-1, -1) removes all.
PyObject *cachePrune(PyObject *, PyObject *arguments) {
  PyObject *folder;
  long long mostBytes, mostSeconds;
  Cache cache;
  if (!PyArg_ParseTuple(arguments, "OLL", &folder, &mostBytes, &mostSeconds) || !cache.open(folder))
    return nullptr;
  auto keep = sized<tesela_cache_keep>();
  keep.most_bytes = mostBytes;
  keep.most_seconds_old = mostSeconds;
  auto removal = sized<tesela_cache_removal>();
  tesela_code code;
  {
    WithoutGil others;
    code = mostBytes < 0 && mostSeconds < 0 ? tesela_cache_clear(cache.cache, &removal)
                                            : tesela_cache_prune(cache.cache, &keep, &removal);
  }
  return code == TESELA_OK ? describe(removal) : raiseLast();
}

} // namespace tesela::python
