//===- SplitCells.cpp - Deals cells of a sequence to ranks -------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A plan for a new batch takes milliseconds, during the previous step, so these loops are not in
// Python. They read what the count has found for each row of cells, and not the square of cells.
//
//===----------------------------------------------------------------------===//
#include "HostValues.h"
#include "Native.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace tesela::python {

namespace {

/// The number of bits that are set. GCC calls a function for std::popcount, because not every
/// x86-64 processor has the instruction.
long countBits(uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555;
  bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0f;
  return long(bits * 0x0101010101010101 >> 56);
}

/// Sets of cells, in one block of memory.
class CellSets {
public:
  /// Empty sets.
  CellSets(size_t sets, size_t cells)
      : width((cells + 63) / 64), words(sets * width), ends(sets, {width, 0}) {}
  /// A set for each row of CellCounts::needs.
  CellSets(size_t cells, std::vector<uint64_t> needs)
      : width((cells + 63) / 64), words(std::move(needs)), ends(cells, {width, 0}) {
    for (size_t set = 0; set < cells; ++set)
      for (size_t i = 0; i < width; ++i)
        if (words[set * width + i])
          ends[set] = {std::min(ends[set].first, i), i + 1};
  }
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
      count += countBits(others.words[other * width + i] & ~words[set * width + i]);
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

/// What the count has found for each row of cells.
struct Rows {
  std::vector<unsigned long long> work; ///< of each row
  CellSets keys;                        ///< the cells whose keys a row needs

  /// Reads the last two elements of what KeptCells.count returns. Raises and returns nullopt if
  /// they do not belong to a square of cells.
  static std::optional<Rows> read(PyObject *sums, PyObject *needs) {
    size_t cells = size_t(PyList_Size(sums)), width = (cells + 63) / 64;
    std::vector<uint64_t> words(cells * width);
    bool isOfSquare = size_t(PyBytes_Size(needs)) == words.size() * sizeof(uint64_t);
    if (isOfSquare && cells > 0)
      std::memcpy(words.data(), PyBytes_AsString(needs), words.size() * sizeof(uint64_t));
    // More columns than rows may need as many words, but set bits behind the last row's number.
    if (isOfSquare && cells % 64 != 0)
      for (size_t last = width - 1; last < words.size(); last += width)
        isOfSquare = isOfSquare && words[last] >> cells % 64 == 0;
    if (!isOfSquare) {
      raise(TESELA_INVALID_ARGUMENT,
            "there are the sums of %zu rows, and the needed keys of another square of cells: pass "
            "both as KeptCells.count has returned them",
            cells);
      return std::nullopt;
    }
    Rows rows{std::vector<unsigned long long>(cells), CellSets(cells, std::move(words))};
    for (size_t row = 0; row < cells; ++row) {
      rows.work[row] = PyLong_AsUnsignedLongLong(PyList_GetItem(sums, Py_ssize_t(row)));
      if (rows.work[row] == ~0ULL && PyErr_Occurred())
        return std::nullopt;
    }
    return rows;
  }
};

/// The cells of each rank.
using Held = std::vector<std::vector<size_t>>;

/// Deals some cells to ranks, equally many to each, so that each rank stays within its share of the
/// work and needs few keys of other ranks.
class Deal {
public:
  /// Deals these cells.
  Deal(const Rows &rows, const std::vector<size_t> &dealt, size_t ranks, double slack)
      : Deal(rows, ranks, 1) {
    for (size_t rank = 0; rank < ranks; ++rank)
      room.push_back((dealt.size() + ranks - 1 - rank) / ranks);
    setMost(dealt, slack);
    giveNearest(dealt);
    swapUntilEven();
  }

  /// Begins with the cells that the ranks have, and exchanges some of them. Keys count as
  /// additional if no rank of the same node has needed them.
  Deal(const Rows &rows, const Held &given, size_t ranksOfNode, double slack)
      : Deal(rows, given.size(), ranksOfNode) {
    std::vector<size_t> all;
    for (size_t rank = 0; rank < given.size(); ++rank)
      for (size_t cell : given[rank]) {
        all.push_back(cell);
        give(cell, rank);
      }
    setMost(all, slack);
    swapUntilEven();
  }

  const std::vector<size_t> &cellsOf(size_t rank) const { return held[rank]; }
  size_t owner(size_t cell) const { return owners[cell]; }

private:
  Deal(const Rows &rows, size_t ranks, size_t group)
      : cells(rows.work.size()), group(group), owners(cells), work(rows.work), keys(rows.keys),
        loads(ranks), held(ranks), has(ranks / group, cells) {}

  void setMost(const std::vector<size_t> &dealt, double slack) {
    unsigned long long total = 0;
    for (size_t cell : dealt)
      total += work[cell];
    most = slack * double(total) / double(loads.size());
  }

