# SPDX-License-Identifier: Apache-2.0
# reduce_symbols.cmake: the objects of the SIMD targets define their table and nothing else that a linker could pick for the
# rest of the library (an inline function compiled for AVX-512 would end on other CPUs as an illegal instruction), and need
# nothing of Highway's library. cmake -DNM=… -DOBJECTS=a.o;b.o -P reduce_symbols.cmake
if(NOT OBJECTS)
  message(FATAL_ERROR "no objects to look at")
endif()
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND ${NM} -C ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" symbols "${symbols}")
  foreach(line IN LISTS symbols)
    if(line MATCHES " [WVuiBCDGRSTw] " AND NOT line MATCHES "hocket::[a-z0-9]+::kReduceTable$")
      message(SEND_ERROR "${object} defines ${line}")
    endif()
    if(line MATCHES " U .*hwy")
      message(SEND_ERROR "${object} needs ${line}")
    endif()
  endforeach()
endforeach()
