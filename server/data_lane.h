// One data lane of a shard, without its socket and its thread: the protocol machine that the job
// asks for, its cells, and what it keeps on disk. LaneLoop feeds it in the daemon, the simulator in
// tests (tests/sim). Belongs to the thread of the lane.
#pragma once

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

  // Of lane `lane` (1..) of `shard`, as the job has it; all but the learning rate, which the lane
  // knows itself.
  static Options OptionsOf(const setup::Setup& setup, uint32_t shard, uint32_t lane,
                           uint64_t incarnation);
  // `initial`: InitialWeights, where servers hold the parameters; empty: it makes them. `setup` and
  // `storage` outlive it. kBadJob if the job cannot hold its parameters so.
  static Result<std::unique_ptr<DataLane>> Make(const setup::Setup& setup, uint32_t shard,
                                                uint32_t lane, Options options,
                                                std::span<const float> initial = {},
                                                Storage& storage = Disk());
  DataLane(const DataLane&) = delete;  // its cells point at it
  DataLane& operator=(const DataLane&) = delete;

  void OnMembers(const pb::Members& members, protocol::Sends* out);
  // Refuses the hello of a peer of another job.
  void OnMessage(protocol::Peer from, const protocol::Message& message, protocol::Sends* out);
  // The job ends as soon as it can end in order.
  void Stop(protocol::Sends* out);
  // After messages, once their answers have left: writes a checkpoint where one is due (without
  // rounds; with rounds it is on disk before the answers leave).
  void AfterMessages();
  // The process ends.
  void Finish();

  // The lane's checkpoints on disk; nullopt if the lane has no state to save. From any thread.
  std::optional<protocol::Saved> Saved() const;
  // The error because of which this lane must leave the job; Ok without one. From any thread.
  Status failure() const { return checkpoints_ == nullptr ? Ok() : checkpoints_->failure(); }

  const protocol::Lane& lane() const { return central_ != nullptr ? central_->lane() : *lane_; }
  // Null where servers do not hold the parameters.
  const CentralLane* central() const { return central_.get(); }
  // Which beginning of the run (recovery.h) the lane is of; 0: none yet.
  uint64_t beginning() const { return beginning_; }

 private:
  DataLane(const setup::Setup& setup, uint32_t shard, uint32_t lane)
      : setup_(setup), shard_(shard), number_(lane) {}
  // For localized parameters: the lane's cells. If codecs keep something of their sums, it becomes
  // part of the checkpoints.
  std::vector<protocol::CellSpec> LocalizedCells();
  // Changes to the run, and the beginning of it (recovery.h), that `members` name. Returns false on
  // failure.
  bool Begin(const pb::Members& members);
  // Returns to that checkpoint, or to the initial state.
  Status GoBack(const std::optional<pb::Checkpoint>& to);
  protocol::Lane& machine() { return central_ != nullptr ? central_->lane() : *lane_; }

  const setup::Setup& setup_;
  const uint32_t shard_, number_;
  std::optional<update::Schedule> schedule_;      // once the length of the job is known
  std::unique_ptr<LaneCheckpoints> checkpoints_;  // null if the lane has no state to save
  std::unique_ptr<protocol::RoundLane> lane_;     // for localized parameters; else null
  std::unique_ptr<CentralLane> central_;          // for central parameters; else null
  uint64_t beginning_ = 0;                        // of the newest Members
};

}  // namespace tern::server
