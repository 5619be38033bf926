# Compiler and linker options of Tesela's own targets, as one interface library: tesela_options.
set(TESELA_SANITIZERS "" CACHE STRING "Sanitizers of a debugging build: a list such as address;undefined")

add_library(tesela_options INTERFACE)
target_compile_options(tesela_options INTERFACE
  -Wall
  -Wextra
  -Wno-unused-parameter          # MLIR's interfaces name parameters that an override does not need
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # a false alarm of g++ 12 for string concatenation (PR 105651)
  -fdata-sections
  -ffunction-sections
  -ffp-contract=off              # masks must be exact: no fused multiply-add
  "$<$<CONFIG:Debug>:-D_GLIBCXX_ASSERTIONS>"
)
if(TESELA_SANITIZERS)
  list(JOIN TESELA_SANITIZERS "," sanitizers)
  target_compile_options(tesela_options INTERFACE
    -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer -UNDEBUG)
  target_link_options(tesela_options INTERFACE -fsanitize=${sanitizers})
  set(is_program "$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>")
  target_sources(tesela_options INTERFACE
    "$<${is_program}:${PROJECT_SOURCE_DIR}/support/SanitizerOptions.cpp>")
endif()

# lld links in a second what takes GNU ld a minute. gcc accepts no path after -fuse-ld, so -B names
# the folder of LLVM 22's lld, which is then searched before PATH.
find_program(TESELA_LLD ld.lld HINTS /usr/lib/llvm-22/bin)
if(NOT TESELA_LLD)
  message(FATAL_ERROR "The linker lld was not found: install the package lld-22 (or lld).")
endif()
get_filename_component(tesela_lld_folder "${TESELA_LLD}" DIRECTORY)
target_link_options(tesela_options INTERFACE -fuse-ld=lld "-B${tesela_lld_folder}")

# tesela_library(NAME SOURCES files... [PUBLIC libraries...] [PRIVATE libraries...]) defines a static
# library of the project. Every executable that links one gets the linker's options too.
function(tesela_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC ${arg_PUBLIC} PRIVATE tesela_options ${arg_PRIVATE})
endfunction()
