// The log of a library in a foreign process: lines go to the programs' polls, not to files and
// stderr.
#pragma once

#include "client/guest/handoff.h"

namespace tern::client {

// From now on every line of the process's log, of any client, becomes an event of `receiver` too.
void AddLogReceiver(GuestEvents* receiver);
void RemoveLogReceiver(GuestEvents* receiver);

}  // namespace tern::client
