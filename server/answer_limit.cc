#include "server/answer_limit.h"

#include <chrono>
#include <string>

namespace tern::server {

namespace {

constexpr int kMaxAtOnce = 16;                       // answers that a peer gets at once
constexpr Time kInterval = std::chrono::seconds(1);  // between further answers
constexpr size_t kMaxPeers = 4096;                   // peers that are remembered

}  // namespace

AnswerLimit::AnswerLimit(Registry& registry, uint32_t lane)
    : dropped_(registry.GetCounter("tern_server_unanswered_total",
                                   "Messages of peers that do not belong to the job and were not "
                                   "answered, because there were "
                                   "too many",
                                   {{"lane", std::to_string(lane)}})) {}

bool AnswerLimit::MayAnswer(net::PeerId peer, Time now) {
  if (limiters_.size() >= kMaxPeers && !limiters_.contains(peer))
    std::erase_if(limiters_, [now](const auto& item) { return item.second.IsUnused(now); });
  const bool is_known = limiters_.contains(peer) || limiters_.size() < kMaxPeers;
  if (is_known && limiters_.try_emplace(peer, kMaxAtOnce, kInterval).first->second.Allow(now))
    return true;
  dropped_.Add();
  return false;
}

}  // namespace tern::server
