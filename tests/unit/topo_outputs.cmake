# SPDX-License-Identifier: Apache-2.0
# Every form in which `hocket topo` tells of a machine, for each of tests/topologies/machines: cmake -DTOOL=… -P
# topo_outputs.cmake
file(GLOB machines ${CMAKE_CURRENT_LIST_DIR}/../topologies/machines/*.xml ${CMAKE_CURRENT_LIST_DIR}/../topologies/machines/matrix*.txt)
if(NOT machines)
  message(FATAL_ERROR "no machines")
endif()
foreach(machine ${machines})
  foreach(form "--svg;-|<svg .*</svg>\n$" "--json|^{\"graph\":.*\"devices\":.*}\n$" "--paths|^" "--save;-|^<system .*</system>\n$"
      "--graph;-|^<graphs .*</graphs>\n$" "--explain;all_reduce;--bytes;64M|^all_reduce of 64 MiB" "|what hocket derives")
    string(REGEX REPLACE "\\|.*" "" arguments "${form}")
    string(REGEX REPLACE "^[^|]*\\|" "" right "${form}")
    execute_process(COMMAND ${TOOL} topo --from ${machine} ${arguments} RESULT_VARIABLE failed OUTPUT_VARIABLE out ERROR_VARIABLE error)
    if(failed OR NOT "${out}" MATCHES "${right}")
      message(FATAL_ERROR "hocket topo --from ${machine} ${arguments} (status ${failed}):\n${out}${error}")
    endif()
  endforeach()
endforeach()

execute_process(COMMAND ${TOOL} topo --from ${CMAKE_CURRENT_LIST_FILE} RESULT_VARIABLE failed ERROR_VARIABLE error OUTPUT_QUIET)
if(NOT failed EQUAL 1 OR NOT error MATCHES "topo_outputs.cmake")
  message(FATAL_ERROR "a file of no machine: status ${failed}, '${error}'")
endif()
