//===- CaptureBounds.cpp - Least and largest elements of boxes --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "visits/CaptureBounds.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

namespace tesela {

namespace {

/// A vector of 16 bytes: every x86-64 processor has registers for it.
typedef int32_t FourIntegers __attribute__((vector_size(16)));

FourIntegers lesser(FourIntegers a, FourIntegers b) { return a < b ? a : b; }
FourIntegers greater(FourIntegers a, FourIntegers b) { return a > b ? a : b; }

/// Element i of the result is `of` over the elements of x[i].
template <FourIntegers (*of)(FourIntegers, FourIntegers)>
FourIntegers ofEachVector(const FourIntegers (&x)[4]) {
  FourIntegers first = of(__builtin_shufflevector(x[0], x[1], 0, 4, 1, 5),
                          __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7));
  FourIntegers second = of(__builtin_shufflevector(x[2], x[3], 0, 4, 1, 5),
                           __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7));
  return of(__builtin_shufflevector(first, second, 0, 1, 4, 5),
            __builtin_shufflevector(first, second, 2, 3, 6, 7));
}

} // namespace

struct CaptureBounds::Tables {
  virtual ~Tables() = default;
  virtual void of(const Scalar *const *low, const Scalar *const *high, int64_t count, Scalar *least,
                  Scalar *largest) = 0;
};

