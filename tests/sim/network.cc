#include "tests/sim/network.h"

#include <algorithm>
#include <utility>

namespace tern::sim {

using protocol::Message;
using protocol::Peer;
using std::chrono::milliseconds;

namespace {

Time TransferTime(const Message& message, uint64_t bytes_per_s) {
  if (bytes_per_s == 0) return Time(0);
  const uint64_t num_bytes = message.head.ByteSizeLong() + message.payload.size();
  return Time(1'000'000'000 * num_bytes / bytes_per_s);
}

}  // namespace

uint32_t Network::OpenConnection(bool is_worker, uint32_t client, protocol::LaneRef lane,
                                 uint32_t port, Time now) {
  const auto index = static_cast<uint32_t>(connections_.size());
  Connection connection;
  connection.is_worker = is_worker;
  connection.client = client;
  connection.lane = lane;
  connection.port = port;
  connections_.push_back(connection);
  // The event is handled after the client's present actions, even with delay 0. So a Hello that the
  // client sends now is lost, and the client repeats the Hello.
  queue_.Post(now + (rng_.Chance(0.5) ? Time(0) : rng_.Ms(1, 8)), Event::Type::kConnect, index);
  return index;
}

void Network::SendToServer(uint32_t index, Message message, Time now) {
  Connection& connection = connections_[index];
  if (!connection.is_open || connection.is_broken || connection.server == kNobody) return;
  if (message.head.has_push()) ++num_pushes_;
  Send(Event::Type::kToServer, index, std::move(message), &connection.last_arrival_at_server, now);
}

bool Network::SendToClient(uint32_t server, Peer peer, Message message, Time now) {
  Connection& connection = connections_[peer - 1];
  if (connection.server != server) return true;
  // A server that is cut off does not hear of a closed connection; nor does any other of every one,
  // because the network may lose what tells it so.
  if (!connection.is_open || connection.is_broken)
    return peer % 4 == 0 || FindActiveCut(connection, now) != nullptr;
  const auto index = static_cast<uint32_t>(peer - 1);
  Send(Event::Type::kToClient, index, std::move(message), &connection.last_arrival_at_client, now);
  return true;
}

void Network::Send(Event::Type type, uint32_t connection, Message message, Time* last_arrival,
                   Time now) {
  ++num_messages_;
  if (rng_.Chance(schedule_.loss)) return;
  Time arrival = now + schedule_.trip + std::chrono::microseconds(300 + rng_.Below(3000));
  if (rng_.Chance(schedule_.delay)) arrival += Time(rng_.Below(schedule_.longest_delay.count()));
  if (rng_.Chance(schedule_.reorder)) {
    arrival += rng_.Ms(0, 20);  // later messages may overtake this message
  } else {
    arrival = std::max(arrival, *last_arrival) + TransferTime(message, schedule_.bytes_per_s);
    *last_arrival = arrival;
  }
  if (rng_.Chance(schedule_.duplicate))
    PostMessage(type, connection, message, arrival + rng_.Ms(0, 200));
  PostMessage(type, connection, std::move(message), arrival);
}

void Network::PostMessage(Event::Type type, uint32_t connection, Message message, Time time) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(messages_in_flight_.size()));
    messages_in_flight_.emplace_back();
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  messages_in_flight_[slot] = std::move(message);
  queue_.Post(time, type, connection, slot);
}

void Network::OnEvent(const Event& event, Time now) {
  // This is a copy, because the host may open connections, which moves the vector's elements.
  const Connection connection = connections_[event.who];
  if (event.type == Event::Type::kDisconnected) {
    if (connection.is_open) host_.OnDisconnected(connection);
    return;
  }
  if (event.type == Event::Type::kConnect) {
    if (!connection.is_open) return;
    Connection candidate = connection;
    candidate.server = host_.ListeningProcess(connection.lane, connection.port);
    const uint32_t server = FindActiveCut(candidate, now) == nullptr ? candidate.server : kNobody;
    connections_[event.who].server = server;
    if (server == kNobody) queue_.Post(now + milliseconds(50), event.type, event.who);
    return;
  }
  if (event.type == Event::Type::kToServer && host_.MustDelayToServer(connection)) {
    return queue_.Post(now + milliseconds(100), event.type, event.who, event.index);
  }
  const Cut* const active_cut = FindActiveCut(connection, now);
  if (active_cut != nullptr && !active_cut->loses_messages)
    return queue_.Post(active_cut->until, event.type, event.who, event.index);
  const Message message = std::move(messages_in_flight_[event.index]);
  free_slots_.push_back(event.index);
  if (active_cut != nullptr) return;
  if (IsDamaged(event)) return DeliverDamaged(event, connection);
  if (event.type == Event::Type::kToServer) {
    host_.DeliverToServer(connection, Peer{event.who} + 1, message);
  } else if (connection.is_open) {
    host_.DeliverToClient(connection, message);
  }
}

bool Network::IsDamaged(const Event& event) {
  Connection& connection = connections_[event.who];
  bool& damages_all = event.type == Event::Type::kToServer ? connection.damages_to_server
                                                           : connection.damages_to_client;
  const bool is_damaged = rng_.Chance(schedule_.damage) || damages_all;
  damages_all = is_damaged && schedule_.damage_stays;
  return is_damaged;
}

void Network::DeliverDamaged(const Event& event, const Connection& connection) {
  if (event.type == Event::Type::kToServer) {
    host_.DeliverDamagedToServer(connection, Peer{event.who} + 1);
  } else if (connection.is_open) {
    host_.DeliverDamagedToClient(connection);
  }
}

const Network::Cut* Network::FindActiveCut(const Connection& connection, Time now) const {
  const auto cut_of = [&](uint32_t server) -> const Cut* {
    const auto cut = cuts_.find(server);
    return cut != cuts_.end() && now < cut->second.until ? &cut->second : nullptr;
  };
  const Cut* const cut_of_server = cut_of(connection.server);
  return cut_of_server != nullptr || connection.is_worker ? cut_of_server
                                                          : cut_of(connection.client);
}

void Network::BreakConnection(uint32_t index, bool always_told, Time now) {
  Connection& connection = connections_[index];
  if (connection.is_broken || connection.server == kNobody) return;
  connection.is_broken = true;
  if (!connection.is_open || !(always_told || rng_.Chance(0.7))) return;
  queue_.Post(std::max(now + rng_.Ms(1, 30), connection.last_arrival_at_client),
              Event::Type::kDisconnected, index);
}

void Network::BreakAllOfServer(uint32_t server, Time now) {
  for (uint32_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i].server == server) BreakConnection(i, false, now);
  }
}

void Network::BreakAllOfWorker(uint32_t worker, Time now) {
  for (uint32_t i = 0; i < connections_.size(); ++i) {
    const Connection& connection = connections_[i];
    if (connection.is_worker && connection.client == worker && connection.is_open)
      BreakConnection(i, connection.lane.lane != 0, now);
  }
}

void Network::CloseAllOf(bool is_worker, uint32_t client) {
  for (Connection& connection : connections_) {
    if (connection.is_worker == is_worker && connection.client == client)
      connection.is_open = false;
  }
}

}  // namespace tern::sim
