# SPDX-License-Identifier: Apache-2.0
# `cpack -G DEB` in a build folder makes three packages: libhocket0.1 (the library), libhocket-dev (headers, CMake and
# pkg-config files), hocket-tools (the command). `./dev package` does it for a release. What they depend on is read from
# what they link (dpkg-shlibdeps, from dpkg-dev).
set(HOCKET_PACKAGE_CONTACT "hocket maintainers <maintainers@hocket.invalid>" CACHE STRING "Maintainer of the packages")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME hocket)
set(CPACK_PACKAGE_VENDOR hocket)
set(CPACK_PACKAGE_CONTACT "${HOCKET_PACKAGE_CONTACT}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_COMPONENTS_ALL runtime dev)
if(TARGET hocket_tool)
  list(APPEND CPACK_COMPONENTS_ALL tools)
endif()
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(about "hocket moves and reduces data between the ranks of a job: all-reduce, all-gather, reduce-scatter, \
all-to-all, broadcast and their kin. It works on host memory, also where there is no GPU, proves its algorithms before it runs them, and turns \
a rank that dies, hangs or calls something else into an error that names it.")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${hocket_runtime_package})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "collective communication on host memory, shared library
${about}
.
This package holds the library that programs link.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME ${hocket_dev_package})
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${hocket_runtime_package} (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(CPACK_DEBIAN_DEV_DESCRIPTION "collective communication on host memory, development files
${about}
.
This package holds the headers, the CMake package hocket::hocket, the pkg-config file and the examples.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME ${hocket_tools_package})
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_DESCRIPTION "collective communication on host memory, the hocket command
${about}
.
This package holds the command that starts ranks (hocket run), measures collectives (hocket perf), shows what a running
job does (hocket ps), the machine (hocket topo) and the steps of an algorithm with their proof (hocket plan).")

include(CPack)
