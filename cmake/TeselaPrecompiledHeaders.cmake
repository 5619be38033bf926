# The headers of MLIR that most of the compiler's files include, precompiled once: tesela_mlir_headers.
#
# Reading them takes 4 s of the 6 to 9 s that such a file takes without them. The headers of the LLVM and NVVM dialects
# are left out: few files include them, and with them the precompiled file has 1.1 GB instead of 0.4.
# With CMAKE_DISABLE_PRECOMPILE_HEADERS=ON each file reads its own headers. So a file still includes what it uses.
set(source "${PROJECT_BINARY_DIR}/tesela_mlir_headers.cpp") # a library needs a source
file(CONFIGURE OUTPUT "${source}" CONTENT "")
add_library(tesela_mlir_headers STATIC "${source}")
target_link_libraries(tesela_mlir_headers PRIVATE tesela_llvm tesela_options)
target_precompile_headers(tesela_mlir_headers PRIVATE
  <llvm/ADT/MapVector.h>
  <llvm/ADT/SetVector.h>
  <llvm/ADT/TypeSwitch.h>
  <mlir/Dialect/Arith/IR/Arith.h>
  <mlir/Dialect/Math/IR/Math.h>
  <mlir/Dialect/SCF/IR/SCF.h>
  <mlir/IR/Builders.h>
  <mlir/IR/BuiltinOps.h>
  <mlir/IR/IRMapping.h>
  <mlir/IR/Matchers.h>
  <mlir/Pass/PassManager.h>
)
# ccache can only store a file that was compiled with precompiled headers if this option names them.
target_compile_options(tesela_mlir_headers PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)

# tesela_use_mlir_headers(target): the target's files are compiled with those headers.
function(tesela_use_mlir_headers target)
  target_precompile_headers(${target} REUSE_FROM tesela_mlir_headers)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()
