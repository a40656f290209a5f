#include "setup/version.h"

#include <google/protobuf/stubs/common.h>

#include "common/base/text.h"
#include "common/net/frame.h"
#include "common/net/zmq_version.h"

namespace tern::setup {

const char* TernVersion() { return TERN_VERSION; }

std::string VersionText(const std::string& program, const std::string& commit,
                        const std::vector<std::string>& more_libraries) {
  std::vector<std::string> libraries = {
      net::ZmqVersion(),
      "protobuf " + google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION)};
  libraries.insert(libraries.end(), more_libraries.begin(), more_libraries.end());
  return Cat(program, " version ", TernVersion(), ", commit ", commit, ", wire version ",
             net::kWireVersion, "\n", Join(libraries), "\n");
}

}  // namespace tern::setup
