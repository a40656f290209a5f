#include "common/protocol/rounds/lane_members.h"

#include <algorithm>

namespace tern::protocol {

void LaneMembers::OnMembers(const pb::Members& members) {
  if (members.epoch() < epoch_) return;
  epoch_ = members.epoch();
  const size_t num_ranks = std::min<size_t>(members_.size(), members.incarnations_size());
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    const uint64_t incarnation = members.incarnations(static_cast<int>(rank));
    const bool is_joining = std::find(members.joining().begin(), members.joining().end(), rank) !=
                            members.joining().end();
    if (incarnation == members_[rank].incarnation) {
      members_[rank].is_joining &= is_joining;
      continue;
    }
    members_[rank] = LaneMember{};
    members_[rank].incarnation = incarnation;
    members_[rank].is_joining = is_joining;
  }
}

LaneMember* LaneMembers::OnHello(Peer from, const pb::Hello& hello, Sends* out) {
  if (FindMember(hello.rank(), hello.incarnation(), true) == nullptr) {
    out->push_back(RefusalTo(from, Code::kNotAllowed,
                             "this incarnation is not (or no longer) a member", pb::Refuse::retry));
    return nullptr;
  }
  LaneMember& member = members_[hello.rank()];
  member.peer = from;
  member.has_greeted = true;
  if (!hello.fresh()) SetApplied(&member, hello.applied());
  return &member;
}

LaneMember* LaneMembers::FindMember(uint32_t rank, uint64_t incarnation, bool must_match) {
  if (rank >= members_.size() || !members_[rank].present()) return nullptr;
  if (must_match && members_[rank].incarnation != incarnation) return nullptr;
  return &members_[rank];
}

void LaneMembers::SetApplied(LaneMember* member, uint64_t applied) {
  member->is_applied_known = true;
  member->applied = std::max(member->applied, applied);
}

bool LaneMembers::complete() const {
  return epoch_ != 0 && std::all_of(members_.begin(), members_.end(), [](const LaneMember& member) {
           return member.has_greeted || !member.present();
         });
}

bool LaneMembers::IsPeerOfMember(Peer peer) const {
  return peer != 0 && std::any_of(members_.begin(), members_.end(),
                                  [&](const LaneMember& member) { return member.peer == peer; });
}

std::optional<uint64_t> RoundToGoBackTo(const pb::Members& members, uint64_t known_run,
                                        uint64_t known_beginning) {
  if (members.has_beginning() && members.beginning() != known_beginning) return members.begin();
  const bool is_next_run = known_run != 0 && members.run() != 0 && members.run() != known_run;
  return is_next_run ? std::optional<uint64_t>(0) : std::nullopt;
}

Send RefuseOtherConnection(Peer from) {
  return RefusalTo(from, Code::kNotAllowed, "say hello first", pb::Refuse::retry);
}

void RefuseAllMembers(const LaneMembers& members, const std::string& sentence, Sends* out) {
  for (const LaneMember& member : members) {
    if (member.peer == 0) continue;
    out->push_back(RefusalTo(member.peer, Code::kMismatch, sentence, pb::Refuse::leave));
  }
}

Message MakeLaneWelcome(uint64_t incarnation, uint64_t epoch,
                        const std::vector<uint32_t>& data_ports) {
  Message message;
  pb::Welcome* welcome = message.head.mutable_welcome();
  welcome->set_incarnation(incarnation);
  welcome->set_epoch(epoch);
  for (uint32_t port : data_ports) welcome->add_data_ports(port);
  return message;
}

void AddCounted(const Cell& cell, uint64_t exchange, pb::Welcome* welcome) {
  constexpr int kMaxCounted = 2000;  // of at most 28 bytes
  if (welcome->counted_size() == kMaxCounted) return;
  pb::Counted* counted = welcome->add_counted();
  counted->set_bucket(cell.bucket);
  counted->set_chunk(cell.chunk);
  counted->set_exchange(exchange);
}

}  // namespace tern::protocol
