// Starts the members of a job on several hosts, for the supervisor of `tern launch`.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/base/terminal_line.h"
#include "proto/launch.pb.h"
#include "tools/launch/host_connection.h"
#include "tools/launch/member_keys.h"
#include "tools/run/member_process.h"
#include "tools/run/progress_pipe.h"

namespace tern::tools {

class RemoteProcess;

// Belongs to the main thread. The destructor closes all connections, by which all members end.
class RemoteMembers final : public ProcessStarter {
 public:
  // `begins`: one for each host. `progress_fd`: a non-blocking pipe for what shard 0 reports.
  // Prints the output of members through `line`, which must outlive this object.
  RemoteMembers(Ssh ssh, std::vector<pb::ToHost::Begin> begins, int progress_fd,
                TerminalLine* line);
  ~RemoteMembers() override;

  // Reaches all hosts, and says for which ones it waits. Returns what each has answered. The error
  // is that of the first host that cannot be reached or take part; kAddress if one does not answer
  // within a minute; that of StopSignals after a signal.
  Result<std::vector<pb::FromHost::Ready>> Connect(StopSignals* stop_signals);
  // Sends the job to all hosts. Call it after Connect, before Start.
  void SetJob(const pb::ToHost::SetJob& job, MemberKeys keys);
  // Says how `start`, without secrets, starts the member with this name in messages, and how long
  // the job waits for it if it is lost.
  void AddMember(const std::string& name, size_t host, pb::ToHost::Start start, Time return_time);

  // Starts spec.name, a member. The process's end is reported later if it cannot be started.
  // Connects to its host again if the connection was lost: again and again for the member's
  // return_time, in which the member counts as running.
  Result<std::unique_ptr<MemberProcess>> Start(const ProcessSpec& spec) override;
  // A host that does not report the end of a member after SIGKILL is given up after a while: the
  // connection is ended, and its members are lost.
  void Receive() override;
  std::optional<Time> NextDue() const override;

 private:
  friend RemoteProcess;
  struct HostState {
    pb::ToHost::Begin begin;
    std::unique_ptr<HostConnection> connection;
    std::optional<pb::FromHost::Ready> ready;
    std::optional<Time> lost_at;    // Empty: it has answered since.
    std::optional<Time> retry_at;   // Of a host that cannot be reached and that a member waits for.
    bool is_absence_known = false;  // It was said that the host cannot be reached.
  };
  struct MemberState {
    size_t host = 0;
    pb::ToHost::Start start;
    Time return_time{};
    RemoteProcess* process = nullptr;  // The newest one; null: none.
  };

  Status Connect(HostState* host, bool appends_log);
  // Connects to a lost host, and starts the members on it that are to run.
  Status Reconnect(size_t host);
  void SendStart(const MemberState& member);
  void Handle(const pb::FromHost& message, HostState* host);
  // Passes the lines of shard 0 on to the pipe.
  void TakeProgress(const std::string& bytes);
  void GiveUpSilentHosts(Time now);
  void OnLoss(size_t host, Time now);
  // The members whose processes have not ended.
  std::vector<MemberState*> RunningOn(size_t host);
  void Print(const MemberState& member, bool is_stderr, const std::string& lines);
  MemberState* MemberOf(const pb::Member& member);

  const Ssh ssh_;
  const int progress_fd_;
  ProgressLines progress_lines_;
  TerminalLine& line_;
  std::vector<HostState> hosts_;
  pb::ToHost job_;
  MemberKeys keys_;
  std::map<std::string, MemberState> members_;  // By their names in messages.
};

}  // namespace tern::tools
