# Writes OUT, a source file with the commit of which SOURCE is checked out, if it has changed:
#   cmake -DSOURCE=FOLDER -DOUT=FILE -P cmake/TernCommit.cmake
set(ENV{GIT_OPTIONAL_LOCKS} 0)
execute_process(COMMAND git describe --always --dirty WORKING_DIRECTORY ${SOURCE}
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit MATCHES "^[-.0-9A-Za-z]+$")
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT [[
#include "common/base/commit.h"

namespace tern {

const char* Commit() { return "@commit@"; }

}  // namespace tern
]] @ONLY)
