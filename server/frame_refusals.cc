#include "server/frame_refusals.h"

#include "common/base/logging.h"

namespace tern::server {

std::optional<protocol::Message> FrameRefusals::Answer(net::PeerId peer, const Status& status,
                                                       Time now) {
  if (log_limiter_.Allow(now)) {
    LOG(WARNING) << "refused a frame" << log_limiter_.TakeAndMore() << ": " << status.message();
  }
  if (told_.size() >= kMaxPeers && !told_.contains(peer)) told_.clear();
  Told& told = told_[peer];
  if (told.num_answers >= kMaxAnswers || !told.limiter.Allow(now)) return std::nullopt;
  ++told.num_answers;
  return protocol::MakeRefuse(ExitCode(status), status.message(), pb::Refuse::leave);
}

}  // namespace tern::server
