// Which libzmq a program is linked with: scripts/build_libzmq.sh adds patches to Debian's.
#pragma once

#include <string>

namespace tern::net {

// Whether libzmq refuses peers whose routing ids would abort the process, and messages without end.
bool ZmqHasTernsPatches();
// "libzmq 4.3.4 with Tern's patches" or "... without ...".
std::string ZmqVersion();

}  // namespace tern::net
