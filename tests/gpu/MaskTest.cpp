//===- MaskTest.cpp -------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Masks of every form that the compiler decomposes, on the host and on a GPU: bounds of columns;
// quotients and remainders by large, small, negative and zero divisors; conditions on the row
// alone; reads inside and outside of extents; sums at the ends of i32.
//
//===----------------------------------------------------------------------===//
#include "ForwardCase.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

/// `w` is a third of the keys plus one.
struct MaskText {
  const char *name, *parameters, *mask;
};

constexpr MaskText texts[] = {
    {"sinks", "w: i32", "k < 4 || q >= k && q - k < w"},
    {"prefix_of_batch", "n: i32[B]", "k < n[b] || q >= k"},
    {"band_or_comb", "w: i32", "abs(q - k) < w / 4 || k % 4 == 0"},
    {"far", "w: i32", "abs(q - k) > w"},
    {"extremes", "w: i32", "max(q - k, 2 * k - w) < w && min(q, k) >= 3"},
    {"equal", "w: i32", "q == k || k == w"},
    {"unequal", "w: i32", "k != w && q != k + 1"},
    {"not", "", "!(q >= k) || !(k < 100)"},
    {"heads", "", "h == 0 ? q >= k : k >= q"},
    {"halves", "w: i32", "q < w ? k < w : k >= w"},
    {"wrapping", "", "q - k + 2147483600 > 0"},
    {"wrapping_key", "", "k + 2147483600 > 0"},
    {"ends", "w: i32", "q - k < 2147483647 && k - q > -2147483647 - 1 && q - w * 100000000 < k"},
    {"neighbourhood", "w: i32", "abs(q / w - k / w) <= 1 && abs(q % w - k % w) <= 9"},
    {"narrow_neighbourhood", "w: i32",
     "let c = w / 16 + 1\n mask = abs(q / c - k / c) <= 4 && abs(q % c - k % c) <= 1"},
    {"box", "w: i32",
     "abs(q / (2 * w) - k / (2 * w)) <= 1 && abs(q / w % 2 - k / w % 2) <= 0 && "
     "abs(q % w - k % w) <= 50"},
    {"pages", "", "q / 64 == k / 64 || k % 64 < 2"},
    {"large_pages", "", "abs(q / 150 - k / 150) <= 1 && k % 150 != 7"},
    {"nested_quotient", "", "(k % 100) / 70 == 0 || (k % 200) / 100 == 1 && q >= k"},
    {"nested_remainder", "", "(k % 100) % 70 < 30"},
    {"nested_falling", "", "(q - k) % 300 / 130 == 1 || (300 - k) % 200 % 130 < 9"},
    {"nested_shifted", "", "(k % 150 - 7) / 70 == 0 || (k % 140 + 5) % 130 > 100"},
    {"grid", "w: i32",
     "let y = k % (3 * w) / w\n let x = k % w\n let u = q % (3 * w) / w\n"
     " mask = abs(y - u) < 2 && abs(x - q % w) < 9"},
    // For numbers below 2^29 there are shorter instructions (MaskTranslation.h). Here some are
    // larger.
    {"far_reach", "w: i32, r: i32", "abs(q % w - k % w) <= r * 100000007"},
    {"far_ends", "w: i32, r: i32",
     "q % w - k % w > r - 2147483647 - 1 && k % w + r * 268435456 < r * 268435456 + 9"},
    {"far_choice", "w: i32, r: i32",
     "let x = clamp(q / w, r, 2147483647 - r)\n mask = abs(x - k / w) <= 2147483600 + r"},
    {"row_divisor", "t: i32[Sq]",
     "let w = t[q] % 7 + 1\n mask = q / w == k / 64 || q % w == k % 64"},
    {"head_divisor", "d: i32[H]", "q / (h + 3) == k / 5 || q % (h + 3) == k % d[h]"},
    {"no_divisor", "w: i32", "let z = w - w\n mask = q % z >= k / z && k % 3 != z"},
    {"negative_divisor", "w: i32", "abs(q % -w - k % -w) <= 20 && k / -w <= 0"},
    {"dilated", "w: i32", "(q - k) % w < 40"},
    {"dilated_back", "w: i32", "(k - q) % w != 3 && (k - q) / w <= 1"},
    {"falling", "w: i32", "(Sk - k) / w == 1 || (Sk - k) % w < 5"},
    // Divisors below a block's columns: patterns along a row (PeriodicWords.h).
    {"stride_4", "", "q >= k && (q - k) % 4 == 0 && q - k < 300"},
    {"strides_2_and_3", "", "(q - k) % 2 == 0 && (k - q) % 3 != 1"},
    {"strides_5_to_7", "", "(q - k) % 5 == 2 || (q - k) % 6 < 2 && k % 7 > 3"},
    {"strides_8_and_12", "", "(q - k) % 8 == 1 || (q + k) % 12 >= 9"},
    {"strides_16_and_24", "", "k % 16 == q % 16 || (k + 5) % 24 > q % 24"},
    {"strides_32_and_48", "", "(q - k) % 32 < q % 32 || k % 48 >= q % 7 + 40"},
    {"strides_64_and_96", "", "(k - q) % 64 == q % 5 || (q - k) % 96 <= q % 96 - 20"},
    {"strides_100_and_127", "", "(q - k) % 100 == 0 || k % 127 > 120 && q >= k"},
    {"strides_1_and_128", "", "k % 1 == 0 && (k - q) % 128 != 3 && (q - k) / 1 < 200"},
    {"small_quotients", "", "q / 16 == k / 16 || (q - k) / 24 >= q / 9 - 5 && k / 3 != q / 3"},
    {"negative_quotients", "", "(q - k) / 7 < -3 || (k - q) / 100 < q - 60 && (5 - k) / 9 > -8"},
    {"nested_periods", "", "k / 4 % 5 == q % 5 || (q - k) / 3 % 7 == 2 || k % 12 / 5 == 1"},
    {"sums_of_remainders", "", "(q - k) % 3 + k % 5 < 3 || abs((q - k) % 9 - 4) < 2"},
    {"distance_of_remainders", "", "abs(q % 24 - k % 24) <= 3 && abs(q / 24 - k / 24) <= 2"},
    {"limits_beyond", "w: i32",
     "k % 9 == q - 50 || k % 9 < q - w * 100000000 || k % 6 > 2147483647 - q || k / 6 < -q - w"},
    {"ends_of_i32", "", "(q - k + 2147483000) % 6 == 0 || (k - q - 2147483000) / 5 % 3 == 1"},
    {"dilated_small", "w: i32",
     "let c = w / 16 + 1\n mask = q >= k && (q - k) % c == 0 && q - k < 40 * c"},
    {"strides_of_row", "w: i32",
     "let c = w / 16 + 1\n mask = k % c == q % c || (q - k) % c < q % c - 2"},
    {"small_chunks", "w: i32", "let c = w / 16 + 1\n mask = q / c == k / c || (q - k) / c == 3"},
    {"small_in_large", "w: i32", "let c = w / 16 + 1\n mask = q / w == k / w && k % c == 0"},
    {"dilation_of_head", "w: i32",
     "let c = w / 16 + 1\n let first = h % c\n mask = q % c == first || k % c == first"},
    {"last_of_chunks", "w: i32",
     "let c = w / 9 + 1\n mask = q >= k && (q / c == k / c || k % c >= c - 2)"},
    {"strided_documents", "id: i32[B, Sk], w: i32",
     "let c = w / 16 + 1\n mask = id[b, q] / 64 == id[b, k] / 64 && (q - k) % c == 0"},
    {"stride_of_read", "id: i32[B, Sk]", "id[b, k] % 3 == 0 && (q - k) % 4 != 1"},
    {"pages_of_table", "t: i32[B, Sk]", "t[b, k / 16] % 2 == 0 || k % 16 == 3"},
    {"documents", "id: i32[B, Sk]", "id[b, q] / 16 == id[b, k] / 16"},
    {"documents_causal", "id: i32[B, Sk]", "q >= k && id[b, q] / 16 == id[b, k] / 16"},
    {"behind", "id: i32[Sk]", "k < 5 || id[k - 5] > id[q] && q >= k"},
    {"rows_alone", "a: f32[Sq]", "a[q] < 0.08 || k <= q"},
    {"columns_alone", "a: f32[Sk]", "a[k] < 0.08 || k <= q"},
    {"matrix", "m: i32[Sq, Sk]", "m[q, k] % 3 != 0"},
    {"sine", "", "sin(0.1 * q) >= cos(0.1 * k)"},
    // Extents that the shapes of captures bind: 16.
    {"chunks", "at: i32[M], len: i32[M]",
     "q >= k || any(m < M: q >= 20 * at[m] && k < 20 * at[m] + len[m])"},
    // Reductions that depend on the row, the column, or both, beside conditions on each element.
    {"table_of_row", "t: i32[H, Sq, M]", "k < 5 || any(m < M: t[h, q, m] == k / 7)"},
    {"all_chunks", "at: i32[M], len: i32[M]",
     "q >= k && all(m < M: k < 20 * at[m] || k >= 20 * at[m] + len[m])"},
    {"rounds_of_column", "t: i32[Sk, M], u: i32[Sq]", "all(m < M: t[k, m] != u[q])"},
    {"rounds_beside_reads", "id: i32[B, Sk], at: i32[M]",
     "id[b, q] == id[b, k] || any(m < M: k / 16 == at[m] && (q - k) % 3 == 0)"},
    {"rounds_of_rounds", "t: i32[M]", "any(i < M: any(j < M: t[i] + t[j] == q - k))"},
    {"shape_alone", "at: i32[N]", "q - k < N && k - q < N * N"},
    {"shape_divides", "at: i32[2*M-5, N]", "k % M < N - 3 || q / N == k / M || at[M, q] == k"},
};

