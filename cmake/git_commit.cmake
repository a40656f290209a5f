# cmake -DSOURCE=... -DOUT=... -P: writes the commit of the tree to OUT, a .cc file, if it is another than the file has.
set(commit unknown)
find_program(git git)
if(git)
  execute_process(COMMAND ${git} describe --always --dirty --abbrev=12 --match= WORKING_DIRECTORY ${SOURCE}
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
  if(result EQUAL 0)
    set(commit ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [[
#include "setup/version.h"

namespace tern::setup {

const char* GitCommit() { return "@commit@"; }

}  // namespace tern::setup
]])
