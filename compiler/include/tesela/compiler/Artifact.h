//===- Artifact.h - The compiler's result for the runtime -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// An artifact is a launch plan: code, the launches in order, and for each launch its
// argument slots and integer expressions over the launch's extents for its grid.
// Workspaces, which the runtime allocates, carry tensors from one launch to later ones.
// An artifact is plain data without types of MLIR or LLVM. It can be written to a
// file, read back, and checked on a machine without a GPU.
//
// How a kernel is called
//   GPU:  one kernel parameter for each slot, in order; grid {items, 1, 1}, where
//         `items` is the launch's number of work items.
//   Host: `void kernel(const void *const *arguments, int64_t item, void *scratch)`.
//         arguments[i] points to the value of slot i, like kernelParams of
//         cuLaunchKernel; `item` is in [0, items); `scratch` has `workspaceBytes`
//         bytes, is aligned to 64 bytes, and belongs to one worker only.
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

/// The extents of a launch, with the names that kernels and grid expressions use.
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

/// An integer expression over the extents in prefix form, computed in 64 bits, for example
/// `(* (ceildiv Sq 128) (* B H))`. The operators are + * ceildiv max. `$doc.1` is the extent of
/// axis 1 of the captured tensor `doc`. The text is the serialised form.
class Expression {
public:
  static Result<Expression> parse(std::string_view text);
  const std::string &text() const { return text_; }
  /// The axes of captured tensors that the expression names.
  const std::vector<CaptureAxis> &captureAxes() const { return captureAxes_; }
  /// The index in extentNames if the expression is just one extent; otherwise nullopt.
  std::optional<int> extentIndex() const;
  /// The indices in extentNames of the extents that the expression names.
  std::vector<int> extents() const;
  std::optional<int64_t> constant() const;
  bool operator==(const Expression &other) const { return text_ == other.text_; }
  /// `captureExtents` has the extents of captureAxes(), in their order.
  int64_t evaluate(const Extents &extents, std::span<const int64_t> captureExtents = {}) const;

private:
  struct Node {
    enum Kind { constant, extent, captureExtent, add, multiply, ceilDivide, maximum } kind;
    /// constant: the value; extent: its index in B H Hkv Sq Sk; captureExtent: in captureAxes_
    int64_t value;
    int left, right;
  };
  std::string text_;
  std::vector<CaptureAxis> captureAxes_;
  std::vector<Node> nodes_; // children before parents; the last is the root
};

/// One kernel parameter, and the source of its value.
struct ArgumentSlot {
  enum class Kind : int {
    /// 8 bytes: the address of tensor `name`. If a captured tensor has no elements, the address
    /// is that of a zero of its type, and all its strides are 0. So kernels read 0 without a
    /// branch.
    data = 0,
    stride = 1, ///< i64: tensor `name`'s stride of `axis`, in elements
    extent = 2, ///< i32: tensor `name`'s extent of `axis`; name "" with axis 0..4 is B H Hkv Sq Sk
    scalar = 3, ///< 4 bytes, f32 or i32: the scalar parameter `name`
    scale = 4,  ///< f32: the softmax scale
    /// 128 bytes by value, aligned to 64: a CUtensorMap of the tensor
    /// `name`, for copies by the tensor memory accelerator (sm_90 and
    /// later). The tensor has the axes [batch, head, position, D] and 16-bit
    /// elements. The map is tiled, of rank 4: [D, S, heads, batch],
    /// innermost first, with the tensor's own strides. The box is {64,
    /// `axis`, 1, 1} elements, so `axis` is the number of positions of the
    /// box, 1 to 256. Swizzle of 128 bytes; zeros outside. An axis with the
    /// stride 0 has the extent 1 in the map; its coordinate is index *
    /// coordinateStep. A tensor without elements has the map of one row of
    /// zeros.
    /// If `heads` is above 1, the map has rank 5: [D, H / Hkv, S, Hkv,
    /// batch], and the box is {64, `heads`, `axis`, 1, 1}. So at each
    /// position the box has the rows of neighbouring query heads of one
    /// key/value head, and never rows of another one's query heads.
    tensorMap = 5,
    /// i32: the factor from an index of `axis` (0 = batch, 1 = head) to a coordinate of the
    /// tensorMap of `name`: 1, or 0 if the stride is 0.
    coordinateStep = 6,
    /// 8 bytes: the address of two u32 in device memory. They must be 0 when the launch
    /// begins and are 0 again when it has ended. No other launch that may run at the
    /// same time may use them. Or the address of a CounterTable plus 1, for a launch
    /// that is captured into a graph, of which several instances may run at the same
    /// time.
    counter = 7,
  };
  Kind kind;
  /// The name of one of Artifact::tensors, of a parameter (with a "$" in front, so that the two
  /// differ: "$window", "$slope"), or of a workspace, which is treated like a captured tensor.
  std::string name;
  /// The axis. For tensorMap: the positions of the box. For captured tensors and workspaces -1 is
  /// an axis that the tensor does not have, with extent 1 and stride 0.
  int axis = 0;
  int heads = 1; ///< for the tensorMap of a tensor with query heads: the heads of the box
};

