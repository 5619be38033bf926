//===- CApiCache.cpp - tesela/c/cache.h ------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/CApi.h"
#include "tesela/Cache.h"

using namespace tesela;
using namespace tesela::c;

struct tesela_cache {
  Cache cache;
};

struct tesela_cached_kernels {
  std::vector<CachedKernel> kernels;
};

namespace {

constexpr const char *cacheMaker = "tesela_cache_open";

tesela_cached_kernel describeCached(const CachedKernel &from) {
  auto to = zeroed<tesela_cached_kernel>();
  to.key = from.key.c_str();
  to.path = from.path.c_str();
  to.bytes = from.bytes;
  to.used = from.used;
  to.damage_code = from.damage ? tesela_code(from.damage->code()) : TESELA_OK;
  to.damage = from.damage ? from.damage->message().c_str() : "";
  to.made = from.made;
  to.variant = from.variantName.c_str();
  to.target = from.target.c_str();
  to.input_type = tesela_type(from.inputType);
  to.head_dim_qk = from.headDimQk;
  to.head_dim_v = from.headDimV;
  to.schedule = from.schedule.c_str();
  return to;
}

/// Makes a list with Cache::list or Cache::verify.
Status makeList(const tesela_cache *cache, tesela_cached_kernels **kernels,
                Result<std::vector<CachedKernel>> (Cache::*read)() const) {
  if (Status status = checkPlace(kernels, "kernels"); !status)
    return status;
  if (!cache)
    return noHandle("cache", cacheMaker);
  Result<std::vector<CachedKernel>> found = (cache->cache.*read)();
  if (!found)
    return found.error();
  *kernels = new tesela_cached_kernels{std::move(*found)};
  return Status::success();
}

Status writeRemoval(const Result<CacheRemoval> &from, tesela_cache_removal *to) {
  if (!from)
    return from.error();
  if (!to)
    return Status::success();
  auto known = zeroed<tesela_cache_removal>();
  known.kernels = from->kernels;
  known.bytes = from->bytes;
  known.bytes_left = from->bytesLeft;
  return writeSized(known, to, "tesela_cache_removal");
}

/// Checks, before anything is removed, that the result can be written.
Status checkRemoval(const tesela_cache *cache, const tesela_cache_removal *removal) {
  if (!cache)
    return noHandle("cache", cacheMaker);
  return removal ? checkSize(removal, "tesela_cache_removal") : Status::success();
}

} // namespace

tesela_code tesela_cache_open(const char *folder, tesela_cache **cache) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(cache, "cache"); !status)
      return status;
    Result<Cache> opened = Cache::open(textOr(folder));
    if (!opened)
      return opened.error();
    *cache = new tesela_cache{std::move(*opened)};
    return Status::success();
  });
}

void tesela_cache_destroy(tesela_cache *cache) { delete cache; }

const char *tesela_cache_folder(const tesela_cache *cache) {
  return cache ? cache->cache.folder().c_str() : "";
}

tesela_code tesela_cache_list(const tesela_cache *cache, tesela_cached_kernels **kernels) {
  return guarded([&] { return makeList(cache, kernels, &Cache::list); });
}

tesela_code tesela_cache_verify(const tesela_cache *cache, tesela_cached_kernels **kernels) {
  return guarded([&] { return makeList(cache, kernels, &Cache::verify); });
}

void tesela_cached_kernels_destroy(tesela_cached_kernels *kernels) { delete kernels; }

size_t tesela_cached_kernels_count(const tesela_cached_kernels *kernels) {
  return kernels ? kernels->kernels.size() : 0;
}

tesela_code tesela_cached_kernels_describe(const tesela_cached_kernels *kernels, size_t index,
                                           tesela_cached_kernel *kernel) {
  return guarded([&]() -> Status {
    if (!kernels)
      return noHandle("kernels", "tesela_cache_list");
    if (Status status = checkIndex(index, kernels->kernels.size(), "kernels"); !status)
      return status;
    return writeSized(describeCached(kernels->kernels[index]), kernel, "tesela_cached_kernel");
  });
}

tesela_code tesela_cache_prune(const tesela_cache *cache, const tesela_cache_keep *keep,
                               tesela_cache_removal *removal) {
  return guarded([&]() -> Status {
    if (Status status = checkRemoval(cache, removal); !status)
      return status;
    tesela_cache_keep given;
    if (Status status = readSized(keep, given, "tesela_cache_keep"); !status)
      return status;
    Cache::Keep kept;
    for (auto [name, value, to] :
         {std::tuple("most_bytes", given.most_bytes, &kept.mostBytes),
          {"most_seconds_old", given.most_seconds_old, &kept.mostSecondsOld}}) {
      if (value < 0)
        return invalid(std::string(name) + " is " + std::to_string(value) +
                       ", it must not be negative");
      if (value > 0)
        *to = value;
    }
    return writeRemoval(cache->cache.prune(kept), removal);
  });
}

tesela_code tesela_cache_clear(const tesela_cache *cache, tesela_cache_removal *removal) {
  return guarded([&]() -> Status {
    if (Status status = checkRemoval(cache, removal); !status)
      return status;
    return writeRemoval(cache->cache.clear(), removal);
  });
}
