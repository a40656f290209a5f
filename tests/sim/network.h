// The simulated connections between processes. Like TCP, a connection delivers messages in order in
// each direction; but the schedule's noise also loses, duplicates, delays and reorders messages. A
// connection begins when its client tries to connect. Messages that are sent before a server has
// accepted the connection are lost. A broken connection stays broken. The client is a worker, or a
// server shard that connects to shard 0, or a stranger.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/message.h"
#include "tests/sim/queue.h"
#include "tests/sim/schedule.h"

namespace tern::sim {

constexpr uint32_t kNobody = ~0u;

struct Connection {
  bool is_worker = false;     // true: the client is a worker; false: a server shard
  uint32_t client = 0;        // the client's process; kNobody: a stranger
  protocol::LaneRef lane;     // the socket to which the client connects: a shard, and its lane
  uint32_t port = 0;          // 0: the shard's control address, at whatever process listens there
  bool is_open = true;        // the client has not closed the connection
  bool is_broken = false;     // the connection carries no more messages
  uint32_t server = kNobody;  // the process that accepted the connection
  // When the newest message arrives, at the server and at the client. Reordered messages do not
  // count.
  Time last_arrival_at_server{}, last_arrival_at_client{};
  // With Schedule::damage_stays: whether all messages to the server, or to the client, are damaged.
  bool damages_to_server = false, damages_to_client = false;

  bool is_of_stranger() const { return client == kNobody; }
};

class Network {
 public:
  // The processes that use the network.
  class Host {
   public:
    virtual ~Host() = default;
    // Returns the server process that listens at this lane and port, or kNobody.
    virtual uint32_t ListeningProcess(protocol::LaneRef lane, uint32_t port) = 0;
    virtual void DeliverToServer(const Connection& connection, protocol::Peer peer,
                                 const protocol::Message& message) = 0;
    virtual void DeliverToClient(const Connection& connection,
                                 const protocol::Message& message) = 0;
    // A message has arrived whose checksum is wrong.
    virtual void DeliverDamagedToServer(const Connection& connection, protocol::Peer peer) = 0;
    virtual void DeliverDamagedToClient(const Connection& connection) = 0;
    virtual void OnDisconnected(const Connection& connection) = 0;
    // Whether messages of this connection to the server must be delayed further.
    virtual bool MustDelayToServer(const Connection& connection) = 0;
  };

  Network(const Schedule& schedule, Rng* rng, Queue* queue, Host* host)
      : schedule_(schedule), rng_(*rng), queue_(*queue), host_(*host) {}

  // Begins a connection. Returns its number.
  uint32_t OpenConnection(bool is_worker, uint32_t client, protocol::LaneRef lane, uint32_t port,
                          Time now);
  void CloseConnection(uint32_t connection) { connections_[connection].is_open = false; }
  void SendToServer(uint32_t connection, protocol::Message message, Time now);
  // Returns false if the server's socket knows that the connection is closed.
  bool SendToClient(uint32_t server, protocol::Peer peer, protocol::Message message, Time now);
  // Handles an event of type kToServer, kToClient, kConnect or kDisconnected.
  void OnEvent(const Event& event, Time now);
  void BreakAllOfServer(uint32_t server, Time now);
  void BreakAllOfWorker(uint32_t worker, Time now);
  // Closes all connections of a client process, which is a worker or a server.
  void CloseAllOf(bool is_worker, uint32_t client);
  // Cuts a server process off: before `until`, no message reaches the process or leaves it. Such
  // messages are lost if `loses_messages`; else they are delivered at `until`.
  void CutServer(uint32_t server, bool loses_messages, Time until) {
    cuts_[server] = {until, loses_messages};
  }

  uint64_t num_messages() const { return num_messages_; }
  uint64_t num_pushes() const { return num_pushes_; }  // how many pushes were sent, repeated or not

 private:
  void Send(Event::Type type, uint32_t connection, protocol::Message message, Time* last_arrival,
            Time now);
  void PostMessage(Event::Type type, uint32_t connection, protocol::Message message, Time time);
  // Whether a message that arrives now is damaged.
  bool IsDamaged(const Event& event);
  void DeliverDamaged(const Event& event, const Connection& connection);
  // Breaks a connection. The client learns of it if `always_told`, else with probability 0.7.
  void BreakConnection(uint32_t connection, bool always_told, Time now);
  struct Cut {
    Time until{};
    bool loses_messages = false;
  };
  // Returns the cut that affects a connection at time `now`, or null.
  const Cut* FindActiveCut(const Connection& connection, Time now) const;

  const Schedule& schedule_;
  Rng& rng_;
  Queue& queue_;
  Host& host_;
  // A server knows the connection at index i as its peer i + 1.
  std::vector<Connection> connections_;
  std::vector<protocol::Message> messages_in_flight_;
  std::vector<uint32_t> free_slots_;  // indexes of messages_in_flight_ that hold no message
  std::map<uint32_t, Cut> cuts_;      // the newest cut of each server process
  uint64_t num_messages_ = 0, num_pushes_ = 0;
};

}  // namespace tern::sim
