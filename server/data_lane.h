// One data lane of a server shard: the protocol's state machine that the job needs, the cells (the
// sums or weights of the chunks that the lane serves), and their checkpoints on disk. A DataLane
// has no socket and no thread: in the daemon, LaneLoop has them; the simulator in tests (tests/sim)
// needs none. One thread uses a DataLane, except where a method says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/storage.h"
#include "common/protocol/rounds/lane.h"
#include "common/update/schedule.h"
#include "server/central_lane.h"
#include "server/lane_checkpoints.h"
#include "setup/setup.h"

namespace tern::server {

class DataLane {
 public:
  using Options = protocol::RoundLane::Options;

  // The options for lane `lane` (from 1) of `shard`, as the job asks, except the learning rate,
  // which Make sets.
  static Options OptionsOf(const setup::Setup& setup, uint32_t shard, uint32_t lane,
                           uint64_t incarnation);
  // `initial`: InitialWeights(setup), used if servers hold the parameters; if empty, Make computes
  // it. `setup` and `storage` must outlive the result. kBadJob if servers cannot hold the job's
  // parameters.
  static Result<std::unique_ptr<DataLane>> Make(const setup::Setup& setup, uint32_t shard,
                                                uint32_t lane, Options options,
                                                std::span<const float> initial = {},
                                                Storage& storage = Disk());
  DataLane(const DataLane&) = delete;  // The cells have pointers to this object.
  DataLane& operator=(const DataLane&) = delete;

  // Call when the membership has changed. Adopts the run and the beginning that `members` names,
  // then passes `members` to the state machine. The run identifies an execution of the job; the
  // beginning identifies the start of the run, or the latest return of all daemons to a checkpoint.
  void OnMembers(const pb::Members& members, protocol::Sends* sends);
  // Handles a message from a worker's connection. Refuses the hello of a peer of another job.
  void OnMessage(protocol::Peer from, const protocol::Message& message, protocol::Sends* sends);
  // Call when a stop was requested: ends the job at the next point where all workers can end
  // together.
  void Stop(protocol::Sends* sends);
  // Call when a checkpoint was asked for: all daemons write one soon. With rounds only.
  void RequestCheckpoint() { state_machine().OnCheckpointRequest(); }
  // Call after a batch of messages and their answers. Without rounds, writes a checkpoint if one is
  // due. (With rounds a checkpoint is written before the answers are sent.)
  void AfterMessages();
  // Call when the process ends: writes a last checkpoint, if the job writes checkpoints.
  // `last_step`: see CentralLane::Finish. kCannotWrite if that fails: a longer job that begins from
  // that checkpoint would not have it.
  Status Finish(uint64_t last_step);

  // The lane's checkpoints on disk; nullopt if the lane has no state to save. Any thread may call
  // it.
  std::optional<protocol::SavedCheckpoints> Saved() const;
  // The error because of which this shard must leave the job; ok if there is none. Any thread may
  // call it.
  Status failure() const { return checkpoints_ == nullptr ? Ok() : checkpoints_->failure(); }
  // Without rounds: the step that the lane has reached, rounded up (CentralLane::last_step). It is
  // up to date when a Parting, a worker's last message to the lane, has been answered, and after
  // AfterMessages. Any thread may call it.
  uint64_t last_step() const { return last_step_; }
  // How many checkpoints this lane could not write.
  uint64_t NumFailedCheckpoints() const {
    return checkpoints_ == nullptr ? 0 : checkpoints_->num_failed();
  }

  const protocol::Lane& lane() const {
    return central_lane_ != nullptr ? central_lane_->lane() : *localized_lane_;
  }
  // Null if workers hold the parameters.
  const CentralLane* central() const { return central_lane_.get(); }
  // The Members.beginning (wire.proto) that the lane has adopted; 0: none yet.
  uint64_t beginning() const { return beginning_; }

 private:
  DataLane(const setup::Setup& setup, uint32_t shard, uint32_t lane)
      : setup_(setup), shard_(shard), lane_number_(lane) {}
  // Makes the lane's cells for a job whose workers hold the parameters. Adds the state that codecs
  // keep between sums to the checkpoints.
  std::vector<protocol::CellSpec> MakeLocalizedCells();
  // Adopts the run and the beginning that `members` name, and goes back to a checkpoint if needed.
  // Returns false on failure.
  bool AdoptRunAndBeginning(const pb::Members& members);
  void UpdateLastStep();
  // Returns to the checkpoint `target`, or to the initial state if `target` is nullopt.
  Status GoBack(const std::optional<pb::Checkpoint>& target);
  protocol::Lane& state_machine() {
    return central_lane_ != nullptr ? central_lane_->lane() : *localized_lane_;
  }

  const setup::Setup& setup_;
  const uint32_t shard_, lane_number_;
  std::optional<update::Schedule> schedule_;      // nullopt until the length of the job is known
  std::unique_ptr<LaneCheckpoints> checkpoints_;  // null if the lane has no state to save
  std::unique_ptr<protocol::RoundLane> localized_lane_;  // null if servers hold the parameters
  std::unique_ptr<CentralLane> central_lane_;            // null if workers hold the parameters
  // Whether the lane has lost its disk, and so answers no message any more.
  bool has_lost_disk_ = false;
  // The run and the beginning that OnMembers has adopted; 0: none yet.
  uint64_t run_ = 0, beginning_ = 0;
  std::atomic<uint64_t> last_step_{0};
};

}  // namespace tern::server
