# cmake -DSOURCE=FOLDER -DOUTPUT=FILE [-DCOMMIT=TEXT] -P WriteCommit.cmake
#
# Writes a header that defines TESELA_COMMIT: COMMIT if it is given, else the commit that is checked
# out in SOURCE, with "-dirty" if tracked files differ from it. It is empty without Git's data. The
# file is written only if that changed, so that nothing is compiled again for the same commit.
set(commit "${COMMIT}")
if(NOT commit AND EXISTS "${SOURCE}/.git")
  execute_process(
    COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude *
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(text "#define TESELA_COMMIT \"${commit}\"\n")
set(old "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" old)
endif()
if(NOT text STREQUAL old)
  file(WRITE "${OUTPUT}" "${text}")
endif()
