# Compiles several files of a target at once, so that their includes and templates are processed only once, which takes
# a third of the time. Helpers in unnamed namespaces of one target then need different names; files with conflicting
# names are listed under ALONE. If off, files are compiled one by one, which shows missing includes.
option(TERN_TOGETHER "Compile files of a target several at a time" ON)
set(TERN_TOGETHER_FILES 16 CACHE STRING "How many files at a time: more are quicker all in all, and slower after an edit")

# tern_together(OUT TARGET SOURCES... [ALONE ...]): sets OUT to generated files that include SOURCES, to compile in
# their place. CMake's own "unity builds" contain absolute paths, so that clones could not share compiler caches.
function(tern_together out target)
  cmake_parse_arguments(ARG "" "" "ALONE" ${ARGN})
  set(alone)
  set(shared)
  foreach(source ${ARG_UNPARSED_ARGUMENTS})
    if(NOT TERN_TOGETHER OR source IN_LIST ARG_ALONE)
      list(APPEND alone ${source})
    else()
      get_filename_component(source ${source} ABSOLUTE)
      file(RELATIVE_PATH source ${CMAKE_SOURCE_DIR} ${source})
      list(APPEND shared ${source})
    endif()
  endforeach()
  list(LENGTH shared count)
  math(EXPR pieces "(${count} + ${TERN_TOGETHER_FILES} - 1) / ${TERN_TOGETHER_FILES}")
  set(piece 0)
  while(piece LESS pieces)
    math(EXPR begin "${count} * ${piece} / ${pieces}")
    math(EXPR piece "${piece} + 1")
    math(EXPR size "${count} * ${piece} / ${pieces} - ${begin}")
    list(SUBLIST shared ${begin} ${size} of_piece)
    list(TRANSFORM of_piece REPLACE "(.+)" "#include \"\\1\"\n")
    list(JOIN of_piece "" content)
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${target}_${piece}.cc CONTENT "${content}" @ONLY)
    list(APPEND alone ${CMAKE_CURRENT_BINARY_DIR}/${target}_${piece}.cc)
  endwhile()
  set(${out} ${alone} PARENT_SCOPE)
endfunction()

