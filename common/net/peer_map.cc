#include "common/net/peer_map.h"

namespace tern::net {

uint64_t PeerMap::IdOfSender(const std::string& routing_id, const Credentials& credentials) {
  if (const auto found_peer = peers_by_routing_id_.find(routing_id);
      found_peer != peers_by_routing_id_.end()) {
    const PeerList::iterator peer = found_peer->second;
    if (peer->credentials == credentials) {
      peers_.splice(peers_.begin(), peers_, peer);
      return peer->id;
    }
    Forget(peer->id);
  }
  const uint64_t id = ++last_id_;
  peers_.push_front(Peer{id, routing_id, credentials});
  peers_by_routing_id_[routing_id] = peers_.begin();
  peers_by_id_[id] = peers_.begin();
  if (peers_.size() > max_peers_) Forget(peers_.back().id);
  return id;
}

void PeerMap::Forget(uint64_t id) {
  const auto found_peer = peers_by_id_.find(id);
  if (found_peer == peers_by_id_.end()) return;
  const PeerList::iterator peer = found_peer->second;
  peers_by_id_.erase(found_peer);
  peers_by_routing_id_.erase(peer->routing_id);
  peers_.erase(peer);
}

const std::string* PeerMap::RoutingId(uint64_t id) const {
  const auto found_peer = peers_by_id_.find(id);
  return found_peer == peers_by_id_.end() ? nullptr : &found_peer->second->routing_id;
}

std::vector<uint64_t> PeerMap::PeersUnless(
    const std::function<bool(const Credentials&)>& is_allowed) const {
  std::vector<uint64_t> ids;
  for (const Peer& peer : peers_) {
    if (peer.credentials.principal.has_value() && !is_allowed(peer.credentials))
      ids.push_back(peer.id);
  }
  return ids;
}

}  // namespace tern::net
