#include "common/protocol/members/session/links.h"

#include <algorithm>
#include <utility>

#include "common/base/invariants.h"
#include "common/base/text.h"

namespace tern::protocol {

namespace {

constexpr const char* kLinkStates[] = {"down", "greeting", "up"};

const char* NameOf(Links::State state) { return kLinkStates[static_cast<size_t>(state)]; }

}  // namespace

Links::Links(const std::vector<uint32_t>& data_lanes, std::vector<std::string> servers,
             std::function<Message(LaneRef)> hello, Exchange* exchange, Time patience)
    : server_addresses_(std::move(servers)),
      hello_(std::move(hello)),
      exchange_(exchange),
      patience_(patience),
      shards_(data_lanes.size()) {
  for (uint32_t num_data_lanes : data_lanes) links_.emplace_back(num_data_lanes + 1);
}

bool Links::Become(LaneRef lane, State next) {
  State& state = links_[lane.shard][lane.lane].state;
  const bool is_allowed = state != State::kDown || next == State::kDown;
  TERN_REQUIRES(is_allowed, "link ", lane.shard, ".", lane.lane, ": is ", protocol::NameOf(state),
                ", and cannot become ", protocol::NameOf(next));
  if (is_allowed) state = next;
  return is_allowed;
}

void Links::Connect(LaneRef lane, uint32_t port, Time now, SessionActions* out) {
  out->push_back(MakeAction(SessionAction::Type::kConnect, lane));
  out->back().port = port;
  const Time patience = std::max(patience_, link(lane).patience);
  links_[lane.shard][lane.lane] = Link{State::kGreeting, port, now, now, now, Time{}, patience};
  Greet(lane, now, out);
}

void Links::ConnectDataLinks(uint32_t shard, Time now, SessionActions* out) {
  if (!IsUp({shard, 0})) return;
  for (uint32_t l = 1; l < links_[shard].size(); ++l) {
    if (links_[shard][l].state == State::kDown)
      Connect({shard, l}, shards_[shard].data_ports[l - 1], now, out);
  }
}

void Links::Greet(LaneRef lane, Time now, SessionActions* out) {
  links_[lane.shard][lane.lane].hello_at = now;
  out->push_back(MakeSend(lane, hello_(lane)));
}

void Links::GreetAllUp(Time now, SessionActions* out) {
  for (uint32_t s = 0; s < num_shards(); ++s) {
    for (uint32_t l = 0; l < links_[s].size(); ++l) {
      if (IsUp({s, l})) Greet({s, l}, now, out);
    }
  }
}

void Links::GreetAgain(Time retry, Time now, SessionActions* out) {
  for (uint32_t s = 0; s < num_shards(); ++s) {
    for (uint32_t l = 0; l < links_[s].size(); ++l) {
      const Link& lane_link = links_[s][l];
      if (lane_link.state == State::kGreeting && now - lane_link.hello_at >= retry)
        Greet({s, l}, now, out);
    }
  }
}

void Links::Hear(LaneRef lane, Time now) {
  Link& heard = links_[lane.shard][lane.lane];
  heard.heard_at = now;
  heard.patience = patience_;
  if (lane.lane != 0) return;
  shards_[lane.shard].heard_at = now;
  shards_[lane.shard].was_heard = true;
}

void Links::Probe(LaneRef lane, Time now, SessionActions* out) {
  if (lane.lane == 0 || !IsUp(lane)) return;
  Link& probed = links_[lane.shard][lane.lane];
  if (!probed.is_probed()) probed.probed_at = now;
  Greet(lane, now, out);
  out->back().message.head.mutable_hello()->set_probe(static_cast<uint64_t>(now.count()));
}

void Links::ReplaceUnanswered(Time now, SessionActions* out) {
  constexpr Time kLongestPatience = std::chrono::minutes(10);
  constexpr Time kTimeOfByte = std::chrono::microseconds(1);  // on a link of 8 Mbit/s
  for (uint32_t s = 0; s < num_shards(); ++s) {
    for (uint32_t l = 1; l < links_[s].size(); ++l) {
      Link& data_link = links_[s][l];
      const bool must_answer = data_link.state == State::kGreeting ||
                               (data_link.state == State::kUp && data_link.is_probed());
      const Time since = std::max(data_link.heard_at, data_link.probed_at);
      Time patience = data_link.patience;
      if (data_link.state == State::kUp)
        patience += kTimeOfByte * exchange_->queue().SentBytes({s, l});
      if (!must_answer || now - since <= patience) continue;
      data_link.patience = std::min(2 * data_link.patience, kLongestPatience);
      Reconnect({s, l}, "answers nothing", now, out);
    }
  }
}

void Links::Reconnect(LaneRef lane, const std::string& why, Time now, SessionActions* out) {
  if (!why.empty())
    Log(Cat(NameOf(lane.shard), ", lane ", lane.lane, ": ", why, "; connecting again"), out);
  exchange_->OnLaneDown(lane);
  Connect(lane, link(lane).port, now, out);
}

void Links::DropDataLinks(uint32_t shard) {
  for (uint32_t l = 1; l < links_[shard].size(); ++l) {
    exchange_->OnLaneDown({shard, l});
    Become({shard, l}, State::kDown);
  }
}

void Links::ReconnectAll(Time now, SessionActions* out) {
  for (uint32_t s = 0; s < num_shards(); ++s) {
    exchange_->OnLaneDown({s, 0});
    DropDataLinks(s);
    Connect({s, 0}, 0, now, out);
  }
}

void Links::LoseShard(uint32_t shard, Time now, const std::string& why, SessionActions* out) {
  Log(NameOf(shard) + " is lost: " + why, out);
  Reconnect({shard, 0}, "", now, out);
}

bool Links::AllUp() const {
  return std::all_of(links_.begin(), links_.end(), [](const auto& lanes) {
    return std::all_of(lanes.begin(), lanes.end(),
                       [](const Link& lane_link) { return lane_link.state == State::kUp; });
  });
}

std::string Links::NamesOfThoseNotUp() const {
  std::vector<std::string> names;
  for (uint32_t s = 0; s < num_shards(); ++s) {
    const auto is_down = [](const Link& lane_link) { return lane_link.state != State::kUp; };
    if (std::any_of(links_[s].begin(), links_[s].end(), is_down)) names.push_back(NameOf(s));
  }
  return Join(names);
}

std::string Links::NameOf(uint32_t shard) const {
  return "server shard " + std::to_string(shard) + " (" + server_addresses_[shard] + ")";
}

Status Links::Check() const {
  for (uint32_t s = 0; s < links_.size(); ++s) {
    for (uint32_t l = 0; l < links_[s].size(); ++l) {
      const State state = links_[s][l].state;
      TERN_HOLDS(l == 0 || state == State::kDown || shards_[s].incarnation != 0, "link ", s, ".", l,
                 ": is ", protocol::NameOf(state), ", and shard ", s, " has said no Welcome");
      TERN_HOLDS(state != State::kUp || exchange_->IsUp({s, l}), "link ", s, ".", l,
                 ": is up, and down for the exchange");
    }
  }
  return Ok();
}

}  // namespace tern::protocol
