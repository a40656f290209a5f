# tern_library(NAME SOURCES ... DEPS ... PRIVATE_DEPS ...): a static library tern_NAME.
# PRIVATE_DEPS are vendor libraries that no header of ours shows.
function(tern_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(tern_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(tern_${name} PUBLIC tern_flags ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
endfunction()

# tern_installed(FOLDER TARGETS...): programs that find their libraries in FOLDER, which counts from where they are, and
# those libraries each other (scripts/package.sh): the older of the two kinds of search path, which counts for libraries'
# libraries too. The build has the same path: one that CMake changes when it installs ends in an empty element, which is
# the current folder.
function(tern_installed folder)
  set_target_properties(${ARGN} PROPERTIES BUILD_WITH_INSTALL_RPATH ON
                                           INSTALL_RPATH "$ORIGIN/${folder};${TERN_CUDA_LIBRARY_FOLDER}")
  foreach(target ${ARGN})
    target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
  endforeach()
endfunction()

# tern_binary(NAME SOURCES ... DEPS ...): an installed program NAME.
function(tern_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE tern_flags ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  tern_installed(../lib ${name})
  install(TARGETS ${name} DESTINATION bin)
endfunction()

# tern_test(NAME SOURCES ... DEPS ... [TIMEOUT S] [LABELS ...]): one GoogleTest program NAME_test, one ctest entry.
# Labels: `tsan` marks what the thread-sanitizer run covers, `process` what starts real processes.
function(tern_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  target_link_libraries(${name}_test PRIVATE tern_flags ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name}_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
