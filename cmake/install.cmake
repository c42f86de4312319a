# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` and `cpack` put where: the library, its headers, a CMake package and a pkg-config file, the
# hocket command with its manual page. Components: runtime, dev, tools; each is a Debian package of its own.
# A build folder can be used without installing: -Dhocket_DIR=BUILD.
include(CMakePackageConfigHelpers)

# Debian's place for libraries, which its linker, pkg-config and CMake look into below /usr and below /usr/local. A prefix
# of the user's own gets GNU's lib.
if(CMAKE_INSTALL_PREFIX_INITIALIZED_TO_DEFAULT AND EXISTS /etc/debian_version AND CMAKE_LIBRARY_ARCHITECTURE)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE PATH "object code libraries")
endif()
include(GNUInstallDirs)

# ---- Library and headers ----

install(TARGETS hocket EXPORT hocket-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/hocket DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev FILES_MATCHING PATTERN *.hpp)

# ---- CMake package, from the install tree and from the build folder ----

set(hocket_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hocket)
configure_package_config_file(cmake/hocket-config.cmake.in hocket-config.cmake INSTALL_DESTINATION ${hocket_cmake_dir}
  NO_SET_AND_CHECK_MACRO)
# Until 1.0 each minor version may change names; that is also what the SONAME says.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(hocket_compatibility SameMinorVersion)
else()
  set(hocket_compatibility SameMajorVersion)
endif()
write_basic_package_version_file(hocket-config-version.cmake COMPATIBILITY ${hocket_compatibility})
install(FILES ${PROJECT_BINARY_DIR}/hocket-config.cmake ${PROJECT_BINARY_DIR}/hocket-config-version.cmake
  DESTINATION ${hocket_cmake_dir} COMPONENT dev)
install(EXPORT hocket-targets NAMESPACE hocket:: DESTINATION ${hocket_cmake_dir} COMPONENT dev)
export(EXPORT hocket-targets NAMESPACE hocket:: FILE ${PROJECT_BINARY_DIR}/hocket-targets.cmake)

# ---- pkg-config; paths follow the file, so that a moved tree still works ----

set(hocket_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${hocket_pc_dir}
  OUTPUT_VARIABLE hocket_pc_up)
configure_file(cmake/hocket.pc.in hocket.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/hocket.pc DESTINATION ${hocket_pc_dir} COMPONENT dev)

# ---- The command and what there is to read ----

if(TARGET hocket_tool)
  install(TARGETS hocket_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  include(cmake/manual.cmake)
  install(FILES ${HOCKET_MANUAL} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
endif()
install(FILES README.md CHANGELOG.md docs/design.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libhocket-dev COMPONENT dev)
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libhocket-dev/examples COMPONENT dev
  FILES_MATCHING PATTERN *.cpp PATTERN *.yaml)

set(hocket_runtime_package libhocket${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(hocket_dev_package libhocket-dev)
set(hocket_tools_package hocket-tools)
foreach(component runtime dev tools)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${hocket_${component}_package} RENAME copyright
    COMPONENT ${component})
endforeach()

include(cmake/debian.cmake)
