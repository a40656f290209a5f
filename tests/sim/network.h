// The simulated connections between processes. Like TCP, a connection is a FIFO in each direction;
// the schedule's noise loses, duplicates, delays and reorders messages in addition. A connection
// begins when its client tries to connect, carries nothing before it is established, and never
// comes back once it is broken.
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
  bool worker = false;  // the client is a worker; false: a server shard that connects to shard 0
  uint32_t client = 0;  // the client's process
  protocol::LaneRef lane;
  uint32_t port = 0;          // 0: the shard's control address, at whatever process listens there
  bool open = true;           // the client has not closed it
  bool broken = false;        // and stays so
  uint32_t server = kNobody;  // the process that accepted it
  Time last_up{}, last_down{};
};

class Network {
 public:
  // The processes that use the network.
  class Host {
   public:
    virtual ~Host() = default;
    // The process that listens there, or kNobody
    virtual uint32_t Listening(protocol::LaneRef lane, uint32_t port) = 0;
    virtual void DeliverToServer(const Connection& connection, protocol::Peer peer,
                                 const protocol::Message& message) = 0;
    virtual void DeliverToClient(const Connection& connection,
                                 const protocol::Message& message) = 0;
    virtual void Disconnected(const Connection& connection) = 0;
    // Whether a message of this connection must not arrive yet.
    virtual bool HeldBack(const Connection& connection) = 0;
  };

  Network(const Schedule& schedule, Rng* rng, Queue* queue, Host* host)
      : schedule_(schedule), rng_(*rng), queue_(*queue), host_(*host) {}

  uint32_t Open(bool worker, uint32_t client, protocol::LaneRef lane, uint32_t port, Time now);
  void Close(uint32_t connection) { connections_[connection].open = false; }
  void ToServer(uint32_t connection, protocol::Message message, Time now);
  void ToClient(uint32_t server, protocol::Peer peer, protocol::Message message, Time now);
  // kToServer, kToClient, kConnect, kDisconnected.
  void OnEvent(const Event& event, Time now);
  void BreakAllOfServer(uint32_t server, Time now);
  void BreakAllOfWorker(uint32_t worker, Time now);
  void CloseAllOf(bool worker, uint32_t client);
  // Until then, no message reaches the server or leaves it. Such messages are delivered at `until`,
  // or lost if `lost`.
  void CutServer(uint32_t server, bool lost, Time until) { cuts_[server] = {until, lost}; }

  uint64_t messages() const { return messages_; }

 private:
  void Send(Event::Type type, uint32_t connection, protocol::Message message, Time* last, Time now);
  void Post(Event::Type type, uint32_t connection, protocol::Message message, Time at);
  void Break(uint32_t connection, bool always_told, Time now);
  struct Cut {
    Time until{};
    bool lost = false;
  };
  // The cut that affects a connection now, or null.
  const Cut* CutOf(const Connection& connection, Time now) const;

  const Schedule& schedule_;
  Rng& rng_;
  Queue& queue_;
  Host& host_;
  std::vector<Connection> connections_;  // peer of a server: index + 1
  std::vector<protocol::Message> in_flight_;
  std::vector<uint32_t> free_;
  std::map<uint32_t, Cut> cuts_;  // by server process
  uint64_t messages_ = 0;
};

}  // namespace tern::sim
