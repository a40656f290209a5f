// The members of a job on one host, as `tern launch_host` starts them when the launcher says so.
// Everything is reported to stdout, as frames of proto/launch.proto.
#pragma once

#include <poll.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/folder_lock.h"
#include "common/base/status.h"
#include "common/net/security.h"
#include "proto/job.pb.h"
#include "proto/launch.pb.h"
#include "tools/run/group_guard.h"
#include "tools/run/process.h"
#include "tools/run/program_output.h"
#include "tools/run/progress_pipe.h"

namespace tern::tools {

// Belongs to the main thread (Process). The destructor kills what still runs. Every error ends this
// host's part in the job.
class HostMembers {
 public:
  // kInternal if the system has no more processes or pipes.
  static Result<std::unique_ptr<HostMembers>> Make();

  // Does what the launcher says. kAddress, kCannotWrite or kBadJob if this host cannot take part;
  // kMismatch if the message does not belong here; kPeerLost if the launcher does not read.
  Status Handle(pb::ToHost* message);
  // Adds the descriptors of which the events are to be reported.
  void AddPollFds(std::vector<pollfd>* fds) const;
  bool AnyRuns() const;
  // Reports progress, output and ends. kPeerLost if the launcher does not read.
  Status Report();

 private:
  using Key = std::pair<bool, uint32_t>;  // is_server and rank of pb::Member
  struct Child {
    pb::Member member;
    ProcessSpec spec;
    std::unique_ptr<Process> process;  // Null: it has ended.
    bool has_output = false;           // output_ reads its files.
    uint32_t place = 0;                // a worker's number among those of this host
  };

  explicit HostMembers(std::unique_ptr<GroupGuard> guard);
  Status Begin(const pb::ToHost::Begin& begin);
  Status SetJob(const pb::ToHost::SetJob& set_job);
  // Waits until the process that started this host's members before has ended.
  Status LockHost(const std::string& folder);
  // Starts a member, and reports whether it runs.
  Status Start(pb::ToHost::Start* start);
  Status TryStart(pb::ToHost::Start* start, Child* child);
  Result<ProcessSpec> SpecOf(const pb::ToHost::Start& start, uint32_t place) const;
  Status ReportProgress();
  static Status Send(const pb::FromHost& message);

  std::optional<FolderLock> lock_;  // Released when all processes have ended.
  std::unique_ptr<GroupGuard> guard_;
  const ProgressPipe progress_;
  pb::ToHost::Begin begin_;
  std::optional<pb::Job> job_;  // Empty before SetJob.
  std::string job_file_, log_dir_;
  uint64_t launch_ = 0;
  net::AllowList peers_;
  std::map<Key, Child> children_;
  uint32_t num_workers_ = 0;  // in children_
  ProgramOutput output_;
  Status send_status_;  // The first error of output_'s frames.
};

}  // namespace tern::tools
