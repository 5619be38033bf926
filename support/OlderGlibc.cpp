//===- OlderGlibc.cpp - Functions that glibc 2.34 lacks ---------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// On a machine with a new glibc, the static libstdc++ and libgcc use two functions that glibc 2.34
// lacks. This file defines them, so that shipped programs and libraries also run with glibc 2.34.
// It is linked into each of them.
//
//===----------------------------------------------------------------------===//
#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <sys/random.h>

#define TESELA_OWN __attribute__((visibility("hidden")))

// glibc 2.36; used by std::random_device.
extern "C" TESELA_OWN uint32_t arc4random() {
  uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number) {
  }
  return number;
}

#if __GLIBC_PREREQ(2, 35)

namespace {

struct Search {
  uintptr_t address;
  dl_find_object *found;
};

int look(dl_phdr_info *info, size_t, void *data) {
  auto &search = *static_cast<Search *>(data);
  uintptr_t frames = 0, begin = 0, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_GNU_EH_FRAME)
      frames = start;
    if (segment.p_type == PT_LOAD && search.address - start < segment.p_memsz) {
      begin = start;
      end = start + segment.p_memsz;
    }
  }
  if (begin == end || frames == 0)
    return 0;
  *search.found = {};
  search.found->dlfo_map_start = reinterpret_cast<void *>(begin);
  search.found->dlfo_map_end = reinterpret_cast<void *>(end);
  search.found->dlfo_eh_frame = reinterpret_cast<void *>(frames);
  return 1;
}

} // namespace

// glibc 2.35; the unwinder uses it to find an object's exception tables.
extern "C" TESELA_OWN int _dl_find_object(void *address, dl_find_object *result) noexcept {
  Search search{reinterpret_cast<uintptr_t>(address), result};
  return dl_iterate_phdr(look, &search) == 1 ? 0 : -1;
}

#endif
