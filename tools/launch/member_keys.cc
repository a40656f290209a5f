#include "tools/launch/member_keys.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "common/algorithm/ranks.h"
#include "common/base/text.h"
#include "common/net/keys.h"
#include "setup/key_files.h"
#include "setup/security.h"

namespace tern::tools {
namespace {

using net::Principal;

std::vector<Principal> MembersOf(const pb::Job& job, size_t num_shards) {
  std::vector<Principal> members;
  for (uint32_t shard = 0; shard < num_shards; ++shard)
    members.push_back({Principal::Role::kShard, shard});
  for (uint32_t rank = 0; rank < algorithm::NumRanks(job); ++rank)
    members.push_back({Principal::Role::kWorker, rank});
  return members;
}

// A daemon that lacks a file asks for a copy on its own host; here all of them are needed.
Status CheckIsHere(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error) || error) return Ok();
  return Status(Code::kBadJob,
                Cat(path,
                    ": there is no such file; tern launch needs all files of `tern keys make "
                    "DIR --job JOB` here, on this machine, and sends each host what it needs"));
}

void SetText(const net::SecretKey& secret, std::string* text) {
  net::KeyText key_text = net::ToText(secret);
  text->assign(key_text.data(), key_text.size());
  net::Wipe(key_text.data(), key_text.size());
}

}  // namespace

Result<MemberKeys> MemberKeys::ReadFor(const pb::Job& job, size_t num_shards) {
  MemberKeys keys;
  if (job.security() != pb::Job::curve || !setup::HasKeys(job)) return keys;
  setup::ForbidDumps();
  TERN_RETURN_IF_ERROR(keys.ReadFiles(job, num_shards));
  return keys;
}

Status MemberKeys::ReadFiles(const pb::Job& job, size_t num_shards) {
  for (const Principal& member : MembersOf(job, num_shards)) {
    const setup::KeyPaths paths = setup::KeyPathsOf(job.keys(), member);
    TERN_RETURN_IF_ERROR(CheckIsHere(paths.own));
    Result<net::SecretKey> secret = setup::ReadSecretFile(paths.own);
    if (!secret.ok()) return secret.status();
    secrets_[member] = std::move(*secret);
    if (!peers_text_.empty()) continue;
    TERN_RETURN_IF_ERROR(CheckIsHere(paths.peers));
    const Result<net::AllowList> peers = setup::ReadPeersFile(paths.peers);
    if (!peers.ok()) return peers.status();
    peers_text_ = setup::PeersText(*peers);
  }
  if (job.keys().checkpoint().empty()) return Ok();
  TERN_RETURN_IF_ERROR(CheckIsHere(job.keys().checkpoint()));
  Result<net::SecretKey> secret = setup::ReadSecretFile(job.keys().checkpoint());
  if (!secret.ok()) return secret.status();
  checkpoint_secret_ = std::move(*secret);
  return Ok();
}

void MemberKeys::MakeMissing(const pb::Job& job) {
  if (job.security() != pb::Job::curve || !peers_text_.empty()) return;
  setup::ForbidDumps();
  net::AllowList peers;
  for (const Principal& member : MembersOf(job, static_cast<size_t>(job.servers_size()))) {
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
