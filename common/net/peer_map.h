// A two-way map of bounded size between libzmq's routing ids and the peer ids of RouterSocket. It
// also keeps whose key each peer has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/net/security.h"

namespace tern::net {

// What a connection has proven about its peer. Without keys: nothing.
struct Credentials {
  std::optional<Principal> principal;
  PublicKey key{};

  friend bool operator==(const Credentials&, const Credentials&) = default;
};

class PeerMap {
 public:
  explicit PeerMap(size_t max_peers) : max_peers_(max_peers) {}

  // The id of the peer that has just sent a message; a new id if the peer is not known. Beyond
  // `max_peers` peers the map forgets the peer whose last message is oldest. Ids count from 1 and
  // are never reused. If the connection behind a routing id is another one with other credentials,
  // its peer gets a new id, and the map forgets the old one.
  uint64_t IdOfSender(const std::string& routing_id, const Credentials& credentials = {});
  void Forget(uint64_t id);
  // The routing id of a peer; null if the id is not known. The pointer is valid until the map
  // changes.
  const std::string* RoutingId(uint64_t id) const;
  // The credentials of a peer. REQUIRES that the id is known.
  const Credentials& CredentialsOf(uint64_t id) const { return peers_by_id_.at(id)->credentials; }
  // The ids of all peers with credentials for which `is_allowed` is false.
  std::vector<uint64_t> PeersUnless(
      const std::function<bool(const Credentials&)>& is_allowed) const;
  size_t size() const { return peers_.size(); }

 private:
  struct Peer {
    uint64_t id;
    std::string routing_id;
    Credentials credentials;
  };
  using PeerList = std::list<Peer>;

  const size_t max_peers_;
  uint64_t last_id_ = 0;
  PeerList peers_;  // All peers, ordered by their last message, the newest first.
  std::unordered_map<std::string, PeerList::iterator> peers_by_routing_id_;
  std::unordered_map<uint64_t, PeerList::iterator> peers_by_id_;
};

}  // namespace tern::net
