//===- ForwardCore.cpp - templates/forward.mlir as a core -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "ForwardCore.h"
#include "HostLaunch.h"

namespace tesela::test {

static const char *core = R"(
!qTile = !tile.tile<[{M}, {DQ}], {T}>
!kTile = !tile.tile<[{N}, {DQ}], {T}>
!vTile = !tile.tile<[{N}, {DV}], {T}>
!sTile = !tile.tile<[{M}, {N}], f32>
!pTile = !tile.tile<[{M}, {N}], {T}>
!oTile = !tile.tile<[{M}, {DV}], f32>
!outTile = !tile.tile<[{M}, {DV}], {T}>
!row = !tile.tile<[{M}], f32>
!qkView = !tile.view<[?, ?, ?, {DQ}], {T}>
!voView = !tile.view<[?, ?, ?, {DV}], {T}>
!lseView = !tile.view<[?, ?, ?], f32, contiguous>
!rows = !tile.block<query, {M}>
!keys = !tile.block<key, {N}>
tile.kernel @forward(%q: !qkView, %k: !qkView, %v: !voView, %o: !voView, %lse: !lseView, %scale: f32)
    attributes {schedule = #tile.schedule<block_m = {M}, block_n = {N}, stages = 1, warps = 1, q_in_registers = false{C}>} {
  %rows = tile.work : !rows
  %Q = tile.load %q[%rows] : !qkView[!rows] -> !qTile
  %log2e = arith.constant 1.44269504 : f32
  %factor = arith.mulf %scale, %log2e : f32
  %zero = arith.constant 0.0 : f32
  %minusInf = arith.constant 0xFF800000 : f32
  %m0 = tile.constant 0xFF800000 : !row
  %l0 = tile.constant 0.0 : !row
  %O0 = tile.constant 0.0 : !oTile
  %S0 = tile.constant 0.0 : !sTile
  %batch, %head, %kvHead, %first = tile.coordinates %rows : !rows
  %Sk = tile.extent "Sk"
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %blockM = arith.constant {M} : i32
  %blockN = arith.constant {N} : i32
  %lastRow = arith.addi %first, %blockM : i32
  %end = arith.minsi %lastRow, %Sk : i32
  %blocks = arith.ceildivsi %end, %blockN : i32
  %m, %l, %O = scf.for %index = %c0 to %blocks step %c1
      iter_args(%m1 = %m0, %l1 = %l0, %O1 = %O0) -> (!row, !row, !oTile) : i32 {
    %key = arith.muli %index, %blockN : i32
    %keys = tile.block %key of %rows : !rows -> !keys
    %b2, %h2, %kv2, %firstKey = tile.coordinates %keys : !keys
    %K = tile.load %k[%keys] : !qkView[!keys] -> !kTile
    %QK = tile.dot %Q, %K transposed plus %S0 : (!qTile, !kTile, !sTile) -> !sTile
    %lastKey = arith.addi %firstKey, %blockN : i32
    %beyond = arith.cmpi sgt, %lastKey, %first : i32
    %tail = arith.cmpi sgt, %lastKey, %Sk : i32
    %partial = arith.ori %beyond, %tail : i1
    %S = scf.if %partial -> (!sTile) {
      %masked = tile.map %QK : (!sTile) -> !sTile {
      ^body(%s: f32, %i: i32, %j: i32):
        %qi = arith.addi %first, %i : i32
        %ki = arith.addi %firstKey, %j : i32
        %causal = arith.cmpi sge, %qi, %ki : i32
        %inside = arith.cmpi slt, %ki, %Sk : i32
        %kept = arith.andi %causal, %inside : i1
        %chosen = arith.select %kept, %s, %minusInf : f32
        tile.yield %chosen : f32
      }
      scf.yield %masked : !sTile
    } else {
      scf.yield %QK : !sTile
    }
    %m2 = tile.reduce max %S from %m1 : !sTile -> !row
    %ref = tile.map %m2 : (!row) -> !row {
    ^body(%x: f32, %i: i32, %j: i32):
      %none = arith.cmpf oeq, %x, %minusInf : f32
      %scaled = arith.mulf %x, %factor : f32
      %chosen = arith.select %none, %zero, %scaled : f32
      tile.yield %chosen : f32
    }
    %P = tile.map %S, %ref : (!sTile, !row) -> !sTile {
    ^body(%s: f32, %r: f32, %i: i32, %j: i32):
      %negative = arith.negf %r : f32
      %exponent = math.fma %s, %factor, %negative : f32
      %p = math.exp2 %exponent : f32
      tile.yield %p : f32
    }
    %alpha = tile.map %m1, %ref : (!row, !row) -> !row {
    ^body(%x: f32, %r: f32, %i: i32, %j: i32):
      %negative = arith.negf %r : f32
      %exponent = math.fma %x, %factor, %negative : f32
      %a = math.exp2 %exponent : f32
      tile.yield %a : f32
    }
    %scaledL = tile.map %l1, %alpha : (!row, !row) -> !row {
    ^body(%x: f32, %a: f32, %i: i32, %j: i32):
      %y = arith.mulf %x, %a : f32
      tile.yield %y : f32
    }
    %l2 = tile.reduce add %P from %scaledL : !sTile -> !row
    %O2 = tile.map %O1, %alpha : (!oTile, !row) -> !oTile {
    ^body(%x: f32, %a: f32, %i: i32, %j: i32):
      %y = arith.mulf %x, %a : f32
      tile.yield %y : f32
    }
    %Pi = tile.convert %P : !sTile -> !pTile
    %V = tile.load %v[%keys] : !voView[!keys] -> !vTile
    %O3 = tile.dot %Pi, %V plus %O2 : (!pTile, !vTile, !oTile) -> !oTile
    scf.yield %m2, %l2, %O3 : !row, !row, !oTile
  }
  %L = tile.total %l : !row -> !row
  %Y = tile.map %O, %L : (!oTile, !row) -> !oTile {
  ^body(%x: f32, %t: f32, %i: i32, %j: i32):
    %none = arith.cmpf oeq, %t, %zero : f32
    %quotient = arith.divf %x, %t : f32
    %y = arith.select %none, %zero, %quotient : f32
    tile.yield %y : f32
  }
  %ln2 = arith.constant 0.693147181 : f32
  %E = tile.map %m, %L : (!row, !row) -> !row {
  ^body(%x: f32, %t: f32, %i: i32, %j: i32):
    %none = arith.cmpf oeq, %t, %zero : f32
    %log = math.log2 %t : f32
    %scaled = arith.mulf %x, %factor : f32
    %sum = arith.addf %scaled, %log : f32
    %natural = arith.mulf %sum, %ln2 : f32
    %y = arith.select %none, %minusInf, %natural : f32
    tile.yield %y : f32
  }
  %Yi = tile.convert %Y : !oTile -> !outTile
  tile.store %Yi, %o[%rows] : !outTile, !voView[!rows]
  tile.store %E, %lse[%rows] : !row, !lseView[!rows]
}
)";

std::string causalForwardCore(ElementType type, int64_t blockM, int64_t blockN, int64_t dQk,
                              int64_t dV, const std::string &choices) {
  return substitute(core, {{"M", std::to_string(blockM)},
                           {"N", std::to_string(blockN)},
                           {"DQ", std::to_string(dQk)},
                           {"DV", std::to_string(dV)},
                           {"C", choices},
                           {"T", std::string(elementTypeName(type))}});
}

} // namespace tesela::test