/// Counters in device memory for the launches of one node of a graph, one for each instance of the
/// graph. An entry is a u64, the instance's grid number plus 1, or 0 if the entry is free; then the
/// two u32 of ArgumentSlot::Kind::counter. The grid number (PTX: %gridid) is the same each time
/// that an instance runs its node, and differs between instances. A kernel takes the first entry
/// that is its own or free, and never gives it back, so all thread blocks of a launch find the same
/// one. If no entry is left, the launch runs without a counter. The table begins with all zeros.
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
  /// One for each axis, over the launch's extents; nullopt allows any extent. The first tensor that
  /// names an extent defines it, and the others must agree. An extent that no tensor names is given
  /// with the launch if a grid or a captured tensor needs it; otherwise it is 1. Hkv is then H.
  std::vector<std::optional<Expression>> extents;
  bool contiguous = false; ///< row-major without gaps; if false, any strides, but the last is 1
  bool optional = false;   ///< a launch may pass the address 0: stores do nothing, and loads give 0
};

/// A contiguous tensor of i32 or f32 that one launch writes and later launches read.
struct Workspace {
  /// A template's own name, or "$doc.summary0". Names of parameters have no dot.
  std::string name;
  std::vector<Expression> extents;
  ElementType type = ElementType::i32;
};

/// A kernel and how it is launched.
struct Launch {
  std::string kernel; ///< symbol in the code
  Expression items;   ///< work items: the grid's x extent; if it is 0, nothing is launched
  /// The values of B H Hkv Sq Sk for this launch's items and slots; empty: those of the plan.
  std::vector<Expression> extents;
  /// The captured tensor on which alone the launch's results depend; "" if there is none. If the
  /// caller says that the tensor has not changed, the launch is left out.
  std::string summarizes;
  /// The grid has at most one thread block for each multiprocessor; they take items from a counter.
  bool persistent = false;
  /// The kernel waits for the earlier launches of this plan, so it may begin while the last of them
  /// ends (GPU). The first launch of a plan need not wait.
  bool dependent = false;
  int threads = 0;            ///< threads of a thread block (GPU)
  int64_t sharedBytes = 0;    ///< dynamic shared memory of a thread block (GPU)
  int64_t workspaceBytes = 0; ///< scratch of one worker (host)
  std::vector<ArgumentSlot> slots;
};

/// An extent of a captured tensor: `coefficient * name + offset`. A number has the
/// coefficient 0. `name` is an extent in scope, or a name that the captured tensor's
/// own shape binds.
struct CaptureExtent {
  int32_t coefficient = 1;
  std::string name;
  int32_t offset = 0;
};

/// A parameter of the variant, as the runtime checks it at a launch.
struct Parameter {
  std::string name;
  ElementType type = ElementType::f32;
  bool isCapture = false;
  bool isConstant =
      false; ///< a scalar that the specification gives, not a launch; an artifact has none
  std::vector<CaptureExtent> extents; ///< captured tensors: one for each axis
  /// Scalars: the default value. A double represents an i32 and an f32 exactly.
  std::optional<double> defaultValue;
};

/// The value of a `const` parameter.
struct ConstantValue {
  std::string name;
  double value = 0; ///< i32: an integer in range; f32: rounded to f32
};

enum class CodeFormat : int { hostObject = 0, ptx = 1, cubin = 2 };

/// A target: the host CPU, or NVIDIA compute capability `sm` (80 for sm_80).
struct Target {
  enum class Kind : int { host = 0, cuda = 1 } kind = Kind::host;
  int sm = 0;
  /// "host" or "sm_80".
  std::string name() const;
  /// Accepts the results of name(). The error lists the known names.
  static Result<Target> parse(std::string_view name);
  bool operator==(const Target &) const = default;
};

/// An assembler's report on a kernel; absent if there is none.
struct Resources {
  int registers = 0;
  int spillBytes = 0; ///< spill stores and loads together
};

struct Artifact {
  std::string variantName;
  Target target;
  ElementType inputType = ElementType::bf16; ///< from the specification, like the next line
  int headDimQk = 0, headDimV = 0;
  std::string schedule; ///< the chosen #tile.schedule, as text
  /// Whether the score is `s` itself; the kernel then folds the scale into the softmax.
  bool scoreIsIdentity = false;
  std::vector<TensorArgument> tensors;
  std::vector<Parameter> parameters; ///< the variant's, then the template's own ones
  CodeFormat format = CodeFormat::hostObject;
  std::string code;
  std::vector<Launch> launches; ///< in order: summaries, then the template's kernels
  std::vector<Workspace> workspaces;
  std::optional<Resources> resources;

  /// The serialised form: a versioned header, fields, and a checksum over all.
  std::string serialize() const;
  /// Does not trust its input: damaged bytes give an error, never a crash.
  static Result<Artifact> deserialize(std::string_view bytes);
};

} // namespace tesela

#endif // TESELA_COMPILER_ARTIFACT_H
