// A bounded, two-way map between libzmq's routing ids and our own numbers. For RouterSocket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>

namespace tern::net {

class PeerMap {
 public:
  explicit PeerMap(size_t max_peers) : max_peers_(max_peers) {}

  // The number of a peer that was just heard; a new number if the peer is not known. With more than
  // `max_peers` peers, the one heard least recently is forgotten. Numbers count from 1 and are
  // never reused.
  uint64_t Heard(const std::string& routing_id);
  void Forget(uint64_t id);
  // Null if not known. Valid until the next change.
  const std::string* RoutingId(uint64_t id) const;
  size_t size() const { return list_.size(); }

 private:
  struct Peer {
    uint64_t id;
    std::string routing_id;
  };
  using List = std::list<Peer>;

  const size_t max_peers_;
  uint64_t last_id_ = 0;
  List list_;  // most recently heard first
  std::unordered_map<std::string, List::iterator> by_routing_id_;
  std::unordered_map<uint64_t, List::iterator> by_id_;
};

}  // namespace tern::net
