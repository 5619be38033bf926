//===- SplitCells.cpp - Deals cells of a sequence to ranks -------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A plan for a new batch takes milliseconds, during the previous step. The square of cells is too
// large for loops in Python.
//
//===----------------------------------------------------------------------===//
#include "HostValues.h"
#include "Native.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace tesela::python {

namespace {

/// Sets of cells, in one block of memory.
class CellSets {
public:
  CellSets(size_t sets, size_t cells)
      : width((cells + 63) / 64), words(sets * width), ends(sets, {width, 0}) {}
  void add(size_t set, size_t cell) {
    words[set * width + cell / 64] |= uint64_t(1) << cell % 64;
    ends[set].first = std::min(ends[set].first, cell / 64);
    ends[set].second = std::max(ends[set].second, cell / 64 + 1);
  }
  /// Adds the cells of a set of `others`.
  void add(size_t set, const CellSets &others, size_t other) {
    auto [first, end] = others.ends[other];
    for (size_t i = first; i < end; ++i)
      words[set * width + i] |= others.words[other * width + i];
    ends[set].first = std::min(ends[set].first, first);
    ends[set].second = std::max(ends[set].second, end);
  }
  /// How many cells of a set of `others` are not in `set`. Stops counting above `most`.
  long lacks(size_t set, const CellSets &others, size_t other, long most) const {
    long count = 0;
    auto [first, end] = others.ends[other];
    for (size_t i = first; i < end && count <= most; ++i)
      count += std::popcount(others.words[other * width + i] & ~words[set * width + i]);
    return count;
  }
  /// The number of a set's cells that are not owned by `owner`.
  long ofOthers(size_t set, const std::vector<size_t> &owners, size_t owner) const {
    long count = 0;
    auto [first, end] = ends[set];
    for (size_t i = first; i < end; ++i)
      for (uint64_t word = words[set * width + i]; word; word &= word - 1)
        count += owners[i * 64 + size_t(std::countr_zero(word))] != owner;
    return count;
  }

private:
  size_t width; ///< words of a set
  std::vector<uint64_t> words;
  std::vector<std::pair<size_t, size_t>> ends; ///< a set's cells are in words [first, second)
};

/// The work of each pair of a cell of queries and a cell of keys.
class Square {
public:
  /// Raises and returns false if `bytes` is not a square of `count` cells.
  bool read(PyObject *bytes, size_t count) {
    cells = count;
    if (size_t(PyByteArray_Size(bytes)) != cells * cells * sizeof(uint32_t)) {
      raise(TESELA_INVALID_ARGUMENT, "there are owners of %zu cells, and another square", cells);
      return false;
    }
    work = reinterpret_cast<const uint32_t *>(PyByteArray_AsString(bytes));
    return true;
  }
  /// Returns the work of a cell of queries with all keys, and adds the keys that it needs to a set.
  unsigned long long row(size_t cell, CellSets &keys, size_t set) const {
    const uint32_t *of = work + cell * cells;
    unsigned long long sum = 0;
    auto look = [&](size_t first, size_t end) {
      for (size_t column = first; column < end; ++column)
        if (of[column]) {
          sum += of[column];
          keys.add(set, column);
        }
    };
    size_t first = 0;
    for (; first + several <= cells; first += several)
      // Most cells of most masks are empty, so several are tested at once.
      if (std::accumulate(of + first, of + first + several, uint32_t(0), std::bit_or()))
        look(first, first + several);
    look(first, cells);
    return sum;
  }

  size_t cells = 0;

private:
  static constexpr size_t several = 16;
  const uint32_t *work = nullptr;
};

/// Deals cells to ranks, equally many to each, so that each rank stays within its share of the work
/// and needs few keys of other ranks.
class Deal {
public:
  Deal(const Square &square, size_t ranks, double slack)
      : cells(square.cells), owners(cells), work(cells), keys(cells, cells), loads(ranks),
        held(ranks), has(ranks, cells) {
    for (size_t row = 0; row < cells; ++row)
      work[row] = square.row(row, keys, row);
    for (size_t rank = 0; rank < ranks; ++rank)
      room.push_back((cells + ranks - 1 - rank) / ranks);
    most = slack * double(std::accumulate(work.begin(), work.end(), 0ULL)) / double(ranks);
    giveNearest();
    swapUntilEven();
  }

