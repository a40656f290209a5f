// The connections of a worker's session: one link per lane (socket) of each shard, and what the
// worker knows of the shard's server process. Lane 0 of a shard is its control lane; the others are
// data lanes. The states of a link:
//
//   kDown --connect, Hello--> kGreeting --Welcome--> kUp
//     ^                         |   ^ ^               | |
//     |                         |   +-+ connects anew | |
//     |                         |   +--asked to retry-+ |
//     +--its server is replaced-+-----------------------+
//
// A shard that lives answers every hello on a data lane. If a lane that is up delivers no outcomes
// although contributions wait for theirs, the worker probes it: it says hello once more, and the
// Welcome lists the contributions that the lane has counted. Only the others are sent again
// (Exchange::OnProbeAnswered), so a link that is merely slow carries nothing twice. A data
// connection on which nothing comes is replaced: bytes that were damaged on their way may have made
// the other end wait for the rest of a message that never comes.
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
    uint32_t port = 0;    // 0: the port of the shard's configured address
    Time connected_at{};  // when the newest connection began
    Time hello_at{};      // when the newest hello was sent
    Time heard_at{};      // when the newest message came
    Time probed_at{};     // when the oldest probe after heard_at was sent
    Time patience{};      // how long nothing may come before the connection is replaced
    bool is_probed() const { return probed_at > heard_at; }  // Whether a probe has no answer yet.
  };
  struct Shard {
    // The incarnation of the server process that sent the newest Welcome; 0: no Welcome yet.
    uint64_t incarnation = 0;
    std::vector<uint32_t> data_ports;
    Time heard_at{};  // when the newest message came on the control link, or the session began
    bool was_heard = false;  // whether a message has come on the control link
    Time echoed_at{};  // when the newest echo of a heartbeat came, or the control link came up
    Status obstacle;   // why there is no connection to it (Session::SetObstacle)
    bool is_obstacle_logged = false;  // since its control link was last up
  };
  // `data_lanes`: by shard, the number of its data lanes. `servers`: addresses by shard, for log
  // lines and errors. `hello` makes the hello of a lane. `exchange` outlives the links, which
  // report to it the lanes that go down. `patience`: for how long nothing may come on a data lane
  // that ought to answer. It doubles with each connection that is replaced for that, because on a
  // slow link the answer may only be late.
  Links(const std::vector<uint32_t>& data_lanes, std::vector<std::string> servers,
        std::function<Message(LaneRef)> hello, Exchange* exchange, Time patience);

  // Opens a new connection of the lane and says hello on it. `port` 0: the port of the
  // shard's configured address.
  void Connect(LaneRef lane, uint32_t port, Time now, SessionActions* out);
  // Opens those data connections of the shard that are down, if its control link is up.
  void ConnectDataLinks(uint32_t shard, Time now, SessionActions* out);
  // Sends a hello on the lane's connection.
  void Greet(LaneRef lane, Time now, SessionActions* out);
  // Sends a hello on every link that is up.
  void GreetAllUp(Time now, SessionActions* out);
  // Repeats every hello that has had no answer for `retry`.
  void GreetAgain(Time retry, Time now, SessionActions* out);
  // A message came on the lane.
  void Hear(LaneRef lane, Time now);
  // Probes a data lane that is up. The number of the probe is its time, in nanoseconds.
  void Probe(LaneRef lane, Time now, SessionActions* out);
  // Replaces the data connections on which nothing came for longer than their patience. A probe is
  // behind all that was sent before, so what a slow link needs for that is added.
  void ReplaceUnanswered(Time now, SessionActions* out);
  // Replaces the connection of a lane that is not down; `why` goes to the log unless it is empty.
  void Reconnect(LaneRef lane, const std::string& why, Time now, SessionActions* out);
  // Changes a link's state; besides this method, only Connect does that. Returns false and changes
  // nothing if the diagram has no arrow from the link's present state to `next`.
  bool Become(LaneRef lane, State next);
  // Marks the shard's data links as down, because its server process was replaced.
  void DropDataLinks(uint32_t shard);
  // Drops all links and opens new control connections, because this worker has a new incarnation.
  void ReconnectAll(Time now, SessionActions* out);
  // Opens a new control connection to a shard that is lost; `why` goes to the log.
  void LoseShard(uint32_t shard, Time now, const std::string& why, SessionActions* out);

  uint32_t num_shards() const { return static_cast<uint32_t>(shards_.size()); }
  Shard& shard(uint32_t shard) { return shards_[shard]; }
  const Link& link(LaneRef lane) const { return links_[lane.shard][lane.lane]; }
  bool IsUp(LaneRef lane) const { return link(lane).state == State::kUp; }
  bool AllUp() const;
  std::string NamesOfThoseNotUp() const;     // the shards with a link that is not up
  std::string NameOf(uint32_t shard) const;  // for example "server shard 0 (127.0.0.1:7500)"
  // These invariants hold after every event: if a shard has sent no Welcome, its data links are
  // down; a link that is up is also up for the exchange.
  Status Check() const;

 private:
  friend class SessionPeer;  // gives tests access to private members

  std::vector<std::string> server_addresses_;
  std::function<Message(LaneRef)> hello_;
  Exchange* exchange_;
  const Time patience_;
  std::vector<std::vector<Link>> links_;  // [shard][lane]
  std::vector<Shard> shards_;
};

}  // namespace tern::protocol
