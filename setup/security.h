// Makes a daemon's net::Security from the job and its key files.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/net/security.h"
#include "proto/job.pb.h"
#include "setup/setup.h"

namespace tern::setup {

// The paths of a daemon's key files, from the job's section `keys`.
struct KeyPaths {
  std::string own, peers;
};
KeyPaths KeyPathsOf(const pb::Keys& keys, const net::Principal& self);

// Whether the job has a section `keys` that is not empty.
bool HasKeys(const pb::Job& job);

// The security of the daemon `self`. With `security: curve`, reads its key files. kBadJob if a file
// is unsuitable (setup/key_files.h), or the files do not belong together: the peers file must have
// a key of every shard, and the daemon's own key. A program of ours calls ForbidDumps() before
// this; a library in a foreign process leaves the process as it is.
//
// `keys_fd`: a descriptor from MakeKeysFd, which is read in place of the files of keys.own and
// keys.peers, and closed; or -1.
Result<net::Security> LoadSecurity(const pb::Job& job, const net::Principal& self, int keys_fd);

// Reads the peers file again for the server shard `self`: who may connect to it now. The errors are
// those of LoadSecurity, and kBadJob if the job has no such file.
Result<net::AllowList> LoadAllowList(const pb::Job& job, const net::Principal& self);

// The secret of keys.checkpoint, read like a daemon's own secret; null if the job has none.
Result<std::shared_ptr<const net::SecretKey>> LoadCheckpointSecret(const pb::Job& job);

// Reads the daemon's keys, as LoadSecurity and LoadCheckpointSecret, into `setup`.
Status SetKeys(const net::Principal& self, int keys_fd, Setup* setup);

// A file in memory, without a name, that gives a daemon its keys: its secret key, the secret of
// keys.checkpoint if the job has one (else null), and the text of a peers file. Nobody can change
// it later. The descriptor is not inherited, unless its owner says so. kInternal if the system has
// no such files.
Result<int> MakeKeysFd(const net::SecretKey& secret, const net::SecretKey* checkpoint_secret,
                       const net::AllowList& peers);

}  // namespace tern::setup
