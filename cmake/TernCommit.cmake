# tern_commit: the file that knows the commit. Only programs link it, so that a commit links them anew and compiles
# nothing else.
set(commit_file ${CMAKE_BINARY_DIR}/git_commit.cc)
add_custom_target(tern_find_commit
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${CMAKE_SOURCE_DIR} -D OUT=${commit_file} -P ${CMAKE_SOURCE_DIR}/cmake/git_commit.cmake
  BYPRODUCTS ${commit_file})
add_library(tern_commit OBJECT ${commit_file})
add_dependencies(tern_commit tern_find_commit)
target_link_libraries(tern_commit PRIVATE tern_flags tern_hardening)
