// Connections between the toy processes. One is a FIFO each way, as TCP is; the schedule's noise
// loses, doubles, delays and reorders on top. It begins at an attempt of its client's to connect,
// carries nothing before it stands, and never comes back once it broke.
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
  bool worker = false;  // or a server shard that follows shard 0
  uint32_t client = 0;  // its process
  protocol::LaneRef lane;
  uint32_t port = 0;          // 0: the shard's control address, whoever has it
  bool open = true;           // its client has not closed it
  bool broken = false;        // for good
  uint32_t server = kNobody;  // the process that took it
  Time last_up{}, last_down{};
};

class Network {
 public:
  // What the processes behind it do.
  class Host {
   public:
    virtual ~Host() = default;
    virtual uint32_t Listening(protocol::LaneRef lane, uint32_t port) = 0;  // a process or kNobody
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
  // Nothing comes to a server or from it until then; what should have, arrives then or is `lost`.
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
  // The one that a connection is in now, or null.
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
