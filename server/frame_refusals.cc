#include "server/frame_refusals.h"

#include "common/base/logging.h"

namespace tern::server {

std::optional<protocol::Message> FrameRefusals::Answer(net::PeerId peer,
                                                       const net::FrameError& error, Time now) {
  if (log_limiter_.Allow(now)) {
    LOG(WARNING) << "refused a frame" << log_limiter_.TakeAndMore() << ": "
                 << error.status.message();
  }
  if (told_.size() >= kMaxPeers && !told_.contains(peer)) told_.clear();
  Told& told = told_[peer];
  if (told.num_answers >= kMaxAnswers || !told.limiter.Allow(now)) return std::nullopt;
  ++told.num_answers;
  const bool is_other_version = error.fault == net::Fault::kOtherVersion;
  return protocol::MakeRefuse(ExitCode(error.status), error.status.message(),
                              is_other_version ? pb::Refuse::leave : pb::Refuse::reconnect);
}

}  // namespace tern::server
