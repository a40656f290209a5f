#include "tools/run/ephemeral_keys.h"

#include <unistd.h>

#include <cstdint>
#include <utility>

#include "common/algorithm/ranks.h"
#include "common/net/keys.h"
#include "setup/key_files.h"
#include "setup/security.h"

namespace tern::tools {

Result<std::unique_ptr<EphemeralKeys>> EphemeralKeys::MakeFor(const pb::Job& job) {
  std::unique_ptr<EphemeralKeys> keys(new EphemeralKeys);
  if (job.security() != pb::Job::curve || setup::HasKeys(job)) return keys;
  setup::ForbidDumps();
  std::vector<net::SecretKey> secrets;
  net::AllowList peers;
  using Role = net::Principal::Role;
  for (const auto& [role, count] :
       {std::pair{Role::kShard, static_cast<uint32_t>(job.servers_size())},
        std::pair{Role::kWorker, algorithm::NumRanks(job)}}) {
    for (uint32_t number = 0; number < count; ++number) {
      net::KeyPair pair = net::MakeKeyPair();
      peers[pair.public_key] = {role, number};
      secrets.push_back(std::move(pair.secret_key));
    }
  }
  for (const net::SecretKey& secret : secrets) {
    const Result<int> fd = setup::MakeKeysFd(secret, nullptr, peers);
    if (!fd.ok()) return fd.status();
    keys->fds_.push_back(*fd);
  }
  return keys;
}

EphemeralKeys::~EphemeralKeys() {
  for (const int fd : fds_) close(fd);
}

}  // namespace tern::tools
