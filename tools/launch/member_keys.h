// The secrets of a job's members, as `tern launch` sends each to its host: those of the job's key
// files on this machine, or, for a job without the section `keys`, new ones that end with the run.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/net/security.h"
#include "proto/job.pb.h"
#include "proto/launch.pb.h"

namespace tern::tools {

class MemberKeys {
 public:
  // Reads the key files of a job that will have so many shards. None without the section `keys`, or
  // without `security: curve`. kBadJob if one is missing; the other errors are those of
  // setup/key_files.h.
  static Result<MemberKeys> ReadFor(const pb::Job& job, size_t num_shards);
  // Makes keys for a job with `security: curve` that has none. After this call the process of a job
  // with keys writes no core dumps.
  void MakeMissing(const pb::Job& job);

  // The text of a peers file; "": the job has no keys.
  const std::string& peers_text() const { return peers_text_; }
  // Adds the secrets of start->member(). The caller overwrites them when they are sent.
  void AddTo(pb::ToHost::Start* start) const;

 private:
  Status ReadFiles(const pb::Job& job, size_t num_shards);

  std::map<net::Principal, net::SecretKey> secrets_;
  std::optional<net::SecretKey> checkpoint_secret_;
  std::string peers_text_;
};

}  // namespace tern::tools
