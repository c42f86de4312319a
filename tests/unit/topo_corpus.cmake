# SPDX-License-Identifier: Apache-2.0
# Every machine file of a folder is read, searched and held to what is right for it: cmake -DTOOL=… -DCORPUS=… -P
# topo_corpus.cmake. CORPUS: machines (tests/topologies/machines), or real: the folder that HOCKET_TOPOLOGIES names, or
# shared/topologies beside the checkout; where there is none the test is skipped.
set(answers ${CMAKE_CURRENT_LIST_DIR}/../topologies)
if(CORPUS STREQUAL "machines")
  set(folder ${answers}/machines)
  set(answers ${answers}/machines/answers.txt)
else()
  set(folder "$ENV{HOCKET_TOPOLOGIES}")
  if(NOT folder)
    set(folder ${CMAKE_CURRENT_LIST_DIR}/../../../shared/topologies)
  endif()
  if(NOT IS_DIRECTORY ${folder})
    message("SKIPPED: HOCKET_TOPOLOGIES names no folder of machine files, so real machines are not tried")
    return()
  endif()
  set(answers ${answers}/corpus-answers.txt)
endif()
execute_process(COMMAND ${TOOL} topo --corpus ${folder} --table --answers ${answers} RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "a row of ${folder} is wrong")
endif()
