# Language standard, warnings and sanitizers of all targets.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(TERN_CCACHE ccache)
if(TERN_CCACHE)
  # Paths in the tree are relative to it, so that clones can share a compiler cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  CCACHE_SLOPPINESS=pch_defines,time_macros  # what it needs for precompiled headers
                                  ${TERN_CCACHE})
endif()

# What makes a fault in memory end a process before it can be exploited. For everything but the
# loops over all weights or pixels (kernels, codecs, updates, engine).
# Not with sanitizers, which find such faults themselves, and not in debug builds: _FORTIFY_SOURCE needs optimization.
add_library(tern_hardening INTERFACE)
if(NOT TERN_SANITIZE)
  target_compile_options(
    tern_hardening INTERFACE
    "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2;-D_GLIBCXX_ASSERTIONS;-fstack-protector-strong;-fstack-clash-protection;-fcf-protection>")
endif()

add_library(tern_flags INTERFACE)
# Functions of libraries are bound at the start, so that the table of their addresses can be read-only.
target_link_options(tern_flags INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
target_include_directories(tern_flags INTERFACE ${CMAKE_SOURCE_DIR})
# Floating-point contraction is off everywhere, because codes and updates must be bit-equal on every device and
# compiler. -Wno-restrict: g++ 12 warns of std::string's own operator+ (GCC bug 105329).
target_compile_options(
  tern_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Werror;$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>;$<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>;-ffp-contract=off>
  $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;--fmad=false;-Xcompiler=-Wall,-Wextra,-Werror,-ffp-contract=off>)
if(TERN_SANITIZE)
  # Little optimization and line tables only (CMakePresets.json) halve the build time and run fast enough. Asserts stay
  # on. -Wno-maybe-uninitialized: the sanitizers' checks hide from g++ what it needs to judge (GCC's manual, "-Wall").
  # Three checks for undefined behaviour are off, which takes a third of the build time: the address sanitizer finds
  # accesses through null pointers, outside of objects, and to objects whose life is over, too.
  target_compile_options(
    tern_flags INTERFACE
    -fsanitize=${TERN_SANITIZE} -fno-sanitize=null,object-size,vptr -fno-sanitize-recover=all -fno-omit-frame-pointer -g1
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE})
endif()
