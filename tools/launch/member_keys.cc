#include "tools/launch/member_keys.h"

#include <utility>
#include <vector>

#include "common/algorithm/ranks.h"
#include "common/net/keys.h"
#include "setup/key_files.h"
#include "setup/security.h"

namespace tern::tools {
namespace {

using net::Principal;

std::vector<Principal> MembersOf(const pb::Job& job) {
  std::vector<Principal> members;
  for (uint32_t shard = 0; shard < static_cast<uint32_t>(job.servers_size()); ++shard)
    members.push_back({Principal::Role::kShard, shard});
  for (uint32_t rank = 0; rank < algorithm::NumRanks(job); ++rank)
    members.push_back({Principal::Role::kWorker, rank});
  return members;
}

void SetText(const net::SecretKey& secret, std::string* text) {
  net::KeyText key_text = net::ToText(secret);
  text->assign(key_text.data(), key_text.size());
  net::Wipe(key_text.data(), key_text.size());
}

}  // namespace

Result<MemberKeys> MemberKeys::MakeFor(const pb::Job& job) {
  MemberKeys keys;
  if (job.security() != pb::Job::curve) return keys;
  setup::ForbidDumps();
  if (setup::HasKeys(job)) {
    TERN_RETURN_IF_ERROR(keys.ReadFiles(job));
  } else {
    keys.MakeNew(job);
  }
  return keys;
}

Status MemberKeys::ReadFiles(const pb::Job& job) {
  for (const Principal& member : MembersOf(job)) {
    const setup::KeyPaths paths = setup::KeyPathsOf(job.keys(), member);
    Result<net::SecretKey> secret = setup::ReadSecretFile(paths.own);
    if (!secret.ok()) return secret.status();
    secrets_[member] = std::move(*secret);
    if (!peers_text_.empty()) continue;
    const Result<net::AllowList> peers = setup::ReadPeersFile(paths.peers);
    if (!peers.ok()) return peers.status();
    peers_text_ = setup::PeersText(*peers);
  }
  if (job.keys().checkpoint().empty()) return Ok();
  Result<net::SecretKey> secret = setup::ReadSecretFile(job.keys().checkpoint());
  if (!secret.ok()) return secret.status();
  checkpoint_secret_ = std::move(*secret);
  return Ok();
}

void MemberKeys::MakeNew(const pb::Job& job) {
  net::AllowList peers;
  for (const Principal& member : MembersOf(job)) {
    net::KeyPair pair = net::MakeKeyPair();
    peers[pair.public_key] = member;
    secrets_[member] = std::move(pair.secret_key);
  }
  peers_text_ = setup::PeersText(peers);
}

void MemberKeys::AddTo(pb::ToHost::Start* start) const {
  const auto role =
      start->member().is_server() ? Principal::Role::kShard : Principal::Role::kWorker;
  const auto secret = secrets_.find({role, start->member().rank()});
  if (secret == secrets_.end()) return;
  SetText(secret->second, start->mutable_secret());
  if (checkpoint_secret_.has_value())
    SetText(*checkpoint_secret_, start->mutable_checkpoint_secret());
}

}  // namespace tern::tools