/// T is float for f32, f16 and bf16, and int32_t for i32 and bool (bytes).
template <typename T> struct CaptureBounds::TablesOf : CaptureBounds::Tables {
  TablesOf(const CaptureView &view, ElementType type)
      : view(view), type(type), axes(view.extents.size()),
        isEmpty(llvm::is_contained(view.extents, 0)) {}

  void of(const Scalar *const *low, const Scalar *const *high, int64_t count, Scalar *least,
          Scalar *largest) override {
    llvm::SmallVector<int64_t, 4> from(axes.size()), to(axes.size());
    for (int64_t box = 0; box < count; ++box) {
      Pair found{};
      if (!isEmpty) {
        for (size_t axis = 0; axis < axes.size(); ++axis) {
          int64_t last = view.extents[axis] - 1;
          from[axis] = std::clamp<int64_t>(low[axis][box].integer, 0, last);
          to[axis] = std::clamp<int64_t>(high[axis][box].integer, 0, last);
        }
        found = ofBox(from, to);
      }
      if constexpr (std::is_same_v<T, float>) {
        least[box].number = found.least;
        largest[box].number = found.largest;
      } else {
        least[box].integer = found.least;
        largest[box].integer = found.largest;
      }
    }
  }

private:
  static constexpr int64_t fanOut = 8;

  struct Pair {
    T least, largest; ///< both NaN if one element is NaN

    void take(const Pair &other) {
      if constexpr (std::is_same_v<T, float>) {
        if (std::isnan(least) || std::isnan(other.least)) {
          least = largest = std::nanf("");
          return;
        }
      }
      least = std::min(least, other.least);
      largest = std::max(largest, other.largest);
    }
  };

  /// The bounds of no elements: the first element replaces them.
  static constexpr Pair nothing =
      std::is_same_v<T, float>
          ? Pair{std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::infinity()}
          : Pair{std::numeric_limits<T>::max(), std::numeric_limits<T>::min()};

  /// The table of one axis. A line has all elements along the axis, for fixed other indices.
  struct Axis {
    std::once_flag once;              ///< for everything but the pairs
    std::atomic<bool> isMade = false; ///< asked before `once`, which costs more
    /// Level l has of each line ⌈extent / 8^(l + 1)⌉ pairs, line after line.
    std::vector<std::unique_ptr<Pair[]>> levels;
    std::vector<int64_t> lengths;     ///< of a line in each level
    std::vector<int64_t> lineStrides; ///< of the line's number, by axis; 0 of this one
    int64_t lines = 1;
    // The table is made in parts. A part has some lines, or some elements of one line.
    int64_t linesOfPart = 1, partsOfLine = 1, parts = 0;
    size_t levelsOfPart = 0; ///< the levels above have pairs of several parts
    std::atomic<int64_t> nextPart = 0, unfinished = 0;
  };

  /// A part has about as many elements as levelsInPart levels have under one pair.
  static constexpr size_t levelsInPart = 5;
  static constexpr int64_t elementsOfPart = 32768;
  static_assert(elementsOfPart == fanOut * fanOut * fanOut * fanOut * fanOut);

  const CaptureView view;
  const ElementType type;
  std::vector<Axis> axes;
  const bool isEmpty;

  Pair elementAt(int64_t offset) const {
    T value;
    if constexpr (std::is_same_v<T, float>) {
      auto halves = static_cast<const uint16_t *>(view.data);
      value = type == ElementType::f32   ? static_cast<const float *>(view.data)[offset]
              : type == ElementType::f16 ? f16ToFloat(halves[offset])
                                         : bf16ToFloat(halves[offset]);
    } else {
      value = type == ElementType::boolean ? static_cast<const uint8_t *>(view.data)[offset]
                                           : static_cast<const int32_t *>(view.data)[offset];
    }
    return {value, value};
  }

  /// Uses lines along the last axis in which the box extends, and loops over the other axes.
  Pair ofBox(llvm::MutableArrayRef<int64_t> index, llvm::ArrayRef<int64_t> to) {
    size_t along = axes.size(), extending = 0;
    int64_t offset = 0;
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      offset += index[axis] * view.strides[axis];
      if (index[axis] == to[axis])
        continue;
      along = axis;
      ++extending;
    }
    if (extending == 0)
      return elementAt(offset);
    const Axis &table = tableOf(along);
    int64_t first = index[along], last = to[along], stride = view.strides[along], line = 0;
    for (size_t axis = 0; axis < axes.size(); ++axis)
      line += index[axis] * table.lineStrides[axis];
    offset -= first * stride;
    Pair found = ofLine(table, line, offset, stride, first, last + 1);
    if (extending == 1)
      return found;
    llvm::SmallVector<int64_t, 4> from(index);
    while (true) {
      size_t axis = axes.size();
      for (; axis > 0; --axis) {
        if (axis - 1 == along)
          continue;
        int64_t steps = 1;
        bool isAtEnd = index[axis - 1] == to[axis - 1];
        if (isAtEnd)
          steps = from[axis - 1] - index[axis - 1];
        index[axis - 1] += steps;
        offset += steps * view.strides[axis - 1];
        line += steps * table.lineStrides[axis - 1];
        if (!isAtEnd)
          break;
      }
      if (axis == 0)
        return found;
      found.take(ofLine(table, line, offset, stride, first, last + 1));
    }
  }

  /// The bounds of a line's elements from `begin` to `end` - 1; element 0 is at `offset`.
  Pair ofLine(const Axis &table, int64_t line, int64_t offset, int64_t stride, int64_t begin,
              int64_t end) const {
    Pair found = nothing;
    for (; begin < end && begin % fanOut; ++begin)
      found.take(elementAt(offset + begin * stride));
    for (; begin < end && end % fanOut; --end)
      found.take(elementAt(offset + (end - 1) * stride));
    for (size_t level = 0; begin < end; ++level) {
      begin /= fanOut;
      end /= fanOut;
      const Pair *pairs = table.levels[level].get() + line * table.lengths[level];
      bool isLast = level + 1 == table.levels.size();
      for (; begin < end && (isLast || begin % fanOut); ++begin)
        found.take(pairs[begin]);
      for (; begin < end && end % fanOut; --end)
        found.take(pairs[end - 1]);
    }
    return found;
  }

  /// Threads usually need a new table at the same time. Each of them makes parts of it until none
  /// is left, and waits for the others.
  const Axis &tableOf(size_t along) {
    Axis &axis = axes[along];
    if (axis.isMade.load(std::memory_order_acquire))
      return axis;
    std::call_once(axis.once, [&] { divide(axis, along); });
    for (int64_t part; (part = axis.nextPart.fetch_add(1)) < axis.parts;) {
      makePart(axis, along, part);
      if (axis.unfinished.fetch_sub(1) > 1)
        continue;
      for (size_t level = axis.levelsOfPart; level < axis.levels.size(); ++level)
        for (int64_t line = 0; line < axis.lines; ++line)
          makePairs(axis, along, level, line, 0, axis.lengths[level]);
      axis.isMade.store(true, std::memory_order_release);
      axis.isMade.notify_all();
    }
    axis.isMade.wait(false, std::memory_order_acquire);
    return axis;
  }

  /// Divides the work, and allocates the pairs.
  void divide(Axis &axis, size_t along) const {
    int64_t extent = view.extents[along];
    axis.lines = 1;
    axis.lineStrides.assign(axes.size(), 0);
    for (size_t other = axes.size(); other-- > 0;)
      if (other != along) {
        axis.lineStrides[other] = axis.lines;
        axis.lines *= view.extents[other];
      }
    axis.levels.clear(); // memory may have run out before
    axis.lengths.clear();
    for (int64_t length = extent; length > 1;) {
      length = (length + fanOut - 1) / fanOut;
      axis.levels.push_back(std::make_unique_for_overwrite<Pair[]>(size_t(axis.lines * length)));
      axis.lengths.push_back(length);
    }
    axis.partsOfLine = (extent + elementsOfPart - 1) / elementsOfPart;
    axis.linesOfPart = std::max<int64_t>(elementsOfPart / extent, 1);
    axis.levelsOfPart = axis.partsOfLine > 1 ? levelsInPart : axis.levels.size();
    axis.parts = (axis.lines + axis.linesOfPart - 1) / axis.linesOfPart * axis.partsOfLine;
    axis.unfinished = axis.parts;
  }

  void makePart(Axis &axis, size_t along, int64_t part) const {
    int64_t firstLine = part / axis.partsOfLine * axis.linesOfPart;
    int64_t endLine = std::min(firstLine + axis.linesOfPart, axis.lines);
    int64_t begin = part % axis.partsOfLine * elementsOfPart;
    int64_t end = std::min(begin + elementsOfPart, view.extents[along]);
    for (size_t level = 0; level < axis.levelsOfPart; ++level) {
      begin /= fanOut;
      end = (end + fanOut - 1) / fanOut;
      for (int64_t line = firstLine; line < endLine; ++line)
        makePairs(axis, along, level, line, begin, end);
    }
  }

  /// Makes the pairs from `begin` to `end` - 1 of a line from the level below.
  void makePairs(Axis &axis, size_t along, size_t level, int64_t line, int64_t begin,
                 int64_t end) const {
    Pair *pairs = axis.levels[level].get() + line * axis.lengths[level];
    if (level > 0) {
      const Pair *below = axis.levels[level - 1].get() + line * axis.lengths[level - 1];
      return takeEach(pairs, begin, end, axis.lengths[level - 1],
                      [&](int64_t at) { return below[at]; });
    }
    int64_t extent = view.extents[along], stride = view.strides[along];
    int64_t offset = offsetOf(axis, line);
    if constexpr (std::is_same_v<T, int32_t>)
      if (type == ElementType::i32 && stride == 1) {
        const int32_t *from = static_cast<const int32_t *>(view.data) + offset + begin * fanOut;
        return boundRow(from, std::min(end * fanOut, extent) - begin * fanOut, pairs + begin);
      }
    takeEach(pairs, begin, end, extent,
             [&](int64_t at) { return elementAt(offset + at * stride); });
  }

  /// Pairs of 8 neighbours each, of which there are `count`.
  template <typename Below>
  static void takeEach(Pair *pairs, int64_t begin, int64_t end, int64_t count, Below below) {
    for (int64_t i = begin; i < end; ++i) {
      Pair pair = below(i * fanOut);
      for (int64_t at = i * fanOut + 1; at < std::min((i + 1) * fanOut, count); ++at)
        pair.take(below(at));
      pairs[i] = pair;
    }
  }

  /// The first level of a line of i32 without gaps, which is what most masks read: four pairs at a
  /// time.
  static void boundRow(const int32_t *from, int64_t count, Pair *to) {
    int64_t i = 0;
    for (; (i + 4) * fanOut <= count; i += 4) {
      FourIntegers least[4], largest[4];
      for (int64_t j = 0; j < 4; ++j) {
        FourIntegers first, second;
        std::memcpy(&first, from + (i + j) * fanOut, sizeof first);
        std::memcpy(&second, from + (i + j) * fanOut + 4, sizeof second);
        least[j] = lesser(first, second);
        largest[j] = greater(first, second);
      }
      FourIntegers low = ofEachVector<lesser>(least), high = ofEachVector<greater>(largest);
      FourIntegers pairs[2] = {__builtin_shufflevector(low, high, 0, 4, 1, 5),
                               __builtin_shufflevector(low, high, 2, 6, 3, 7)};
      static_assert(sizeof pairs == 4 * sizeof(Pair));
      std::memcpy(static_cast<void *>(to + i), pairs, sizeof pairs);
    }
    for (; i * fanOut < count; ++i) {
      Pair pair{T(from[i * fanOut]), T(from[i * fanOut])};
      for (int64_t at = i * fanOut + 1; at < std::min((i + 1) * fanOut, count); ++at)
        pair.take({T(from[at]), T(from[at])});
      to[i] = pair;
    }
  }

  /// The offset of a line's first element.
  int64_t offsetOf(const Axis &axis, int64_t line) const {
    int64_t offset = 0;
    for (auto [extent, lineStride, stride] :
         llvm::zip(view.extents, axis.lineStrides, view.strides))
      if (lineStride > 0)
        offset += line / lineStride % extent * stride;
    return offset;
  }
};

CaptureBounds::CaptureBounds(const CaptureView &view, ElementType type) {
  if (type == ElementType::i32 || type == ElementType::boolean)
    tables = std::make_unique<TablesOf<int32_t>>(view, type);
  else
    tables = std::make_unique<TablesOf<float>>(view, type);
}

CaptureBounds::~CaptureBounds() = default;

void CaptureBounds::of(const Scalar *const *low, const Scalar *const *high, int64_t count,
                       Scalar *least, Scalar *largest) const {
  tables->of(low, high, count, least, largest);
}

} // namespace tesela
