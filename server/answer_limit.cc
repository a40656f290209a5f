#include "server/answer_limit.h"

#include <chrono>
#include <string>
#include <utility>

namespace tern::server {

namespace {

constexpr int kMaxAtOnce = 16;                       // answers that a peer gets at once
constexpr Time kInterval = std::chrono::seconds(1);  // between further answers
constexpr uint64_t kMaxUnanswered = 16;              // messages of a peer
constexpr size_t kMaxPeers = 4096;                   // peers that are remembered

}  // namespace

AnswerLimit::AnswerLimit(Registry& registry, uint32_t lane, HangUp hang_up)
    : hang_up_(std::move(hang_up)),
      dropped_(registry.GetCounter("tern_server_unanswered_total",
                                   "Messages of peers that do not belong to the job and were not "
                                   "answered, because there were "
                                   "too many",
                                   {{"lane", std::to_string(lane)}})) {}

bool AnswerLimit::MayAnswer(net::PeerId peer, Time now) {
  if (limiters_.size() >= kMaxPeers && !limiters_.contains(peer))
    std::erase_if(limiters_, [now](const auto& item) { return item.second.IsUnused(now); });
  if (limiters_.contains(peer) || limiters_.size() < kMaxPeers) {
    RateLimiter& limiter = limiters_.try_emplace(peer, kMaxAtOnce, kInterval).first->second;
    if (limiter.Allow(now)) return true;
    if (limiter.num_held_back() >= kMaxUnanswered) {
      limiter.TakeHeldBack();
      hang_up_(peer);
    }
  }
  dropped_.Add();
  return false;
}

}  // namespace tern::server
