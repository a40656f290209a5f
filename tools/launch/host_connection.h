// The connection of `tern launch` to one host: ssh or srun, and behind it `tern launch_host`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "proto/launch.pb.h"
#include "tools/launch/frames.h"
#include "tools/run/process.h"

namespace tern::tools {

// How hosts are reached; the same for all.
struct Ssh {
  // "ssh" or "srun" and its first arguments; the program is a path.
  std::vector<std::string> command;
  bool is_srun = false;  // Inside an allocation of Slurm.
  std::string tern;      // The path of the program tern on the hosts.
  std::string log_dir;   // Gets what ssh writes to stderr, HOST by HOST.
};
// Reads the value of --ssh, words between spaces. kUsage if it is no program.
Result<std::vector<std::string>> ParseSshCommand(const std::string& text);

// Not thread-safe; belongs to the main thread (Process).
class HostConnection {
 public:
  // Starts ssh and sends `begin`. Does not wait until the host is reached. kAddress or
  // kCannotWrite if ssh cannot be started. `appends_log`: whether an earlier connection to this
  // host, which was lost, has written to the same file.
  static Result<std::unique_ptr<HostConnection>> Start(const Ssh& ssh,
                                                       const pb::ToHost::Begin& begin,
                                                       bool appends_log);
  // Closes the connection, by which all members on the host end, and gives ssh a moment to end.
  ~HostConnection();

  // The connection is lost if that is not possible.
  void Send(const pb::ToHost& message);
  // Returns what has come since the last call. Never waits, except for ssh's end after the
  // connection was lost.
  std::vector<pb::FromHost> Receive();
  // Ends a connection that is not lost; `why` is then the sentence of loss().
  void GiveUp(const std::string& why);
  // Whether Tern on the host has answered.
  bool was_reached() const { return was_greeted_; }
  // Readable when Receive has something to do.
  int event_fd() const { return from_host_->fd(); }
  // Why there is no connection any more: the code and the last sentence of ssh or of the host. Ok:
  // there is one.
  const Status& loss() const { return loss_; }

 private:
  HostConnection(std::string name, std::unique_ptr<Process> ssh, int to_host, int from_host);
  void SetLost(const std::string& what);

  const std::string name_;
  std::unique_ptr<Process> ssh_;
  std::optional<File> to_host_, from_host_;
  FrameReader reader_;
  bool was_greeted_ = false;
  Status loss_;
};

}  // namespace tern::tools
