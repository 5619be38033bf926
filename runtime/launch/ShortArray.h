//===- ShortArray.h - An array that is usually short ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_SHORTARRAY_H
#define TESELA_LAUNCH_SHORTARRAY_H

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <type_traits>

namespace tesela {

/// An array without allocation for up to `usual` elements, which lie in the object itself; a longer
/// one lies in allocated memory. Elements beyond size() are not initialised.
template <typename T, size_t usual> class ShortArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

public:
  ShortArray() = default;
  ShortArray(std::initializer_list<T> values) {
    make(values.size());
    std::uninitialized_copy(values.begin(), values.end(), begin());
  }
  ShortArray(const ShortArray &other) { copy(other); }
  ShortArray &operator=(const ShortArray &other) {
    if (this != &other)
      copy(other);
    return *this;
  }

  /// Becomes `size` elements of T(); the old contents are lost.
  void reset(size_t size) {
    make(size);
    std::uninitialized_value_construct_n(begin(), size);
  }

  size_t size() const { return count; }
  T *begin() { return many ? many.get() : reinterpret_cast<T *>(few); }
  T *end() { return begin() + count; }
  const T *begin() const { return many ? many.get() : reinterpret_cast<const T *>(few); }
  const T *end() const { return begin() + count; }
  T *data() { return begin(); }
  T &operator[](size_t i) { return begin()[i]; }
  const T &operator[](size_t i) const { return begin()[i]; }

private:
  void make(size_t size) {
    if (size > usual)
      many = std::make_unique_for_overwrite<T[]>(size);
    else
      many.reset();
    count = size;
  }
  void copy(const ShortArray &other) {
    make(other.count);
    std::uninitialized_copy(other.begin(), other.end(), begin());
  }

  size_t count = 0;
  std::unique_ptr<T[]> many;
  alignas(T) std::byte few[usual * sizeof(T)];
};

} // namespace tesela

#endif // TESELA_LAUNCH_SHORTARRAY_H
