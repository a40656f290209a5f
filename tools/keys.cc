// tern keys make: makes the keys of a job with security: curve.
#include "common/net/keys.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/algorithm/ranks.h"
#include "common/base/file.h"
#include "common/base/text.h"
#include "common/config/job.h"
#include "setup/key_files.h"
#include "setup/security.h"
#include "setup/setup.h"
#include "tools/command_table.h"
#include "tools/commands.h"

namespace tern::tools {
namespace {

constexpr const char* kCheckpointFile = "checkpoint.secret";

// Makes a folder that only its user may use, or takes an empty one.
Status MakeFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) == 0) return Ok();
  const int error = errno;
  struct stat info {};
  std::error_code ignored_error;
  if (error != EEXIST || lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
    return Status(Code::kCannotWrite,
                  Cat("cannot make the folder ", folder, ": ", std::strerror(error)));
  if (!std::filesystem::is_empty(folder, ignored_error)) {
    return Status(Code::kCannotWrite,
                  Cat(folder,
                      ": saw files there, and keys are never overwritten: give a new folder, "
                      "or remove this one if no job uses its keys"));
  }
  if (info.st_uid == geteuid() && (info.st_mode & 077) == 0) return Ok();
  return Status(Code::kCannotWrite, Cat(folder,
                                        ": others may use this folder, expected one of this "
                                        "user with the mode 0700: remove it, or chmod 700"));
}

// Writes a new file with public keys.
Status WritePeers(const std::string& path, const net::AllowList& peers) {
  const std::string text = Cat("# Public keys of the daemons of a job: no secrets. docs/HOSTS.md\n",
                               setup::PeersText(peers));
  File file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const bool is_written = file.fd() >= 0 && write(file.fd(), text.data(), text.size()) ==
                                                static_cast<ssize_t>(text.size());
  if (is_written && file.Close()) return Ok();
  return Status(Code::kCannotWrite, Cat("cannot write ", path, ": ", std::strerror(errno)));
}

// Writes the secret keys of `count` daemons, and adds their public keys to `peers`.
Status WriteSecrets(const pb::Keys& keys, net::Principal::Role role, uint32_t count,
                    net::AllowList* peers) {
  for (uint32_t number = 0; number < count; ++number) {
    const net::Principal principal{role, number};
    const net::KeyPair pair = net::MakeKeyPair();
    TERN_RETURN_IF_ERROR(
        setup::WriteSecretFile(setup::KeyPathsOf(keys, principal).own, pair.secret_key));
    peers->emplace(pair.public_key, principal);
  }
  return Ok();
}

void PrintWhatToCopy(const pb::Job& job, const std::string& folder) {
  std::printf(
      "%s has the keys of %d server shards and %u workers. Set in the job:\n\n"
      "  security: curve\n  keys: {dir: \"%s\"}\n\n"
      "Each host needs the file peers and the secrets of its own daemons, in a folder of this "
      "name:\n\n",
      folder.c_str(), job.servers_size(), algorithm::NumRanks(job), folder.c_str());
  for (int shard = 0; shard < job.servers_size(); ++shard)
    std::printf("  shard.%d.secret    the host of server %d, %s\n", shard, shard,
                job.servers(shard).address().c_str());
  std::printf("  worker.N.secret   the host of worker N, 0 to %u\n", algorithm::NumRanks(job) - 1);
  std::printf(
      "  %s all hosts, if the job has keys.checkpoint: %s/%s\n\n"
      "Copy them over a channel that you trust, with mode 0600 (scp -p), and keep no other "
      "copies.\n",
      kCheckpointFile, folder.c_str(), kCheckpointFile);
}

Status WriteKeys(const std::string& folder, const pb::Job& job) {
  TERN_RETURN_IF_ERROR(MakeFolder(folder));
  setup::ForbidDumps();
  pb::Keys keys;
  keys.set_dir(folder);
  net::AllowList peers;
  using Role = net::Principal::Role;
  TERN_RETURN_IF_ERROR(
      WriteSecrets(keys, Role::kShard, static_cast<uint32_t>(job.servers_size()), &peers));
  TERN_RETURN_IF_ERROR(WriteSecrets(keys, Role::kWorker, algorithm::NumRanks(job), &peers));
  TERN_RETURN_IF_ERROR(
      setup::WriteSecretFile(Cat(folder, "/", kCheckpointFile), net::MakeKeyPair().secret_key));
  TERN_RETURN_IF_ERROR(WritePeers(Cat(folder, "/peers"), peers));
  PrintWhatToCopy(job, folder);
  return Ok();
}

}  // namespace

Status MakeKeys(const Arguments& arguments) {
  if (!arguments.HasFlag("job"))
    return setup::UsageError(CommandCalled("tern keys make").def, "--job JOB is missing");
  const Result<pb::Job> job =
      setup::LoadJob(arguments.LastValue("job"), arguments.AllValues("set"));
  if (!job.ok()) return job.status();
  return WriteKeys(arguments.positional()[0], *job);
}

}  // namespace tern::tools