  void give(size_t cell, size_t rank) {
    owners[cell] = rank;
    held[rank].push_back(cell);
    loads[rank] += work[cell];
    has.add(rank / group, keys, cell);
    has.add(rank / group, cell);
  }

  /// Gives each cell, those with much work first, to the rank that needs the fewest additional
  /// keys.
  void giveNearest(const std::vector<size_t> &dealt) {
    size_t ranks = loads.size();
    std::vector<size_t> order(dealt);
    std::ranges::sort(order);
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
        long more = has.lacks(rank / group, keys, cell, fewest);
        if (best == ranks || more < fewest || (more == fewest && loads[rank] < loads[best])) {
          best = rank;
          fewest = more;
        }
      }
      if (best == ranks)
        best = least;
      give(cell, best);
    }
  }

  /// An exchange of a cell of the busiest rank for a lighter cell of another rank.
  struct Exchange {
    size_t *out = nullptr, *in = nullptr; ///< in `held`; null: none is found
    unsigned long long then = 0;          ///< the greater work of the two ranks afterwards
    long more = 0;                        ///< the keys that they then need in addition
  };

  /// The last cells have little work and fill up ranks that have enough. So this exchanges cells of
  /// the busiest rank for lighter ones of other ranks, as long as that helps.
  void swapUntilEven() {
    for (size_t round = 0; round < 16 * loads.size(); ++round) {
      size_t busiest = size_t(std::ranges::max_element(loads) - loads.begin());
      if (double(loads[busiest]) <= most)
        return;
      Exchange best = bestExchange(busiest);
      if (!best.out)
        return;
      size_t other = owners[*best.in];
      unsigned long long less = work[*best.out] - work[*best.in];
      loads[busiest] -= less;
      loads[other] += less;
      has.add(other / group, keys, *best.out);
      has.add(busiest / group, keys, *best.in);
      std::swap(owners[*best.out], owners[*best.in]);
      std::swap(*best.out, *best.in);
    }
  }

  /// The exchange after which the busier of the two ranks has the least work; all of at most `most`
  /// are equally good. Between equally good ones, the one with the fewest additional keys.
  Exchange bestExchange(size_t busiest) {
    std::vector<unsigned long long> heavies;
    for (size_t cell : held[busiest])
      heavies.push_back(work[cell]);
    auto [lightest, heaviest] = std::ranges::minmax(heavies);
    Exchange best{.then = loads[busiest] - 1};
    for (size_t rank = 0; rank < loads.size(); ++rank)
      for (size_t light = 0; light < held[rank].size() && rank != busiest; ++light) {
        // The work of a heavy cell with which the exchange is not worse than the best one.
        unsigned long long of = work[held[rank][light]];
        unsigned long long least = of + std::max(loads[busiest] - best.then, 1ULL);
        unsigned long long greatest = of + best.then - loads[rank];
        if (loads[rank] >= best.then || heaviest < least || lightest > greatest)
          continue;
        for (size_t heavy = 0; heavy < heavies.size(); ++heavy)
          if (heavies[heavy] >= least && heavies[heavy] <= greatest)
            consider(held[busiest][heavy], busiest, held[rank][light], rank, best);
      }
    return best;
  }

  /// Replaces `best` if this exchange is better. Few exchanges come here. Inlined, it would take
  /// the registers from the loop that finds them.
  [[gnu::noinline]] void consider(size_t &out, size_t busiest, size_t &in, size_t rank,
                                  Exchange &best) {
    unsigned long long less = work[out] - work[in];
    // Work is an integer, so "at most `most`" is "at most the integer below it".
    unsigned long long then =
        std::max({loads[busiest] - less, loads[rank] + less, (unsigned long long)(most)});
    if (then > best.then)
      return;
    bool isBetter = !best.out || then < best.then;
    // Counting can stop when another exchange has fewer keys.
    long limit = isBetter ? 2 * long(cells) : best.more;
    long more = has.lacks(rank / group, keys, out, limit);
    if (more < limit)
      more += has.lacks(busiest / group, keys, in, limit - more);
    if (isBetter || more < best.more)
      best = {&out, &in, then, more};
  }

  const size_t cells;
  const size_t group;         ///< neighbouring ranks whose keys are counted together
  double most = 0;            ///< the most work that a rank should have
  std::vector<size_t> owners; ///< the rank of each cell
  const std::vector<unsigned long long> &work;
  const CellSets &keys;
  std::vector<unsigned long long> loads; ///< of each rank
  std::vector<size_t> room;              ///< how many cells each rank gets
  Held held;
  CellSets has; ///< keys that some cell of the rank needs
};

