# Installs and packages the command, the shared library, the public headers, the packages for CMake
# and pkg-config, the templates and the licences. Everything is found relative to the executable, so
# the package can be unpacked anywhere.
include(CMakePackageConfigHelpers)

set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # installing does not need the tests

set(tesela_package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/Tesela")

install(TARGETS tesela EXPORT TeselaTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(TARGETS tesela_command
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY support/include/tesela runtime/include/tesela
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h")
install(DIRECTORY templates/variants
  DESTINATION "${CMAKE_INSTALL_DATADIR}/tesela"
  FILES_MATCHING PATTERN "*.attn")
install(DIRECTORY templates/
  DESTINATION "${CMAKE_INSTALL_DATADIR}/tesela/templates"
  FILES_MATCHING PATTERN "*.mlir"
  PATTERN variants EXCLUDE)
install(DIRECTORY data/tuned
  DESTINATION "${CMAKE_INSTALL_DATADIR}/tesela"
  FILES_MATCHING PATTERN "*.json")
# The pack of kernels, if scripts/ship-kernels has made one. It must belong to this build: every process
# would warn about a pack of another build, and not use it.
if(TARGET tesela_ship_kernels)
  install(CODE "
    if(EXISTS \"${PROJECT_BINARY_DIR}/kernels.pack\")
      execute_process(
        COMMAND \"$<TARGET_FILE:tesela_ship_kernels>\" \"${PROJECT_BINARY_DIR}/kernels.pack\" --check
        COMMAND_ERROR_IS_FATAL ANY)
    endif()")
endif()
install(FILES "${PROJECT_BINARY_DIR}/kernels.pack"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/tesela" OPTIONAL)
install(FILES LICENSE docs/third-party.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")

install(EXPORT TeselaTargets NAMESPACE Tesela:: DESTINATION "${tesela_package_folder}")
configure_package_config_file(cmake/TeselaConfig.cmake.in TeselaConfig.cmake
  INSTALL_DESTINATION "${tesela_package_folder}")
write_basic_package_version_file(TeselaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
    "${CMAKE_CURRENT_BINARY_DIR}/TeselaConfig.cmake"
    "${CMAKE_CURRENT_BINARY_DIR}/TeselaConfigVersion.cmake"
  DESTINATION "${tesela_package_folder}")

# The path from tesela.pc's folder to the installation prefix, "../..".
string(REGEX REPLACE "[^/]+" ".." tesela_prefix "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
configure_file(cmake/tesela.pc.in tesela.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/tesela.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

set(CPACK_GENERATOR TXZ)
set(CPACK_PACKAGE_NAME tesela)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_FILE_NAME "tesela-${PROJECT_VERSION}-linux-x86_64")
set(CPACK_STRIP_FILES ON)
set(CPACK_ARCHIVE_THREADS 0)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
