#include "server/malformed.h"

namespace tern::server {

protocol::Message AnswerToMalformed(const net::FrameError& error) {
  const bool is_other_version = error.fault == net::Fault::kOtherVersion;
  return protocol::MakeRefuse(ExitCode(error.status), error.status.message(),
                              is_other_version ? pb::Refuse::leave : pb::Refuse::reconnect);
}

}  // namespace tern::server