/// Deals all cells. If the ranks are those of several whole nodes, nodes get their cells first, and
/// then the ranks of each node. Last, ranks of all nodes exchange cells until they are even.
Deal dealt(const Rows &rows, size_t ranks, size_t ranksOfNode, double slack) {
  std::vector<size_t> all(rows.work.size());
  std::iota(all.begin(), all.end(), size_t(0));
  if (ranksOfNode < 2 || ranks <= ranksOfNode || ranks % ranksOfNode != 0)
    return Deal(rows, all, ranks, slack);
  Deal nodes(rows, all, ranks / ranksOfNode, slack);
  Held held;
  for (size_t node = 0; node < ranks / ranksOfNode; ++node) {
    Deal within(rows, nodes.cellsOf(node), ranksOfNode, slack);
    for (size_t rank = 0; rank < ranksOfNode; ++rank)
      held.push_back(within.cellsOf(rank));
  }
  return Deal(rows, held, ranksOfNode, slack);
}

/// Whether there is a rank; raises otherwise.
bool checkRanks(Py_ssize_t ranks) {
  if (ranks < 1)
    raise(TESELA_INVALID_ARGUMENT, "there are %zd ranks, there must be at least 1", ranks);
  return ranks >= 1;
}

/// Reads the rank of each cell; false if it raised.
bool readOwners(PyObject *tuple, size_t ranks, std::vector<size_t> &owners) {
  owners.resize(size_t(PyTuple_Size(tuple)));
  for (size_t cell = 0; cell < owners.size(); ++cell) {
    owners[cell] = PyLong_AsSize_t(PyTuple_GetItem(tuple, Py_ssize_t(cell)));
    if (owners[cell] == size_t(-1) && PyErr_Occurred())
      return false;
    if (owners[cell] >= ranks) {
      raise(TESELA_INVALID_ARGUMENT, "a cell's owner is %zu, there are %zu ranks", owners[cell],
            ranks);
      return false;
    }
  }
  return true;
}

} // namespace

PyObject *splitCells(PyObject *, PyObject *arguments) {
  PyObject *sums, *needs, *owners;
  Py_ssize_t ranks;
  if (!PyArg_ParseTuple(arguments, "O!O!O!n", &PyList_Type, &sums, &PyBytes_Type, &needs,
                        &PyTuple_Type, &owners, &ranks) ||
      !checkRanks(ranks))
    return nullptr;
  return guarded([&]() -> PyObject * {
    std::optional<Rows> rows = Rows::read(sums, needs);
    std::vector<size_t> owner;
    if (!rows || !readOwners(owners, size_t(ranks), owner))
      return nullptr;
    size_t cells = rows->work.size();
    if (owner.size() != cells)
      return raise(TESELA_INVALID_ARGUMENT, "%zu cells have an owner, and there are %zu cells",
                   owner.size(), cells);
    std::vector<unsigned long long> loads(static_cast<size_t>(ranks));
    std::vector<long> runs(static_cast<size_t>(ranks)); // runs of neighbouring cells
    CellSets needed(size_t(ranks), cells);
    for (size_t row = 0; row < cells; ++row) {
      loads[owner[row]] += rows->work[row];
      needed.add(owner[row], rows->keys, row);
      runs[owner[row]] += row == 0 || owner[row - 1] != owner[row];
    }
    Owned result(PyList_New(ranks));
    for (size_t rank = 0; result && rank < size_t(ranks); ++rank) {
      long foreign = needed.ofOthers(rank, owner, rank);
      PyObject *pair = Py_BuildValue("Kll", loads[rank], foreign, runs[rank]);
      if (!pair || PyList_SetItem(result.get(), Py_ssize_t(rank), pair) < 0)
        return nullptr;
    }
    return result.release();
  });
}

PyObject *dealCells(PyObject *, PyObject *arguments) {
  PyObject *sums, *needs;
  Py_ssize_t ranks, ranksOfNode;
  double slack;
  if (!PyArg_ParseTuple(arguments, "O!O!nnd", &PyList_Type, &sums, &PyBytes_Type, &needs, &ranks,
                        &ranksOfNode, &slack) ||
      !checkRanks(ranks) || !checkRanks(ranksOfNode))
    return nullptr;
  return guarded([&]() -> PyObject * {
    std::optional<Rows> rows = Rows::read(sums, needs);
    if (!rows)
      return nullptr;
    Deal deal = dealt(*rows, size_t(ranks), size_t(ranksOfNode), slack);
    size_t cells = rows->work.size();
    Owned result(PyTuple_New(Py_ssize_t(cells)));
    for (size_t cell = 0; result && cell < cells; ++cell) {
      PyObject *owner = PyLong_FromSize_t(deal.owner(cell));
      if (!owner || PyTuple_SetItem(result.get(), Py_ssize_t(cell), owner) < 0)
        return nullptr;
    }
    return result.release();
  });
}

} // namespace tesela::python
