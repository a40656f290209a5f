#include "common/net/zmq_version.h"

#include <zmq.h>

#include "common/base/text.h"

namespace tern::net {

bool ZmqHasTernsPatches() { return zmq_has("tern") == 1; }

std::string ZmqVersion() {
  int major = 0, minor = 0, patch = 0;
  zmq_version(&major, &minor, &patch);
  return Cat("libzmq ", major, ".", minor, ".", patch, ZmqHasTernsPatches() ? " with" : " without",
             " Tern's patches");
}

}  // namespace tern::net
