// The simulated hosts (Schedule::workers_a_host): which worker process leads each, and a worker's
// place among the workers of its host. A worker does what client/exchange/host_link.h does in a
// real one: it takes the lock of its host if nobody has it, else pushes to who has it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/protocol/members/session/session.h"
#include "common/protocol/rounds/host_leader.h"
#include "tests/sim/network.h"

namespace tern::sim {

class World;

// The locks, and the messages between processes of one host, which arrive in order. A message of a
// process that dies meanwhile arrives all the same.
class Hosts {
 public:
  explicit Hosts(World* world) : world_(*world) {}

  // The process that has the lock of this host; kNobody: none.
  uint32_t LeaderOf(uint32_t host) const;
  void Lock(uint32_t host, uint32_t process) { leaders_[host] = process; }
  void Send(uint32_t from, uint32_t to, protocol::Message message);
  // Returns the sender and the message of an event of type kOnHost.
  std::pair<uint32_t, protocol::Message> Take(uint32_t index);

 private:
  World& world_;
  std::map<uint32_t, uint32_t> leaders_;
  std::map<std::pair<uint32_t, uint32_t>, protocol::Time> last_arrivals_;
  std::vector<std::pair<uint32_t, protocol::Message>> messages_;
};

class ToyHost {
 public:
  ToyHost(World* world, uint32_t process, uint32_t rank, protocol::Session* session);

  // Call at every tick of a worker that takes part in the job.
  void OnTick(protocol::Time now, protocol::SessionActions* out);
  void TellLeader(protocol::Message push, protocol::Time now, protocol::SessionActions* out);
  // A process of this host has sent a message.
  void OnMessage(uint32_t from, const protocol::Message& message, protocol::Time now,
                 protocol::SessionActions* out);
  // A server has sent a message.
  void OnServerMessage(const protocol::Message& message, protocol::Time now,
                       protocol::SessionActions* out);
  void OnLaneLost(protocol::LaneRef lane, protocol::Time now, protocol::SessionActions* out);
  void SetApplied(uint64_t applied) { leader_.SetApplied(applied); }
  void Restart(uint64_t applied) { leader_.Restart(applied); }

 private:
  bool leads() const { return leader_process_ == process_; }
  void Execute(protocol::HostLeader::Actions actions, protocol::Time now,
               protocol::SessionActions* out);

  World& world_;
  const uint32_t process_, host_;
  const uint32_t rank_;
  protocol::Session& session_;
  uint32_t leader_process_ = kNobody;  // as far as this worker knows
  protocol::HostLeader leader_;
  std::map<uint32_t, uint32_t> processes_;  // of the workers that have pushed to this one, by rank
};

}  // namespace tern::sim
