# SPDX-License-Identifier: Apache-2.0
# HOCKET_TOPO_FILE and HOCKET_GRAPH_DUMP_FILE reach a job, also by NCCL's names: cmake -DTOOL=… -DFOLDER=… -P
# topo_variables.cmake
set(machine ${CMAKE_CURRENT_LIST_DIR}/../topologies/machines/cube-mesh-renamed.xml)
set(job ${TOOL} perf all_reduce --ranks 2 -b 8 -e 8 -n 1 -w 0)
foreach(names "HOCKET_TOPO_FILE;HOCKET_GRAPH_DUMP_FILE" "NCCL_TOPO_FILE;NCCL_GRAPH_DUMP_FILE")
  list(GET names 0 topo_file)
  list(GET names 1 dump_file)
  set(dump ${FOLDER}/topo_variables_${topo_file}.xml)
  file(REMOVE ${dump})
  execute_process(COMMAND ${CMAKE_COMMAND} -E env ${topo_file}=${machine} ${dump_file}=${dump} ${job}
    RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(failed)
    message(FATAL_ERROR "a job with ${topo_file} failed:\n${said}")
  endif()
  file(READ ${dump} text)
  if(NOT text MATCHES "nchannels=\"6\"")
    message(FATAL_ERROR "${dump_file}: not the six rings of ${machine}:\n${text}")
  endif()
  file(REMOVE ${dump})
endforeach()

execute_process(COMMAND ${CMAKE_COMMAND} -E env HOCKET_TOPO_FILE=/nonexistent/machine.xml ${job}
  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(NOT failed OR NOT said MATCHES "/nonexistent/machine.xml")
  message(FATAL_ERROR "a file that is not there was passed over, or not named:\n${said}")
endif()
