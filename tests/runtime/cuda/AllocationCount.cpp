//===- AllocationCount.cpp - operator new, counted ------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "AllocationCount.h"

#include <cstdlib>
#include <new>

static thread_local long allocations = 0;

namespace tesela {
long allocationsSoFar() { return allocations; }
} // namespace tesela

static void *countedOrNull(std::size_t bytes, std::size_t alignment) noexcept {
  ++allocations;
  return alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
             ? std::malloc(bytes ? bytes : 1)
             : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void *counted(std::size_t bytes, std::size_t alignment) {
  void *memory = countedOrNull(bytes, alignment);
  if (!memory)
    throw std::bad_alloc();
  return memory;
}

void *operator new(std::size_t bytes) { return counted(bytes, 1); }
void *operator new[](std::size_t bytes) { return counted(bytes, 1); }
void *operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, std::size_t(alignment));
}
void *operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, std::size_t(alignment));
}
// All of them, because sanitizers check that each allocation is freed by the matching operator.
void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept {
  return countedOrNull(bytes, 1);
}
void *operator new[](std::size_t bytes, const std::nothrow_t &) noexcept {
  return countedOrNull(bytes, 1);
}
void *operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  return countedOrNull(bytes, std::size_t(alignment));
}
void *operator new[](std::size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t &) noexcept {
  return countedOrNull(bytes, std::size_t(alignment));
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