# tern_library(NAME [UNCHECKED] SOURCES ... ALONE ... DEPS ... PRIVATE_DEPS ...): a static library tern_NAME. PRIVATE_DEPS
# are external libraries that no header of ours includes. UNCHECKED: without tern_hardening.
function(tern_library name)
  cmake_parse_arguments(ARG "UNCHECKED" "" "SOURCES;ALONE;DEPS;PRIVATE_DEPS" ${ARGN})
  tern_together(files tern_${name} ${ARG_SOURCES} ALONE ${ARG_ALONE})
  add_library(tern_${name} STATIC ${files})
  target_link_libraries(tern_${name} PUBLIC tern_flags ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  if(NOT ARG_UNCHECKED)
    target_link_libraries(tern_${name} PRIVATE tern_hardening)
  endif()
endfunction()

# tern_installed(FOLDER TARGETS...): installs programs that find their libraries in FOLDER, relative to their own folder
# (scripts/package.sh). Uses DT_RPATH, which also applies to the libraries of libraries. The build has the same path,
# because CMake would leave an empty element, the current folder, if it changed the path at installation.
function(tern_installed folder)
  set_target_properties(${ARGN} PROPERTIES BUILD_WITH_INSTALL_RPATH ON
                                           INSTALL_RPATH "$ORIGIN/${folder}")
  foreach(target ${ARGN})
    target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
  endforeach()
endfunction()

# tern_binary(NAME SOURCES ... DEPS ...): a program NAME that is installed.
function(tern_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE tern_flags tern_hardening tern_commit ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  tern_installed(../lib ${name})
  install(TARGETS ${name} DESTINATION bin)
endfunction()

# The headers that most tests include are compiled once (g++ only: clang's would not be found in a compiler cache).
option(TERN_THOROUGH "Let ctest run the instantiations named Thorough, too (scripts/release_check.sh)" OFF)
set(TERN_TEST_HEADERS <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp> <algorithm> <chrono> <filesystem> <fstream>
                      <functional> <map> <memory> <optional> <random> <regex> <set> <sstream> <string> <thread> <vector>)
if(TERN_TOGETHER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(TERN_TESTS_PRECOMPILE ON)
endif()

# tern_test_options(TARGET): how tests are compiled: not optimized, which takes half the time, and without checks for
# undefined behaviour, which take a third. The tested libraries are not affected.
set(TERN_TEST_OPTIONS $<$<CONFIG:Release,RelWithDebInfo>:-O0> $<$<CONFIG:RelWithDebInfo>:-fno-sanitize=undefined>)
function(tern_test_options target)
  target_compile_options(${target} PRIVATE ${TERN_TEST_OPTIONS})
  if(NOT TERN_TESTS_PRECOMPILE)
    return()
  endif()
  if(NOT TARGET tern_test_headers)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/test_headers.cc CONTENT "")
    # A program, as the tests are: the code of libraries is compiled with other flags.
    add_executable(tern_test_headers ${CMAKE_BINARY_DIR}/test_headers.cc)
    target_link_libraries(tern_test_headers PRIVATE tern_flags tern_proto GTest::gmock GTest::gtest_main
                                                    nlohmann_json::nlohmann_json)
    if(TERN_CCACHE)
      set_target_properties(tern_test_headers PROPERTIES
        CXX_COMPILER_LAUNCHER "${CMAKE_SOURCE_DIR}/cmake/without_old_output.sh;${CMAKE_CXX_COMPILER_LAUNCHER}")
    endif()
    target_compile_options(tern_test_headers PRIVATE ${TERN_TEST_OPTIONS})
    target_precompile_headers(tern_test_headers PRIVATE ${TERN_TEST_HEADERS} <proto/job.pb.h> <proto/wire.pb.h>)
  endif()
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  target_precompile_headers(${target} REUSE_FROM tern_test_headers)
endfunction()

# tern_test(NAME SOURCES ... ALONE ... DEPS ... [COMPUTES] [TIMEOUT S] [NO_TSAN PATTERN] [LABELS ...]): one GoogleTest
# program NAME_test, one ctest entry. COMPUTES: the test itself computes much and is optimized. NO_TSAN: a pattern of
# GoogleTest for cases that the thread-sanitizer run leaves out. Labels: `tsan` marks tests of the thread-sanitizer run,
# whose code has threads that share something; `process` tests that start real processes; `e2e` tests that only test
# whole programs; all others are unit tests. The targets unit_tests and tsan_tests build those tests.
add_custom_target(unit_tests)
add_custom_target(tsan_tests)
function(tern_test name)
  cmake_parse_arguments(ARG "COMPUTES" "TIMEOUT;NO_TSAN" "SOURCES;ALONE;DEPS;LABELS" ${ARGN})
  tern_together(files ${name}_test ${ARG_SOURCES} ALONE ${ARG_ALONE})
  add_executable(${name}_test ${files})
  target_link_libraries(${name}_test PRIVATE tern_flags ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  if(ARG_COMPUTES)
    target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)
  else()
    tern_test_options(${name}_test)
  endif()
  set(left_out)
  if(NOT TERN_THOROUGH)
    list(APPEND left_out "Thorough/*")
  endif()
  if(TERN_SANITIZE STREQUAL thread)
    list(APPEND left_out ${ARG_NO_TSAN})
  endif()
  list(JOIN left_out ":" left_out)
  add_test(NAME ${name} COMMAND ${name}_test "--gtest_filter=-${left_out}" WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  if(NOT e2e IN_LIST ARG_LABELS)
    add_dependencies(unit_tests ${name}_test)
  endif()
  if(tsan IN_LIST ARG_LABELS)
    add_dependencies(tsan_tests ${name}_test)
  endif()
endfunction()
