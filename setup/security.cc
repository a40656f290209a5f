#include "setup/security.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "common/algorithm/ranks.h"
#include "common/base/file.h"
#include "common/base/hash.h"
#include "common/base/text.h"
#include "common/config/job.h"
#include "common/net/keys.h"
#include "setup/key_files.h"

namespace tern::setup {
namespace {

using net::Principal;

// A file of MakeKeysFd begins with the texts of two secrets, the second of which may be blank.
constexpr size_t kSecretsSize = 2 * net::kKeyTextSize;
constexpr size_t kMaxKeysFdBytes = 128 << 10;

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// A daemon's secret key and the peers file.
struct OwnKeys {
  net::SecretKey secret;
  net::AllowList peers;
  std::string own_name, peers_name;  // what sentences call them
};

Result<OwnKeys> ReadFiles(const pb::Keys& keys, const Principal& self) {
  const KeyPaths paths = KeyPathsOf(keys, self);
  Result<net::SecretKey> secret = ReadSecretFile(paths.own);
  if (!secret.ok()) return secret.status();
  Result<net::AllowList> peers = ReadPeersFile(paths.peers);
  if (!peers.ok()) return peers.status();
  return OwnKeys{std::move(*secret), std::move(*peers), paths.own, paths.peers};
}

Result<OwnKeys> ReadKeysFd(int keys_fd) {
  const File file(keys_fd);
  const std::string name = Cat("--keys_fd ", keys_fd);
  struct stat info {};
  if (fstat(keys_fd, &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_size <= static_cast<off_t>(kSecretsSize) ||
      info.st_size > static_cast<off_t>(kMaxKeysFdBytes)) {
    return Status(Code::kUsage,
                  Cat(name, ": saw no file in memory with keys, as `tern run` makes it"));
  }
  std::string text(static_cast<size_t>(info.st_size), '\0');
  const ssize_t num_read = pread(keys_fd, text.data(), text.size(), 0);
  Result<net::SecretKey> secret =
      net::ParseSecretKey(std::string_view(text).substr(0, net::kKeyTextSize));
  net::Wipe(text.data(), std::min(kSecretsSize, text.size()));
  if (num_read != info.st_size || !secret.ok())
    return Status(Code::kUsage, Cat(name, ": saw no keys, as `tern run` makes them"));
  Result<net::AllowList> peers = ParsePeers(std::string_view(text).substr(kSecretsSize), name);
  if (!peers.ok()) return peers.status();
  return OwnKeys{std::move(*secret), std::move(*peers), name, name};
}

// The second secret of a file of MakeKeysFd. Leaves the file open.
Result<net::SecretKey> ReadCheckpointSecretOf(int keys_fd) {
  net::KeyText text{};
  const ssize_t num_read = pread(keys_fd, text.data(), text.size(), net::kKeyTextSize);
  Result<net::SecretKey> secret = net::ParseSecretKey({text.data(), text.size()});
  net::Wipe(text.data(), text.size());
  if (num_read == static_cast<ssize_t>(text.size()) && secret.ok()) return secret;
  return Status(Code::kUsage, Cat("--keys_fd ", keys_fd,
                                  ": saw no secret for keys.checkpoint, which the job has"));
}

// Checks that the peers file gives the daemon the key whose secret it has.
Status CheckOwnKey(const OwnKeys& keys, const net::PublicKey& own_public, const Principal& self) {
  const auto entry = keys.peers.find(own_public);
  if (entry != keys.peers.end() && entry->second == self) return Ok();
  const bool has_another = std::any_of(keys.peers.begin(), keys.peers.end(),
                                       [&](const auto& peer) { return peer.second == self; });
  return Status(
      Code::kBadJob,
      Cat(keys.own_name, ": saw the key of ",
          entry != keys.peers.end() ? NameOf(entry->second) : std::string("nobody in the job"),
          ", expected that of ", NameOf(self), ", which ", keys.peers_name,
          has_another ? " has: copy both files from where the keys were made"
                      : " does not have: it may have been revoked"));
}

// Who may connect to the shard `self`: all workers and, to shard 0, the other shards.
net::AllowList AllowedAt(const net::AllowList& peers, const pb::Job& job, const Principal& self) {
  net::AllowList allowed;
  for (const auto& [key, principal] : peers) {
    const bool is_allowed = principal.role == Principal::Role::kWorker
                                ? principal.number < algorithm::NumRanks(job)
                                : self.number == 0 && principal.number != 0 &&
                                      principal.number < static_cast<uint32_t>(job.servers_size());
    if (is_allowed) allowed.emplace(key, principal);
  }
  return allowed;
}

Result<std::vector<std::vector<net::PublicKey>>> ServersOf(const OwnKeys& keys,
                                                           const pb::Job& job) {
  std::vector<std::vector<net::PublicKey>> servers(static_cast<size_t>(job.servers_size()));
  for (const auto& [key, principal] : keys.peers) {
    if (principal.role == Principal::Role::kShard && principal.number < servers.size())
      servers[principal.number].push_back(key);
  }
  for (size_t shard = 0; shard < servers.size(); ++shard) {
    if (!servers[shard].empty()) continue;
    return Status(Code::kBadJob,
                  Cat(keys.peers_name, ": saw no key of shard ", shard,
                      ", expected one for each of the ", servers.size(),
                      " shards of the job: make keys again with `tern keys make`, or add it"));
  }
  return servers;
}

}  // namespace

bool HasKeys(const pb::Job& job) { return job.keys().ByteSizeLong() != 0; }

KeyPaths KeyPathsOf(const pb::Keys& keys, const Principal& self) {
  const std::string folder = keys.dir().empty() ? "" : keys.dir() + "/";
  const std::string own = keys.own().empty() ? folder + "{role}.{rank}.secret" : keys.own();
  const std::string role = self.role == Principal::Role::kWorker ? "worker" : "shard";
  return {Replaced(Replaced(own, "{role}", role), "{rank}", Cat(self.number)),
          keys.peers().empty() ? folder + "peers" : keys.peers()};
}

Result<net::Security> LoadSecurity(const pb::Job& job, const Principal& self, int keys_fd) {
  net::Security security;
  security.domain = Cat(job.name(), "/", Hex(config::JobDigest(job)));
  security.self = self;
  if (job.security() != pb::Job::curve) {
    if (keys_fd < 0) return security;
    return Status(Code::kUsage, "--keys_fd is only for a job with security: curve");
  }
  if (!HasKeys(job) && keys_fd < 0) {
    return Status(
        Code::kBadJob,
        "security: curve needs keys: make them with `tern keys make DIR --job JOB`, and set "
        "keys.dir: DIR in the job; only `tern run` and `tern launch` make keys by themselves");
  }
  Result<OwnKeys> keys = keys_fd < 0 ? ReadFiles(job.keys(), self) : ReadKeysFd(keys_fd);
  if (!keys.ok()) return keys.status();
  security.mechanism = net::Security::Mechanism::kCurve;
  security.own_public = net::PublicHalf(keys->secret);
  TERN_RETURN_IF_ERROR(CheckOwnKey(*keys, security.own_public, self));
  Result<std::vector<std::vector<net::PublicKey>>> servers = ServersOf(*keys, job);
  if (!servers.ok()) return servers.status();
  security.servers = std::move(*servers);
  if (self.role == Principal::Role::kShard) security.allowed = AllowedAt(keys->peers, job, self);
  security.own_secret = std::move(keys->secret);
  return security;
}

Result<net::AllowList> LoadAllowList(const pb::Job& job, const Principal& self) {
  if (job.security() != pb::Job::curve || !HasKeys(job))
    return Status(Code::kBadJob,
                  "the job has no file of peers (keys.peers) that could be read again");
  const Result<net::AllowList> peers = ReadPeersFile(KeyPathsOf(job.keys(), self).peers);
  if (!peers.ok()) return peers.status();
  return AllowedAt(*peers, job, self);
}

Result<std::shared_ptr<const net::SecretKey>> LoadCheckpointSecret(const pb::Job& job) {
  if (job.keys().checkpoint().empty()) return std::shared_ptr<const net::SecretKey>();
  Result<net::SecretKey> secret = ReadSecretFile(job.keys().checkpoint());
  if (!secret.ok()) return secret.status();
  return std::shared_ptr<const net::SecretKey>(
      std::make_shared<net::SecretKey>(std::move(*secret)));
}

Status SetKeys(const net::Principal& self, int keys_fd, Setup* setup) {
  if (keys_fd >= 0 && !setup->job.keys().checkpoint().empty()) {
    Result<net::SecretKey> secret = ReadCheckpointSecretOf(keys_fd);
    if (!secret.ok()) return secret.status();
    setup->checkpoint_secret = std::make_shared<net::SecretKey>(std::move(*secret));
  }
  Result<net::Security> security = LoadSecurity(setup->job, self, keys_fd);
  if (!security.ok()) return security.status();
  if (security->mechanism != net::Security::Mechanism::kNull)
    setup->security = std::make_shared<net::Security>(std::move(*security));
  if (setup->checkpoint_secret != nullptr) return Ok();
  auto checkpoint_secret = LoadCheckpointSecret(setup->job);
  if (!checkpoint_secret.ok()) return checkpoint_secret.status();
  setup->checkpoint_secret = std::move(*checkpoint_secret);
  return Ok();
}

Result<int> MakeKeysFd(const net::SecretKey& secret, const net::SecretKey* checkpoint_secret,
                       const net::AllowList& peers) {
  std::string text = std::string(kSecretsSize, ' ') + PeersText(peers);
  const auto write_secret = [&text](const net::SecretKey& key, size_t at) {
    net::KeyText key_text = net::ToText(key);
    std::copy(key_text.begin(), key_text.end(), text.begin() + static_cast<ptrdiff_t>(at));
    net::Wipe(key_text.data(), key_text.size());
  };
  write_secret(secret, 0);
  if (checkpoint_secret != nullptr) write_secret(*checkpoint_secret, net::kKeyTextSize);
  const int fd = memfd_create("tern_keys", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const bool is_written =
      fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0;
  const int error = errno;
  net::Wipe(text.data(), kSecretsSize);
  if (is_written) return fd;
  if (fd >= 0) close(fd);
  return Status(Code::kInternal,
                Cat("cannot make a file in memory for keys: ", std::strerror(error)));
}

}  // namespace tern::setup
