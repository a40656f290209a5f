#include "server/frame_refusals.h"

#include "common/base/logging.h"

namespace tern::server {

protocol::Message FrameRefusals::Answer(const net::FrameError& error, Time now) {
  if (log_limiter_.Allow(now)) {
    LOG(WARNING) << "refused a frame" << log_limiter_.TakeAndMore() << ": "
                 << error.status.message();
  }
  const bool is_other_version = error.fault == net::Fault::kOtherVersion;
  return protocol::MakeRefusal(error.status.code(), error.status.message(),
                               is_other_version ? pb::Refuse::leave : pb::Refuse::reconnect);
}

}  // namespace tern::server
