//===- Artifact.h - What the compiler hands to the runtime ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// An artifact is a launch plan: code, the launches in order, for each launch its
// argument slots, and integer expressions over the launch's extents for its grid.
// Launches hand tensors to later ones in workspaces, which the runtime allocates.
// It is plain data: no MLIR or LLVM type stands in it, it can be written to
// a file, read back and checked on a machine without a GPU.
//
// How a kernel is called
//   GPU:  one kernel parameter a slot, in order; grid {items, 1, 1}, where
//         `items` is the launch's work-item count.
//   Host: `void kernel(const void *const *arguments, int64_t item, void *scratch)`.
//         arguments[i] points at slot i's value, exactly as cuLaunchKernel's
//         kernelParams do; `item` is in [0, items); `scratch` is
//         `workspaceBytes` long, aligned to 64 bytes and of one worker alone.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_ARTIFACT_H
#define TESELA_COMPILER_ARTIFACT_H

#include "tesela/ElementType.h"
#include "tesela/Status.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tesela {

/// The extents of a launch, as kernels and grid expressions name them.
struct Extents {
  int32_t B = 0;   ///< batch
  int32_t H = 0;   ///< query heads
  int32_t Hkv = 0; ///< key/value heads; divides H
  int32_t Sq = 0;  ///< queries
  int32_t Sk = 0;  ///< keys
};

/// Their names, in the order in which kernels take them.
inline constexpr std::array<std::string_view, 5> extentNames = {"B", "H", "Hkv", "Sq", "Sk"};

/// An axis of a captured tensor.
struct CaptureAxis {
  std::string name; ///< "$doc"
  int axis = 0;
  bool operator==(const CaptureAxis &) const = default;
};

/// An integer expression over the extents in prefix form, computed in 64 bits:
/// `(* (ceildiv Sq 128) (* B H))`. Operators: + * ceildiv. `$doc.1` is the extent of axis 1 of the
/// captured tensor `doc`. The text is the serialised form.
class Expression {
public:
  static Result<Expression> parse(std::string_view text);
  const std::string &text() const { return text_; }
  /// The axes of captured tensors that the expression names.
  const std::vector<CaptureAxis> &captureAxes() const { return captureAxes_; }
  /// The index in extentNames where the expression is one of these names, or the number that it is.
  std::optional<int> extentIndex() const;
  /// The indices in extentNames of the extents that the expression names.
  std::vector<int> extents() const;
  std::optional<int64_t> constant() const;
  bool operator==(const Expression &other) const { return text_ == other.text_; }
  /// `captureExtents`: of captureAxes(), in their order.
  int64_t evaluate(const Extents &extents, std::span<const int64_t> captureExtents = {}) const;

private:
  struct Node {
    enum Kind { constant, extent, captureExtent, add, multiply, ceilDivide } kind;
    /// constant: the value; extent: its index in B H Hkv Sq Sk; captureExtent: in captureAxes_
    int64_t value;
    int left, right;
  };
  std::string text_;
  std::vector<CaptureAxis> captureAxes_;
  std::vector<Node> nodes_; // children before parents; the last is the root
};

/// One kernel parameter and where its value comes from.
struct ArgumentSlot {
  enum class Kind : int {
    /// 8 bytes: the address of tensor `name`. A capture without elements comes with the address of
    /// a
    /// zero of its type and with all its strides 0, so that kernels read 0 without a branch.
    data = 0,
    stride = 1, ///< i64: tensor `name`'s stride of `axis`, in elements
    extent = 2, ///< i32: tensor `name`'s extent of `axis`; name "" with axis 0..4 is B H Hkv Sq Sk
    scalar = 3, ///< 4 bytes, f32 or i32: the scalar parameter `name`
    scale = 4,  ///< f32: the softmax scale
    /// 128 bytes by value, aligned to 64: a CUtensorMap of the tensor `name`, whose axes are
    /// [batch,
    /// head, position, D] and whose elements have 16 bits, for copies by the tensor memory
    /// accelerator (sm_90 and later). Tiled, of rank 4: [D, S, heads, batch], innermost first,
    /// with the tensor's own strides; the box is {64, `axis`, 1, 1} elements, so `axis` is the
    /// box's
    /// positions, 1..256; 128-byte swizzle, zeros outside. An axis of stride 0 has the extent 1 in
    /// the
    /// map: its coordinate is index * coordinateStep. A tensor without elements has the map of one
    /// row of zeros.
    /// With `heads` above 1, of rank 5: [D, H / Hkv, S, Hkv, batch], whose box is
    /// {64, `heads`, `axis`, 1, 1}: what several query heads of one key/value head have at a
    /// position
    /// lies together, and nothing of the next one's comes with them.
    tensorMap = 5,
    /// i32: what an index of `axis` (0 = batch, 1 = head) is multiplied by to be a coordinate of
    /// `name`'s tensorMap: 1, or 0 where the stride is 0.
    coordinateStep = 6,
    /// 8 bytes: the address of two u32 in device memory, 0 when the launch begins and again when it
    /// has
    /// ended, which no other launch that may run at the same time shares. Or the address of a
    /// CounterTable, plus 1: for a launch that is captured into a graph, of which several instances
    /// may run at the same time.
    counter = 7,
  };
  Kind kind;
  /// That of one of Artifact::tensors, of a parameter (prefixed by "$" to keep the two apart:
  /// "$window", "$slope"), or of a workspace, which is as a capture is.
  std::string name;
  /// The axis; tensorMap: the box's positions. Captures and workspaces: -1 is an axis that the
  /// tensor does not have, with extent 1 and stride 0.
  int axis = 0;
  int heads = 1; ///< tensorMap of a tensor with query heads: the box's heads
};