struct Point {
  std::string device;
  MaskText text;
  int headDim;
  std::string target; ///< empty: the device's own target
};

std::vector<Point> points(const std::string &device, const std::vector<int> &headDims,
                          const std::string &target = "") {
  std::vector<Point> result;
  for (const MaskText &text : texts)
    for (int headDim : headDims)
      result.push_back({device, text, headDim, target});
  return result;
}

std::vector<Point> gpuPoints() {
  std::vector<Point> all = points("cuda", {64, 128, 256});
  // mma.sync, where a lane holds rows of two strips.
  std::vector<Point> older = points("cuda", {64}, "sm_80");
  all.insert(all.end(), older.begin(), older.end());
  return all;
}

std::string nameOf(const Point &point) {
  return std::string(point.text.name) + "_d" + std::to_string(point.headDim) +
         (point.target.empty() ? "" : "_" + point.target);
}

/// Without this function GoogleTest prints the bytes, which contain addresses.
void PrintTo(const Point &point, std::ostream *stream) { *stream << nameOf(point); }

class Mask : public testing::TestWithParam<Point> {};

TEST_P(Mask, HoldsTheRule) {
  const Point &point = GetParam();
  std::string mask = point.text.mask;
  if (!mask.starts_with("let"))
    mask = "mask = " + mask;
  KernelOptions options;
  options.variantText = "attention " + std::string(point.text.name) + "(" + point.text.parameters +
                        ") {\n " + mask + "\n}";
  options.variantFile = std::string(point.text.name) + ".attn";
  options.inputType = ElementType::bf16;
  options.headDimQk = options.headDimV = point.headDim;
  options.target = point.target;
  // Divisors below and above a block's columns; many blocks; a last block with few rows and keys.
  checkLengths(point.device, options, {{113, 203}, {512, 1000}, {1, 1}});
}

std::string pointName(const testing::TestParamInfo<Point> &info) { return nameOf(info.param); }

INSTANTIATE_TEST_SUITE_P(Host, Mask, testing::ValuesIn(points("host", {64})), pointName);
INSTANTIATE_TEST_SUITE_P(Gpu, Mask, testing::ValuesIn(gpuPoints()), pointName);

} // namespace
