# LLVM and MLIR 22, linked statically.
#
# Debian's MLIR targets depend on the shared libLLVM, so a static link would silently contain LLVM
# twice. This file replaces that dependency by LLVM's static components, and drops two libraries that
# Tesela does not need (z3, libxml2). docs/decisions/static-llvm.md says why LLVM is linked statically.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22)  # Debian's folder
message(STATUS "MLIR ${MLIR_VERSION} in ${MLIR_DIR}")
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

llvm_map_components_to_libnames(tesela_llvm_libraries
  analysis
  core
  frontendopenmp
  jitlink
  mc
  nvptxcodegen
  nvptxdesc
  nvptxinfo
  orcjit
  passes
  support
  target
  x86asmparser
  x86codegen
  x86desc
  x86info
)
add_library(tesela_llvm INTERFACE)
target_link_libraries(tesela_llvm INTERFACE ${tesela_llvm_libraries})
target_include_directories(tesela_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_compile_definitions(tesela_llvm INTERFACE ${LLVM_DEFINITIONS_LIST})

get_property(tesela_imported DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(imported IN LISTS tesela_imported)
  get_target_property(links ${imported} INTERFACE_LINK_LIBRARIES)
  if(NOT links)
    continue()
  endif()
  if(imported MATCHES "^MLIR")
    list(TRANSFORM links REPLACE "^(LLVM|\\$<LINK_ONLY:LLVM>)$" tesela_llvm)
  elseif(imported STREQUAL "LLVMSupport" OR imported STREQUAL "LLVMWindowsManifest")
    list(FILTER links EXCLUDE REGEX "z3|Z3|[Xx]ml2|LibXml2")
    list(TRANSFORM links REPLACE "^(\\$<LINK_ONLY:)?zstd::libzstd(_shared|_static)?>?$" "libzstd.a")
    list(TRANSFORM links REPLACE "^(\\$<LINK_ONLY:)?ZLIB::ZLIB>?$" "libz.a")
  else()
    continue()
  endif()
  set_target_properties(${imported} PROPERTIES INTERFACE_LINK_LIBRARIES "${links}")
endforeach()

# Linker options of every executable and shared library that contains LLVM. exports.map lists what the
# shared library exports; --exclude-libs would also hide Tesela's own static libraries.
add_library(tesela_link_options INTERFACE)
set(tesela_is_shared "$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>")
target_link_options(tesela_link_options INTERFACE
  -static-libgcc
  -static-libstdc++
  LINKER:--as-needed
  LINKER:--gc-sections
  LINKER:--icf=all
  "$<${tesela_is_shared}:LINKER:--version-script=${CMAKE_CURRENT_LIST_DIR}/exports.map>"
)
