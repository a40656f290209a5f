#include "tools/doctor/keys.h"

#include <vector>

#include "common/base/text.h"
#include "common/net/security.h"
#include "setup/key_files.h"
#include "setup/security.h"

namespace tern::tools {
namespace {

using net::Principal;

std::vector<Principal> PrincipalsOf(const Members& members) {
  std::vector<Principal> principals;
  for (const uint32_t shard : members.servers)
    principals.push_back({Principal::Role::kShard, shard});
  if (members.are_workers_known) {
    for (const uint32_t rank : members.workers)
      principals.push_back({Principal::Role::kWorker, rank});
  }
  return principals;
}

}  // namespace

Findings CheckKeys(const pb::Job& job, const Members& members) {
  if (!setup::HasKeys(job)) return {};
  setup::ForbidDumps();
  Findings findings;
  const auto add_error = [&findings](const std::string& subject, const Status& status) {
    if (!status.ok()) findings.push_back(Bad(status.code(), subject, status.message()));
  };
  if (job.security() == pb::Job::curve) {
    for (const Principal& self : PrincipalsOf(members)) {
      add_error(Cat("keys of ", setup::NameOf(self)), setup::LoadSecurity(job, self, -1).status());
    }
  }
  add_error("keys.checkpoint", setup::LoadCheckpointSecret(job).status());
  if (findings.empty()) findings.push_back(Good("keys", "the daemons here can read theirs"));
  return findings;
}

}  // namespace tern::tools
