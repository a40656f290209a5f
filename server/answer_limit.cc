#include "server/answer_limit.h"

#include <algorithm>
#include <string>

namespace tern::server {

namespace {

constexpr double kMaxAtOnce = 16;   // answers that a peer gets at once
constexpr double kPerSecond = 1;    // further answers
constexpr size_t kMaxPeers = 4096;  // peers that are remembered
constexpr Time kFullAfter =
    std::chrono::seconds(16);  // after this time a peer may get kMaxAtOnce again

}  // namespace

AnswerLimit::AnswerLimit(Registry& registry, uint32_t lane)
    : dropped_(registry.GetCounter("tern_server_unanswered_total",
                                   "Messages of peers that do not belong to the job and were not "
                                   "answered, because there were "
                                   "too many",
                                   {{"lane", std::to_string(lane)}})) {}

bool AnswerLimit::MayAnswer(net::PeerId peer, Time now) {
  auto found = allowances_.find(peer);
  if (found == allowances_.end()) {
    if (allowances_.size() >= kMaxPeers) {
      std::erase_if(allowances_,
                    [now](const auto& item) { return now - item.second.counted_at >= kFullAfter; });
    }
    if (allowances_.size() >= kMaxPeers) {
      dropped_.Add();
      return false;
    }
    found = allowances_.emplace(peer, Allowance{kMaxAtOnce, now}).first;
  }
  Allowance& allowance = found->second;
  const double seconds = std::chrono::duration<double>(now - allowance.counted_at).count();
  allowance.num_answers = std::min(kMaxAtOnce, allowance.num_answers + kPerSecond * seconds);
  allowance.counted_at = now;
  if (allowance.num_answers < 1) {
    dropped_.Add();
    return false;
  }
  allowance.num_answers -= 1;
  return true;
}

}  // namespace tern::server
