#include "server/answer_limit.h"

#include <chrono>
#include <string>
#include <utility>

namespace tern::server {

namespace {

// Of answers to a peer, and of messages of a peer without an answer.
constexpr RateLimiter kAnswered{16, std::chrono::seconds(1)};
constexpr RateLimiter kUnanswered{16, std::chrono::milliseconds(50)};
constexpr size_t kMaxPeers = 4096;  // peers that are remembered

}  // namespace

AnswerLimit::AnswerLimit(Registry& registry, uint32_t lane, HangUp hang_up)
    : hang_up_(std::move(hang_up)),
      dropped_(registry.GetCounter("tern_server_unanswered_total",
                                   "Messages of peers that do not belong to the job and were not "
                                   "answered, because there were "
                                   "too many",
                                   {{"lane", std::to_string(lane)}})) {}

bool AnswerLimit::MayAnswer(net::PeerId peer, Time now) {
  if (limits_.size() >= kMaxPeers && !limits_.contains(peer))
    std::erase_if(limits_, [now](const auto& item) { return item.second.answered.IsUnused(now); });
  if (limits_.contains(peer) || limits_.size() < kMaxPeers) {
    Limits& limits = limits_.try_emplace(peer, kAnswered, kUnanswered).first->second;
    if (limits.answered.Allow(now)) return true;
    if (!limits.unanswered.Allow(now)) hang_up_(peer);
  }
  dropped_.Add();
  return false;
}

}  // namespace tern::server
