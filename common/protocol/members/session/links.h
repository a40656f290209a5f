// A session's connections: one link for each lane of each shard, and what is known of the server
// behind it.
//
//   kDown --connect, Hello--> kGreeting --Welcome--> kUp
//     ^                         |   ^ ^               | |
//     |                         |   +-+ connects anew | |
//     |                         |   +--asked to retry-+ |
//     +--its server is replaced-+-----------------------+
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/members/session/session_actions.h"
#include "common/protocol/rounds/exchange.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

class Links {
 public:
  enum class State : uint8_t { kDown, kGreeting, kUp };
  struct Link {
    State state = State::kDown;
    uint32_t port = 0;
    Time connected_at{}, hello_at{};
  };
  struct Shard {
    uint64_t incarnation = 0;  // of the server, once welcomed
    std::vector<uint32_t> data_ports;
    Time heard_at{};
  };
  // `servers`: addresses by shard, for messages. `hello` makes what is said on a lane. The exchange
  // outlives the links, and hears which of its lanes go down.
  Links(const std::vector<uint32_t>& data_lanes, std::vector<std::string> servers,
        std::function<Message(LaneRef)> hello, Exchange* exchange);

  // Opens the lane's connection anew and says hello on it; `port` 0: the shard's address.
  void Connect(LaneRef lane, uint32_t port, Time now, SessionActions* out);
  // Opens the data connections of a shard that has welcomed this worker, where they are down.
  void ConnectData(uint32_t shard, Time now, SessionActions* out);
  void Greet(LaneRef lane, Time now, SessionActions* out);
  void GreetAllUp(Time now, SessionActions* out);
  // Says hello again where it was not answered for `retry`.
  void GreetAgain(Time retry, Time now, SessionActions* out);
  // The only way from state to state but for Connect. False, and nothing changes, where the drawing
  // has no arrow.
  bool Become(LaneRef lane, State next);
  // Another life of the server: its data connections lead nowhere.
  void DropData(uint32_t shard);
  // This worker comes as another incarnation: all are dropped, and control connected.
  void BeginAnew(Time now, SessionActions* out);
  void LoseShard(uint32_t shard, Time now, const std::string& why, SessionActions* out);

  uint32_t shards() const { return static_cast<uint32_t>(shards_.size()); }
  Shard& shard(uint32_t shard) { return shards_[shard]; }
  const Link& link(LaneRef lane) const { return links_[lane.shard][lane.lane]; }
  bool IsUp(LaneRef lane) const { return link(lane).state == State::kUp; }
  bool AllUp() const;
  std::string NameOf(uint32_t shard) const;  // "server shard 0 (127.0.0.1:7500)"
  // Holds after every event: a data link that is not down follows a Welcome of its shard; a link
  // that is up is up for the exchange.
  Status Check() const;

 private:
  friend class SessionPeer;  // of the tests

  std::vector<std::string> servers_;
  std::function<Message(LaneRef)> hello_;
  Exchange* exchange_;
  std::vector<std::vector<Link>> links_;  // by shard, lane
  std::vector<Shard> shards_;
};

}  // namespace tern::protocol
