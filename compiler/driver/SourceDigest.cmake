# Writes OUTPUT with a digest of the sources on which the generated code depends. Writes it only
# if the digest has changed.
file(GLOB_RECURSE files
  ${SOURCE_DIR}/compiler/*.cpp ${SOURCE_DIR}/compiler/*.h ${SOURCE_DIR}/compiler/*.td
  ${SOURCE_DIR}/dialects/*.cpp ${SOURCE_DIR}/dialects/*.h ${SOURCE_DIR}/dialects/*.td
  ${SOURCE_DIR}/support/*.cpp ${SOURCE_DIR}/support/*.h
  ${SOURCE_DIR}/runtime/assemble/*.cpp ${SOURCE_DIR}/runtime/assemble/*.h
  ${SOURCE_DIR}/templates/*.mlir)
list(SORT files)
set(digests "")
foreach(file IN LISTS files)
  file(SHA256 ${file} digest)
  string(APPEND digests ${digest})
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING ${digest} 0 16 digest)
set(text "#define TESELA_SOURCE_DIGEST \"${digest}\"\n")
set(old "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
