// One data socket of a server shard and the thread that owns it. The thread passes the socket's
// messages to a DataLane and sends the lane's answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "common/base/channel.h"
#include "common/base/clock.h"
#include "common/base/hang_watch.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/threads.h"
#include "common/net/poller.h"
#include "common/net/socket.h"
#include "common/protocol/rounds/lane.h"
#include "server/answer_limit.h"
#include "server/data_lane.h"
#include "server/door.h"
#include "server/frame_refusals.h"
#include "server/lane_counters.h"
#include "server/lane_trace.h"
#include "server/round_times.h"
#include "setup/setup.h"

namespace tern::server {

// The request to stop the job (DataLane::Stop).
struct StopAfterThisRound {};
// The request for a checkpoint of all daemons (Lane::OnCheckpointRequest).
struct CheckpointSoon {};
// The step of the lane's last checkpoint (DataLane::Finish). It is the last command to a lane.
struct LastCheckpoint {
  uint64_t step = 0;
};
// A command of the control thread to a lane: a new membership, a request, or the end.
using LaneCommand = std::variant<pb::Members, StopAfterThisRound, CheckpointSoon, LastCheckpoint>;

class LaneLoop {
 public:
  // Binds the socket of lane `lane` (from 1) of `shard` and starts the thread. `port` 0: the system
  // picks a port. Of `options`, the limits are set here. References and pointers must outlive the
  // loop. `initial`: the initial weights of the whole model, used if servers hold the parameters.
  // kAddress if the port cannot be bound; kBadJob if servers cannot hold the job's parameters.
  static Result<std::unique_ptr<LaneLoop>> Start(const setup::Setup& setup, uint32_t shard,
                                                 uint32_t lane, uint64_t incarnation,
                                                 const std::string& host, uint16_t port,
                                                 net::Context& context, net::SocketOptions options,
                                                 Registry* registry,
                                                 std::span<const float> initial = {});
  // Stops the thread and waits for its end.
  ~LaneLoop();

  // The checkpoints on the lane's disk: see DataLane. Any thread may call it.
  std::optional<protocol::SavedCheckpoints> Saved() const { return data_lane_->Saved(); }
  // Why this shard must leave the job: an error of the data lane or of the socket, or the lane's
  // thread has stood still for `timeout` + `patience`. After `timeout`, logs the thread's stack.
  // The thread stands still if it hangs or waits for a disk; while it waits for messages, it wakes
  // once a second. Call regularly, on one thread.
  Status CheckThread(Time timeout, Time patience, Time now);
  // Whether CheckThread() has found that the thread hangs. The destructor would wait for it.
  bool hangs() const { return hangs_; }
  // How long the thread has stood still, as of the newest CheckThread().
  Time stands_still() const { return stands_still_; }
  uint16_t port() const { return socket_->port(); }
  // See DataLane. Any thread may call it.
  uint64_t last_step() const { return data_lane_->last_step(); }
  // Passes a command to the lane's thread. Only the control thread calls it.
  void SendCommand(LaneCommand command) { commands_.Push(std::move(command)); }
  // Stops the thread, waits for its last checkpoint (DataLane::Finish), and returns whether that
  // could be written. No command may follow. REQUIRES that the thread does not hang.
  Status Finish();

 private:
  LaneLoop(uint32_t lane, uint32_t workers, std::unique_ptr<DataLane> data_lane,
           std::unique_ptr<net::RouterSocket> socket, Registry* registry);
  void Run();
  // Serves the socket and the commands until the owner stops the thread, or an error.
  Status Serve();
  void OnCommand(const LaneCommand& command, protocol::Sends* sends);
  // Lets the lane write a checkpoint if one is due, updates the metrics, and logs lost clocks:
  // pushes that this server had counted before it restarted from an older checkpoint.
  void AfterMessages();
  void OnReceived(net::ReceivedMessage received, protocol::Sends* sends);
  // `about`: what the trace says of the sending.
  void SendAll(protocol::Sends sends, const TraceArgs& about);

  const uint32_t lane_number_;
  std::unique_ptr<net::RouterSocket> socket_;
  std::unique_ptr<DataLane> data_lane_;
  uint64_t last_checkpoint_step_ = 0;  // of the command LastCheckpoint; 0: none has come
  uint64_t reported_lost_clocks_ = 0;  // the number in the last warning about lost clocks
  Channel<LaneCommand> commands_;
  TimeCounter& sum_time_;
  Counter &unsent_answers_, &checkpoint_failures_;
  LaneCounters lane_counters_;
  LaneTrace trace_;
  RoundTimes round_times_;  // of lane 1, for the whole shard
  Door door_;
  FrameRefusals frame_refusals_;
  AnswerLimit answer_limit_;
  std::atomic<uint64_t> num_turns_{0};  // grows while the thread serves its socket
  HangWatch watch_;
  bool hangs_ = false;
  Time stands_still_{};
  Mutex mutex_;
  Status serve_status_ TERN_GUARDED_BY(mutex_);   // what Serve() returned
  Status finish_status_ TERN_GUARDED_BY(mutex_);  // what DataLane::Finish returned
  Thread thread_;  // The last member, because the thread uses all others.
};

}  // namespace tern::server