/// Counters in device memory for the launches of one node of a graph, one for each instance of the
/// graph. An entry is a u64, the instance's grid number plus 1, or 0 where the entry is free; then
/// the two u32 of ArgumentSlot::Kind::counter. The grid number (PTX: %gridid) is the same each time
/// that an instance runs its node, and no other's. A kernel takes the first entry that is its own
/// or free, and never gives it back: so all thread blocks of a launch find the same one. Where all
/// entries are others', the launch goes without a counter. All zeros at first.
struct CounterTable {
  static constexpr int entries = 64; ///< instances of a graph are few; docs/decisions/launch.md
  static constexpr int entryBytes = 16, bytes = entries * entryBytes;
};

/// A tensor that the caller passes, as a template declares it (tile.kernel).
struct TensorArgument {
  enum class Role : int { in = 0, out = 1 }; ///< out: the kernel writes it
  std::string name;
  ElementType type = ElementType::bf16;
  Role role = Role::in;
  /// One an axis, over the launch's extents; nothing: any extent. The first tensor that names an
  /// extent tells it, the others have to agree. One that none names comes with the launch where a
  /// grid or a captured tensor needs it; elsewhere it is 1. Hkv is H.
  std::vector<std::optional<Expression>> extents;
  bool contiguous = false; ///< row-major without gaps; else of any strides, the last of which is 1
  bool optional = false; ///< a launch may pass the address 0: then nothing is stored, and 0 is read
};

/// A tensor without gaps, of i32 or f32, that one launch writes and later ones read.
struct Workspace {
  /// A template's own name, or "$doc.summary0", which is no parameter's, since it has a dot.
  std::string name;
  std::vector<Expression> extents;
  ElementType type = ElementType::i32;
};

/// A kernel and how it is launched.
struct Launch {
  std::string kernel; ///< symbol in the code
  Expression items;   ///< work items: the grid's x extent; 0 means: nothing to launch
  /// What B H Hkv Sq Sk are to this launch's items and slots; none: the plan's own extents.
  std::vector<Expression> extents;
  /// The name of the captured tensor that alone decides what the launch writes; "": there is none.
  /// The launch is left out where the caller says that the tensor did not change.
  std::string summarizes;
  /// The grid has a block for each multiprocessor at most, which take items from a counter (GPU).
  bool persistent = false;
  /// Its kernel waits for the launches before it, of this plan: it may begin while the last of them
  /// ends (GPU). That of the plan's first launch need not.
  bool dependent = false;
  int threads = 0;            ///< threads a block (GPU)
  int64_t sharedBytes = 0;    ///< dynamic shared memory a block (GPU)
  int64_t workspaceBytes = 0; ///< scratch of one worker (host)
  std::vector<ArgumentSlot> slots;
};

/// An extent of a captured tensor: `coefficient * name + offset`; a plain number
/// has coefficient 0. `name` is an extent in scope or a name bound by the
/// capture's own shape.
struct CaptureExtent {
  int32_t coefficient = 1;
  std::string name;
  int32_t offset = 0;
};

/// A parameter of the variant, as the runtime checks it at launch.
struct Parameter {
  std::string name;
  ElementType type = ElementType::f32;
  bool isCapture = false;
  bool isConstant =
      false; ///< a scalar that a specification gives, not a launch; none in an artifact
  std::vector<CaptureExtent> extents; ///< captures: one an axis
  /// Scalars: the default value (an i32 exactly, an f32 as its double).
  std::optional<double> defaultValue;
};

/// The value of a `const` parameter.
struct ConstantValue {
  std::string name;
  double value = 0; ///< i32: a whole number in range; f32: rounded to f32
};

enum class CodeFormat : int { hostObject = 0, ptx = 1, cubin = 2 };

/// A target: the host CPU, or NVIDIA compute capability `sm` (80 for sm_80).
struct Target {
  enum class Kind : int { host = 0, cuda = 1 } kind = Kind::host;
  int sm = 0;
  /// "host" or "sm_80".
  std::string name() const;
  /// Accepts what name() gives; the error lists what is known.
  static Result<Target> parse(std::string_view name);
  bool operator==(const Target &) const = default;
};

/// What an assembler said of a kernel; absent where nobody said.
struct Resources {
  int registers = 0;
  int spillBytes = 0; ///< spill stores and loads together
};

struct Artifact {
  std::string variantName;
  Target target;
  ElementType inputType = ElementType::bf16; ///< what the kernel was asked for; so is the next line
  int headDimQk = 0, headDimV = 0;
  std::string schedule; ///< the chosen #tile.schedule, as text
  /// The score is `s` itself: the kernel then folds the scale into the softmax.
  bool scoreIsIdentity = false;
  std::vector<TensorArgument> tensors;
  std::vector<Parameter> parameters; ///< the variant's, then the template's own
  CodeFormat format = CodeFormat::hostObject;
  std::string code;
  std::vector<Launch> launches; ///< in order: summaries, then the template's kernels
  std::vector<Workspace> workspaces;
  std::optional<Resources> resources;

  /// The serialised form: a versioned header, fields, and a checksum over all.
  std::string serialize() const;
  /// Never trusts its input: any damage is an error, never a crash.
  static Result<Artifact> deserialize(std::string_view bytes);
};

} // namespace tesela

#endif // TESELA_COMPILER_ARTIFACT_H
