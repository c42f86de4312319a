# SPDX-License-Identifier: Apache-2.0
# Device lanes: HOCKET_CUDA=AUTO compiles them where a working nvcc is found, ON demands it, OFF leaves them out.
# Sets HOCKET_HAS_CUDA. Nothing here is linked into libhocket.so.
set(HOCKET_HAS_CUDA OFF)
if(HOCKET_CUDA MATCHES "^(ON|1|TRUE|YES)$" OR HOCKET_CUDA STREQUAL "AUTO")
  # 12.4 is the first that knows the 16-byte accesses of exec/memory_order.hpp in C++20.
  set(hocket_cuda_least 12.4)
  include(CheckLanguage)
  check_language(CUDA)
  set(hocket_cuda_problem "no working nvcc was found (PATH, CUDACXX and CMAKE_CUDA_COMPILER are looked at)")
  if(CMAKE_CUDA_COMPILER)
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 90-real)
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit QUIET)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS hocket_cuda_least)
      set(hocket_cuda_problem "nvcc ${CMAKE_CUDA_COMPILER_VERSION} is older than ${hocket_cuda_least}")
    elseif(NOT CUDAToolkit_FOUND)
      set(hocket_cuda_problem "${CMAKE_CUDA_COMPILER} comes without the rest of its toolkit")
    else()
      set(HOCKET_HAS_CUDA ON)
      if(NOT CMAKE_CUDA_COMPILER_LAUNCHER AND CMAKE_CXX_COMPILER_LAUNCHER)
        set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
      endif()
    endif()
  endif()
  if(HOCKET_HAS_CUDA)
    message(STATUS "device lanes: nvcc ${CMAKE_CUDA_COMPILER_VERSION} for architecture ${CMAKE_CUDA_ARCHITECTURES}")
  elseif(HOCKET_CUDA STREQUAL "AUTO")
    message(STATUS "device lanes: left out, ${hocket_cuda_problem}")
  else()
    message(FATAL_ERROR "HOCKET_CUDA=${HOCKET_CUDA}, but ${hocket_cuda_problem}")
  endif()
elseif(NOT HOCKET_CUDA MATCHES "^(OFF|0|FALSE|NO)$")
  message(FATAL_ERROR "HOCKET_CUDA is AUTO, ON or OFF, not ${HOCKET_CUDA}")
endif()

# The kernel of exec/cuda_lane.cu as an object of its own: embedded and loaded at run time later, linked by tests/gpu now.
# Host and device give equal bits: nothing is contracted into a fused multiply-add.
if(HOCKET_HAS_CUDA)
  # CMake before 3.26 does not know that nvcc speaks C++20, so it is an option here and not CUDA_STANDARD.
  add_library(hocket_cuda_lane OBJECT ${PROJECT_SOURCE_DIR}/src/exec/cuda_lane.cu)
  target_include_directories(hocket_cuda_lane PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(hocket_cuda_lane PRIVATE -std=c++20 --fmad=false --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra
    $<$<BOOL:${HOCKET_WERROR}>:--Werror=all-warnings>)
endif()
