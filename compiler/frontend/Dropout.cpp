//===- Dropout.cpp - Which pairs a launch drops -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Dropout.h"

#include <bit>

namespace tesela {

std::vector<Parameter> dropoutParameters() {
  auto scalar = [](const char *name, ElementType type, std::optional<double> defaultValue) {
    Parameter parameter;
    parameter.name = name;
    parameter.type = type;
    parameter.defaultValue = defaultValue;
    return parameter;
  };
  std::vector<Parameter> parameters = {scalar("dropout.p", ElementType::f32, std::nullopt),
                                       scalar("dropout.seed", ElementType::i32, std::nullopt),
                                       scalar("dropout.seed_high", ElementType::i32, 0),
                                       scalar("dropout.offset", ElementType::i32, 0),
                                       scalar("dropout.offset_high", ElementType::i32, 0),
                                       scalar("dropout.first_q", ElementType::i32, 0),
                                       scalar("dropout.first_k", ElementType::i32, 0)};
  Parameter &state = parameters.emplace_back();
  state.name = "dropout.state";
  state.type = ElementType::i32;
  state.isCapture = true;
  state.extents = {{1, "dropout.words", 0}};
  return parameters;
}

bool isDropoutParameter(const Parameter &parameter) {
  return parameter.name.starts_with("dropout.");
}

Dropout Dropout::ofScalars(const uint32_t *bits, const int32_t *state) {
  auto word = [&](int number) { return uint64_t(bits[1 + number] ^ uint32_t(state[number])); };
  Dropout dropout(std::bit_cast<float>(bits[0]), word(1) << 32 | word(0), word(3) << 32 | word(2));
  dropout.firstQuery = bits[1 + dropoutStateWords];
  dropout.firstKey = bits[2 + dropoutStateWords];
  return dropout;
}

Dropout::Dropout(float probability, uint64_t seed, uint64_t offset)
    : probability(probability),
      start(philox({uint32_t(offset), uint32_t(offset >> 32), 0, 0}, seed, /*rounds=*/10)),
      threshold(uint64_t(double(probability) * 0x1p39)) {}

double Dropout::scale() const { return probability < 1 ? 1 / (1 - probability) : 0; }

Dropout::Words Dropout::philox(Words counter, uint64_t key, int rounds) {
  uint32_t key0 = uint32_t(key), key1 = uint32_t(key >> 32);
  for (int round = 0; round < rounds; ++round) {
    uint64_t first = uint64_t(0xD2511F53) * counter[0], second = uint64_t(0xCD9E8D57) * counter[2];
    counter = {uint32_t(second >> 32) ^ counter[1] ^ key0, uint32_t(second),
               uint32_t(first >> 32) ^ counter[3] ^ key1, uint32_t(first)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

bool Dropout::drops(uint32_t head, uint32_t q, uint32_t k) const {
  q += firstQuery;
  k += firstKey;
  auto block = [](uint32_t index) { return index / 16 * 4 + index % 8 / 2; };
  Words counter = {start[0] ^ block(k), start[1] ^ block(q), start[2] ^ head, start[3]};
  Words random = philox(counter, /*key=*/0, /*rounds=*/7);
  uint32_t bit = q % 2 * 8 + q / 8 % 2 * 4 + k / 8 % 2 * 2 + k % 2;
  uint64_t number = 0; // 39 bits; the upper 8 belong to this pair only
  for (uint32_t half : {16, 0})
    for (uint32_t word : random)
      number = number * 2 + (word >> (half + bit) & 1);
  uint32_t shared = random[0] ^ std::rotl(random[1], 13);
  number = number << 31 | (shared & 0x7FFFFFFF);
  return number < threshold;
}

} // namespace tesela
