//===- Attn.td - The attn dialect ----------------------------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_ATTN
#define TESELA_ATTN

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Attn_Dialect : Dialect {
  let name = "attn";
  let cppNamespace = "::tesela::attn";
  let summary = "What an attention variant computes: its score, its mask, its parameters.";
  let description = [{
    A variant is two functions of one pair of a query and a key: the score, which
    replaces `s = scale * q.k`, and the mask, which says whether the pair is kept.
    Their bodies are `arith` and `math` on f32, signless i32 and i1, plus the few
    operations below. All of them are total and pure: i32 wraps, division by zero
    gives 0, and a read outside a tensor gives the nearest element.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Attn_Attr<string name, string attrMnemonic> : AttrDef<Attn_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Attn_ScalarAttr : Attn_Attr<"Scalar", "scalar"> {
  let summary = "A scalar parameter: its name, its type (i32 or f32), and a default.";
  let description = [{
    Example: `#attn.scalar<"window", i32, 1024 : i32>`, `#attn.scalar<"cap", f32>`
  }];
  let parameters = (ins StringRefParameter<"the name">:$name, "::mlir::Type":$type,
                        OptionalParameter<"::mlir::TypedAttr">:$defaultValue);
  let assemblyFormat = "`<` $name `,` $type (`,` $defaultValue^)? `>`";
  let genVerifyDecl = 1;
}

def Attn_CaptureAttr : Attn_Attr<"Capture", "capture"> {
  let summary = "A captured tensor: its name, its element type, its extents.";
  let description = [{
    Elements are i32, f32, f16, bf16 or i1. An i1 is a byte in memory: 0 is false, every other value is true.
    Each axis has an extent: `"H"`, `"2*Sk"`, `"P-1"`, `"2*P+1"` or a number, with the syntax
    of the language.

    Examples: `#attn.capture<"slope", f32, ["H"]>`, `#attn.capture<"kept", i1, ["Sq", "Sk"]>`
  }];
  let parameters = (ins StringRefParameter<"the name">:$name, "::mlir::Type":$type,
                        "::mlir::ArrayAttr":$extents);
  let assemblyFormat = "`<` $name `,` $type `,` $extents `>`";
  let genVerifyDecl = 1;
}

def Attn_Extent : I32EnumAttr<"Extent", "an extent of a launch", [
  I32EnumAttrCase<"B", 0>, I32EnumAttrCase<"H", 1>, I32EnumAttrCase<"Hkv", 2>,
  I32EnumAttrCase<"Sq", 3>, I32EnumAttrCase<"Sk", 4>]> {
  let cppNamespace = "::tesela::attn";
  let genSpecializedAttr = 0;
}
def Attn_ExtentAttr : EnumAttr<Attn_Dialect, Attn_Extent, "extent">;

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

class Attn_Op<string mnemonic, list<Trait> traits = []> : Op<Attn_Dialect, mnemonic, traits>;

def Attn_VariantOp : Attn_Op<"variant", [Symbol, IsolatedFromAbove, SingleBlock]> {
  let summary = "A variant: the score and the mask of one pair of a query and a key.";
  let description = [{
    For each batch b, head h, query q and key k, with s = scale * Q[b,h,q,:].K[b,hkv,k,:],

        s'(q,k) = score(s, b, h, hkv, q, k)
        P(q,k)  = exp(s'(q,k)) where mask(b, h, hkv, q, k), else 0
        O(q,:)  = sum over k of P(q,k) V(k,:) / (sum over k of P(q,k) + exp(sink(b, h, hkv, q)))

    The score's block has the arguments (s: f32, b, h, hkv, q, k: i32) and yields
    f32; the mask's has (b, h, hkv, q, k: i32) and yields i1. Both blocks are always
    present: the defaults (s, true) are written out. The sink's block has (b, h, hkv, q: i32) and yields f32. Without
    a sink its term in the denominator is 0. With `exact_score` the score is computed like a mask:
    without approximations and in the order of its ops.

    Example:
    ```mlir
    attn.variant @sliding_alibi
        parameters [#attn.scalar<"window", i32, 1024 : i32>, #attn.capture<"slope", f32, ["H"]>]
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %slope = attn.read "slope"[%h] : f32
      %distance = arith.subi %k, %q : i32
      %d = arith.sitofp %distance : i32 to f32
      %bias = arith.mulf %slope, %d : f32
      %r = arith.addf %s, %bias : f32
      attn.yield %r : f32
    } mask {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %causal = arith.cmpi sge, %q, %k : i32
      %distance = arith.subi %q, %k : i32
      %window = attn.param "window" : i32
      %near = arith.cmpi slt, %distance, %window : i32
      %m = arith.andi %causal, %near : i1
      attn.yield %m : i1
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$parameters, UnitAttr:$exact_score);
  let regions = (region SizedRegion<1>:$score, SizedRegion<1>:$mask, AnyRegion:$sink);
  let assemblyFormat = [{
    $sym_name `parameters` $parameters attr-dict-with-keyword `score` $score `mask` $mask
    (`sink` $sink^)?
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getScoreBody() { return getScore().front(); }
    ::mlir::Block &getMaskBody() { return getMask().front(); }
    /// Whether the score yields its argument s.
    bool scoreIsIdentity();
    /// Whether the mask yields the constant true.
    bool maskIsTrue();
    /// The parameter of that name (a ScalarAttr or a CaptureAttr), or null.
    ::mlir::Attribute findParameter(::llvm::StringRef name);
  }];
}

def Attn_YieldOp : Attn_Op<"yield", [Pure, Terminator, ReturnLike]> {
  let summary = "Ends a body: gives the value of a score or a sink (f32), of a mask (i1), or of one term of a reduction.";
  let description = [{
    Example: `attn.yield %r : f32`
  }];
  let arguments = (ins AnyTypeOf<[F32, I1, I32]>:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def Attn_ParamOp : Attn_Op<"param", [Pure]> {
  let summary = "The value of a scalar parameter of the variant.";
  let description = [{
    Within an `attn.variant` the name must be one of its scalars.

    Example: `%window = attn.param "window" : i32`
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs AnyTypeOf<[I32, F32]>:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Attn_ExtentOp : Attn_Op<"extent", [Pure]> {
  let summary = "An extent of the launch: B, H, Hkv, Sq or Sk.";
  let description = [{
    Example: `%sk = attn.extent Sk : i32`
  }];
  let arguments = (ins Attn_ExtentAttr:$extent);
  let results = (outs I32:$result);
  let assemblyFormat = "$extent attr-dict `:` type($result)";
}

def Attn_CaptureExtentOp : Attn_Op<"capture_extent", [Pure]> {
  let summary = "The extent of an axis of a captured tensor.";
  let description = [{
    Example: `%n = attn.capture_extent "table" axis 1 : i32`
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$name `axis` $axis attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Attn_ReadOp : Attn_Op<"read", [Pure]> {
  let summary = "One element of a captured tensor, with clamped indices.";
  let description = [{
        result = t[clamp(i0, 0, n0 - 1), clamp(i1, 0, n1 - 1), ...]

    The result is 0 or false if an extent n is 0. So nothing outside the tensor is ever read. An element of f16
    or bf16 is widened to f32, exactly. No kernel writes to a captured tensor, so the operation is pure.

    Example: `%x = attn.read "bias"[%q, %k] : f32`
  }];
  let arguments = (ins StrAttr:$name, Variadic<I32>:$indices);
  let results = (outs AnyTypeOf<[I32, F32, I1]>:$result);
  let assemblyFormat = "$name `[` $indices `]` attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Attn_Reduction : I32EnumAttr<"Reduction", "how a reduction joins", [
  I32EnumAttrCase<"Any", 0, "any">, I32EnumAttrCase<"All", 1, "all">,
  I32EnumAttrCase<"Sum", 2, "sum">]> {
  let cppNamespace = "::tesela::attn";
}

def Attn_ReduceOp : Attn_Op<"reduce", [RecursiveMemoryEffects]> {
  let summary = "Combines the values that a body yields for the indices from 0 to bound - 1.";
  let description = [{
        result = f(0) join f(1) join ... join f(bound - 1)

    `any` and `all` combine i1 with or and and, starting from false and true. `sum` adds i32 (it wraps) or f32,
    starting from 0 and in ascending order. If the bound is not positive the result is false, true or 0. The block gets the
    index and yields f; it may use values from outside. In the language a bound has the same value in
    the whole launch.

    `ExpandArithmetic.h` turns it into an `scf.for`.

    Example:
    ```mlir
    %listed = attn.reduce any below %count : i1 {
    ^bb0(%i: i32):
      %global = attn.read "globals"[%i] : i32
      %same = arith.cmpi eq, %k, %global : i32
      attn.yield %same : i1
    }
    ```
  }];
  let arguments = (ins Attn_Reduction:$kind, I32:$bound);
  let results = (outs AnyTypeOf<[I32, F32, I1]>:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$kind `below` $bound attr-dict `:` type($result) $body";
  let hasRegionVerifier = 1;
}

class Attn_FloorOp<string mnemonic> : Attn_Op<mnemonic, [Pure]> {
  let arguments = (ins I32:$lhs, I32:$rhs);
  let results = (outs I32:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
  let hasFolder = 1;
}

def Attn_FloorDivOp : Attn_FloorOp<"floor_div"> {
  let summary = "The quotient of two i32, rounded down.";
  let description = [{
        result = floor(lhs / rhs),  0 where rhs = 0

    It wraps: -2^31 / -1 = -2^31. `attn.floor_mod` gives the matching remainder.

    Example: `%block = attn.floor_div %k, %width : i32`
  }];
}

def Attn_FloorModOp : Attn_FloorOp<"floor_mod"> {
  let summary = "The remainder of floor_div; it has the divisor's sign.";
  let description = [{
        result = lhs - floor(lhs / rhs) * rhs,  0 where rhs = 0

    Example: `%phase = attn.floor_mod %k, %stride : i32`
  }];
}

def Attn_ToIntOp : Attn_Op<"to_int", [Pure]> {
  let summary = "Converts f32 to i32: rounds towards zero, saturates, and gives 0 for NaN.";
  let description = [{
    Example: `%i = attn.to_int %x : f32 to i32`
  }];
  let arguments = (ins F32:$operand);
  let results = (outs I32:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `to` type($result)";
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Derivatives
//===----------------------------------------------------------------------===//

def Attn_GradientOp : Attn_Op<"gradient", [IsolatedFromAbove, NoTerminator, SingleBlock]> {
  let summary = "The derivatives of a variant's score and of its sink.";
  let description = [{
    The score's region is computed for each pair of a query and a key, the sink's for each query. A region has an
    `attn.partial` for each derivative that is not 0 everywhere. The regions have the same block arguments as
    the variant's score and sink. `attn-differentiate` writes this op.

    Example, of `score = s + slope[h] * (k - q)`:
    ```mlir
    attn.gradient of @alibi score {
    ^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %one = arith.constant 1.0 : f32
      %distance = arith.subi %k, %q : i32
      %d = arith.sitofp %distance : i32 to f32
      attn.partial "s" is %one
      attn.partial "slope"[%h] is %d
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$variant);
  let regions = (region SizedRegion<1>:$score, AnyRegion:$sink);
  let assemblyFormat = "`of` $variant attr-dict-with-keyword `score` $score (`sink` $sink^)?";
  let hasRegionVerifier = 1;
}

def Attn_PartialOp : Attn_Op<"partial", [ParentOneOf<["GradientOp", "RoundsOp"]>]> {
  let summary = "The derivative of the score or the sink by `s`, by a scalar parameter, or by an element of a captured tensor.";
  let description = [{
    Let y be the score or the sink. Without indices

        ∂y / ∂name = value

    and each name occurs once. With indices, `value` is what one read contributes to the element that it reads.
    The indices are clamped as those of `attn.read` are:

        ∂y / ∂name[clamp(i0, 0, n0 - 1), ...] += value

    Several ops may name the same tensor. Within `attn.rounds` each round contributes its own value.

    Example: `attn.partial "slope"[%h] is %d`
  }];
  let arguments = (ins StrAttr:$name, Variadic<I32>:$indices, F32:$value);
  let assemblyFormat = "$name (`[` $indices^ `]`)? `is` $value attr-dict";
}

def Attn_RoundsOp : Attn_Op<"rounds", [NoTerminator, SingleBlock, ParentOneOf<["GradientOp", "RoundsOp"]>]> {
  let summary = "The derivatives by what a sum reads, term by term.";
  let description = [{
    The block takes the index and is computed once for each index from 0 to bound - 1.

    Example, of `score = s + sum(i < 8: table[i] * x)`:
    ```mlir
    attn.rounds below %eight {
    ^bb0(%i: i32):
      attn.partial "table"[%i] is %x
    }
    ```
  }];
  let arguments = (ins I32:$bound);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`below` $bound attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

#endif // TESELA_ATTN