  size_t owner(size_t cell) const { return owners[cell]; }

private:
  /// Gives each cell, those with much work first, to the rank that needs the fewest additional
  /// keys.
  void giveNearest() {
    size_t ranks = loads.size();
    std::vector<size_t> order(cells);
    std::iota(order.begin(), order.end(), size_t(0));
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return work[a] > work[b]; });
    for (size_t cell : order) {
      size_t best = ranks, least = ranks;
      long fewest = long(cells);
      for (size_t rank = 0; rank < ranks; ++rank) {
        if (held[rank].size() == room[rank])
          continue;
        if (least == ranks || loads[rank] < loads[least])
          least = rank;
        if (double(loads[rank] + work[cell]) > most)
          continue;
        long more = has.lacks(rank, keys, cell, fewest);
        if (best == ranks || more < fewest || (more == fewest && loads[rank] < loads[best])) {
          best = rank;
          fewest = more;
        }
      }
      if (best == ranks)
        best = least;
      owners[cell] = best;
      held[best].push_back(cell);
      loads[best] += work[cell];
      has.add(best, keys, cell);
      has.add(best, cell);
    }
  }

  /// The last cells have little work and fill up ranks that have enough. So this exchanges cells of
  /// the busiest rank for lighter ones of other ranks, as long as that helps.
  void swapUntilEven() {
    for (size_t round = 0; round < 16 * loads.size(); ++round) {
      size_t busiest = size_t(std::ranges::max_element(loads) - loads.begin());
      if (double(loads[busiest]) <= most)
        return;
      double best = double(loads[busiest]);
      long fewest = 2 * long(cells);
      size_t *out = nullptr, *in = nullptr;
      for (size_t rank = 0; rank < loads.size(); ++rank)
        for (size_t &light : held[rank])
          for (size_t &heavy : held[busiest]) {
            if (rank == busiest || work[heavy] <= work[light])
              continue;
            unsigned long long less = work[heavy] - work[light];
            double then = double(std::max(loads[busiest] - less, loads[rank] + less));
            then = std::max(then, most);
            if (then > best || then >= double(loads[busiest]))
              continue;
            long more = has.lacks(rank, keys, heavy, long(cells)) +
                        has.lacks(busiest, keys, light, long(cells));
            if (then < best || more < fewest) {
              best = then;
              fewest = more;
              out = &heavy;
              in = &light;
            }
          }
      if (!out)
        return;
      size_t other = owners[*in];
      unsigned long long less = work[*out] - work[*in];
      loads[busiest] -= less;
      loads[other] += less;
      has.add(other, keys, *out);
      has.add(busiest, keys, *in);
      std::swap(owners[*out], owners[*in]);
      std::swap(*out, *in);
    }
  }

  const size_t cells;
  double most = 0;                       ///< the most work that a rank should have
  std::vector<size_t> owners;            ///< the rank of each cell
  std::vector<unsigned long long> work;  ///< of each cell
  CellSets keys;                         ///< the cells whose keys a cell needs
  std::vector<unsigned long long> loads; ///< of each rank
  std::vector<size_t> room;              ///< how many cells each rank gets
  std::vector<std::vector<size_t>> held; ///< cells of each rank
  CellSets has;                          ///< keys that some cell of the rank needs
};

} // namespace

PyObject *splitCells(PyObject *, PyObject *arguments) {
  PyObject *bytes, *owners;
  Py_ssize_t ranks;
  if (!PyArg_ParseTuple(arguments, "O!O!n", &PyByteArray_Type, &bytes, &PyList_Type, &owners,
                        &ranks))
    return nullptr;
  return guarded([&]() -> PyObject * {
    Square square;
    if (!square.read(bytes, size_t(PyList_Size(owners))))
      return nullptr;
    std::vector<size_t> owner(square.cells);
    for (size_t cell = 0; cell < square.cells; ++cell) {
      Py_ssize_t rank = PyLong_AsSsize_t(PyList_GetItem(owners, Py_ssize_t(cell)));
      if (rank == -1 && PyErr_Occurred())
        return nullptr;
      if (rank < 0 || rank >= ranks)
        return raise(TESELA_INVALID_ARGUMENT, "a cell's owner is %zd, there are %zd ranks", rank,
                     ranks);
      owner[cell] = size_t(rank);
    }
    std::vector<unsigned long long> loads(static_cast<size_t>(ranks));
    std::vector<long> runs(static_cast<size_t>(ranks)); // runs of neighbouring cells
    CellSets needs(size_t(ranks), square.cells);
    for (size_t row = 0; row < square.cells; ++row) {
      loads[owner[row]] += square.row(row, needs, owner[row]);
      runs[owner[row]] += row == 0 || owner[row - 1] != owner[row];
    }
    Owned result(PyList_New(ranks));
    for (size_t rank = 0; result && rank < size_t(ranks); ++rank) {
      long foreign = needs.ofOthers(rank, owner, rank);
      PyObject *pair = Py_BuildValue("Kll", loads[rank], foreign, runs[rank]);
      if (!pair || PyList_SetItem(result.get(), Py_ssize_t(rank), pair) < 0)
        return nullptr;
    }
    return result.release();
  });
}

PyObject *dealCells(PyObject *, PyObject *arguments) {
  PyObject *bytes;
  Py_ssize_t cells, ranks;
  double slack;
  if (!PyArg_ParseTuple(arguments, "O!nnd", &PyByteArray_Type, &bytes, &cells, &ranks, &slack))
    return nullptr;
  return guarded([&]() -> PyObject * {
    Square square;
    if (!square.read(bytes, size_t(cells)))
      return nullptr;
    Deal deal(square, size_t(ranks), slack);
    Owned result(PyList_New(cells));
    for (size_t cell = 0; result && cell < square.cells; ++cell) {
      PyObject *owner = PyLong_FromSize_t(deal.owner(cell));
      if (!owner || PyList_SetItem(result.get(), Py_ssize_t(cell), owner) < 0)
        return nullptr;
    }
    return result.release();
  });
}

} // namespace tesela::python
