// Snapshots of what one data lane of a shard holds: a safetensors file a step,
//
//   OUTPUT_DIR/server.SHARD.lane.LANE.STEP.snapshot
//
// with each cell's arrays as tensors "BUCKET.CHUNK.NAME", its numbers and whose it is (job, run,
// step) as metadata. Written under another name, flushed, then renamed: a file of this name is
// whole. The newest few are kept.
//
// A synchronous cell gives its state when it has closed the round; the file is written, on a thread
// of its own, when all cells of the lane have. The round after it closes only once the file is on
// disk (see protocol::SnapshotsToKeep).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/rounds/message.h"
#include "common/tensors/safetensors.h"
#include "server/central/central.h"

namespace tern::server {

// Whose snapshots: those of another job or run, or of no run, are not taken up.
struct SnapshotOwner {
  std::string dir;
  uint32_t shard = 0, lane = 0;
  uint64_t job_digest = 0;
  uint64_t run = 0;
};

std::string SnapshotPath(const SnapshotOwner& owner, uint64_t step);
// The steps of its whole snapshots, rising. What cannot be read or is another's is named in the
// log.
std::vector<uint64_t> ListSnapshots(const SnapshotOwner& owner);
// The steps that all these have a snapshot of, rising.
std::vector<uint64_t> CommonSnapshots(const std::vector<SnapshotOwner>& owners);
// Removes this lane's snapshots that are of another run or job, or half written.
void RemoveSnapshotsOfOthers(const SnapshotOwner& owner);

// Writes on a thread of its own, one at a time.
class SnapshotWriter {
 public:
  struct Copy {
    SnapshotOwner owner;
    uint64_t step = 0;
    uint64_t keep = 2;  // so many of the newest stay
    std::vector<tensors::Tensor> tensors;
    tensors::Metadata metadata;
  };
  SnapshotWriter();
  ~SnapshotWriter();  // after what was submitted
  void Submit(Copy copy);
  // Until all that was submitted is on disk, or was given up with a line in the log.
  void Wait();

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

// The cells of one lane. Belongs to the lane's thread.
class LaneSnapshots {
 public:
  // `every`: steps between two; 0: none are written. `window`: as RoundLane's.
  LaneSnapshots(SnapshotOwner owner, uint64_t every, uint32_t window)
      : owner_(std::move(owner)), every_(every), window_(window) {}

  // Before anything else. `state`: REQUIRES the same names and sizes whenever it is asked.
  void AddCell(const protocol::Cell& cell, std::function<void(SavedState*)> state);
  void SetRun(uint64_t run) { owner_.run = run; }
  const SnapshotOwner& owner() const { return owner_; }

  // Synchronous lanes: `cell` has closed `round`, and has the state after it.
  void OnClosed(const protocol::Cell& cell, uint64_t round);
  // Lanes without rounds: the global step that all cells have reached. Takes all cells' state if
  // one is due.
  bool IsDue(uint64_t step) const { return wanted() && step >= newest_ + every_; }
  void Take(uint64_t step);

  // Puts all cells back where they were, and removes newer snapshots. kBadData: this one is not
  // whole or is not ours; nothing has changed.
  Status Load(uint64_t step);
  // Of a lane that starts afresh.
  void RemoveAll();
  void Flush() { writer_.Wait(); }

 private:
  struct Open {
    SnapshotWriter::Copy copy;
    size_t cells = 0;
  };
  // Without a run nobody could tell later whose they are.
  bool wanted() const { return every_ != 0 && owner_.run != 0; }
  void CopyCell(const protocol::Cell& cell, uint64_t step);

  SnapshotOwner owner_;
  const uint64_t every_;
  const uint32_t window_;
  uint64_t newest_ = 0;
  std::map<protocol::Cell, std::function<void(SavedState*)>> cells_;
  std::map<uint64_t, Open> open_;  // by step; of some cells
  SnapshotWriter writer_;
};

}  // namespace tern::server
