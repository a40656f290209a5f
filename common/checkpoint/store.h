// The checkpoints of one daemon in a folder of its own. A daemon is a worker, or a data lane (one
// thread) of a shard (one server process).
//
//   FOLDER/step.STEP.safetensors   the daemon's state after that step
//   FOLDER/step.STEP.json          its manifest: proto/checkpoint.proto
//   FOLDER/run.json                the run that wrote the checkpoints, and its job
//
// The manifest has the checkpoint's owner (the daemon and the job), its run, and the digest of the
// other file. A checkpoint is complete once its manifest exists. run.json is written first.
//
// A run is one execution of a job from its first step on, identified by a random number; a job that
// resumes from a checkpoint keeps its run.
//
// Files are written under temporary names, flushed and renamed (common/base/atomic_file.h). The
// manifest is written last and removed first. So the newest complete checkpoint survives a crash at
// any time. The store deletes two kinds of complete checkpoints: the oldest of the current run, and
// those that other daemons may lack because they died before writing theirs: of the checkpoints
// after the one from which the run continues, the only one of kind kOfAll, and all of kind kShard.
// All other checkpoints that do not stay are moved to FOLDER.DATE (UTC, 2026-11-22T22-26-01).
//
// There are two kinds of checkpoints: those that all daemons write, and those that a shard writes
// in addition, at shorter intervals. Each kind has its own number of checkpoints to keep.
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/storage.h"
#include "common/checkpoint/owner.h"
#include "common/tensors/safetensors.h"
#include "proto/checkpoint.pb.h"

namespace tern::checkpoint {

// Identifies a checkpoint. A job can resume from checkpoints of its daemons that have equal points.
struct Point {
  uint64_t run = 0;
  uint64_t step = 0;   // the number of completed steps
  uint64_t round = 0;  // the newest round (exchange) whose result the state includes
  // The hash of the weights that all workers have in common; 0: unknown, or there are none.
  uint64_t weights_hash = 0;
  // What OtherWorkers and ShardsOfOtherLayout (owner.h) say of it.
  uint32_t other_workers = 0;
  std::optional<uint32_t> shards_of_other_layout = std::nullopt;
  // Whether the points name the same checkpoint. Its weights are not a part of its name.
  friend bool operator==(const Point& a, const Point& b) {
    return a.run == b.run && a.step == b.step && a.round == b.round;
  }
};

enum class Kind {
  kOfAll,  // a checkpoint that all daemons of the job write after the same step
  kShard,  // a checkpoint that only shards write, between those of kOfAll
};

// How many checkpoints of each kind the folder keeps: the newest ones. 0: this daemon writes none.
struct NumKept {
  uint32_t num_of_all = 2;
  uint32_t num_of_shard = 0;
};

// A checkpoint that cannot be used.
struct RefusedCheckpoint {
  uint64_t step = 0;        // 0: unknown, because the folder cannot be read
  bool is_foreign = false;  // it belongs to another owner, job, model, plan or number of workers
  uint64_t run = 0;         // the run that wrote it; set only if `is_foreign`
  Kind kind = Kind::kOfAll;
  std::string reason;         // for example "its digest is A, expected B"
  bool is_left_over = false;  // OtherLayout::kLeftOver
};

class Store {
 public:
  // `storage` must outlive the store.
  Store(Owner owner, NumKept num_kept, Storage& storage = Disk());

  // Scans the folder: removes incomplete files, checks the digest of every checkpoint, and makes
  // those of a process that died durable. Returns a sentence for each checkpoint that cannot be
  // used, with the reason. A missing folder has no checkpoints; a folder that cannot be read adds a
  // RefusedCheckpoint with step 0.
  std::vector<std::string> Open();
  // The complete checkpoints of this owner, by ascending step.
  const std::vector<Point>& points() const { return points_; }
  Kind KindOf(const Point& point) const {
    return shard_only_.contains(point.step) ? Kind::kShard : Kind::kOfAll;
  }
  // The checkpoints that Open could not use, by ascending step; empty after Begin.
  const std::vector<RefusedCheckpoint>& refused_checkpoints() const { return refused_checkpoints_; }
  // The run that run.json names, if run.json belongs to this owner; else 0.
  uint64_t own_recorded_run() const { return own_recorded_run_; }
  // The text of the job (Owner::job_text) that `run` executes, if run.json is about that run; else
  // empty. nullopt: of any run. run.json may belong to another owner.
  std::string JobTextOf(std::optional<uint64_t> run) const;
  // Reads run.json, the record of the run, as Open does. For a process that uses no checkpoints.
  void ReadRecord();
  const std::string& folder() const { return owner_.folder; }

  // Prepares the folder for checkpoints of `run`. If `starts_anew` is false, the run continues, and
  // its complete checkpoints stay in the folder. Moves all other checkpoints to FOLDER.DATE, or to
  // FOLDER.DATE.2 and so on if FOLDER.DATE exists. Returns a sentence for the log; empty if nothing
  // was moved. kCannotWrite if a checkpoint cannot be moved; the checkpoints not moved are still in
  // FOLDER.
  Result<std::string> Begin(
      uint64_t run, bool starts_anew,
      std::chrono::system_clock::time_point now = std::chrono::system_clock::now());
  // Removes run.json, and what has been written since Begin: the folder was prepared for a run
  // whose checkpoints are elsewhere.
  void ForgetRun();
  // Writes a checkpoint, unless it exists, and removes the oldest of its kind if there are too
  // many. Makes the folder and run.json again if somebody has removed them. If the checkpoint
  // exists with kind kShard and `kind` is kOfAll, only changes its kind. kCannotWrite with the
  // system's message (a full disk, a read-only folder); the older checkpoints are then kept.
  Status Write(const Point& point, Kind kind, const std::vector<tensors::TensorView>& tensors,
               const tensors::Metadata& metadata);
  // Reads a checkpoint and checks its digest. kBadData if it is missing or damaged.
  Result<tensors::TensorFile> Read(const Point& point) const;
  // Call when the run continues from `point`. Removes the checkpoints of the point's run with later
  // steps. If there are several of kind kOfAll, moves all later ones to FOLDER.DATE instead: some
  // daemon has lost its own, which may be found again. Returns a sentence for the log, and errors,
  // as Begin does.
  Result<std::string> RemoveAfter(const Point& point, std::chrono::system_clock::time_point now =
                                                          std::chrono::system_clock::now());

 private:
  std::string PathOf(uint64_t step, const char* suffix) const;
  // Adds the checkpoint of this step to points_ or to refused_checkpoints_.
  void OpenCheckpoint(uint64_t step);
  // Reads a manifest and checks everything in it but its owner.
  Result<pb::Manifest> ReadManifest(uint64_t step) const;
  Status WriteRecord(uint64_t run);
  // Writes run.json if it is not about `run`. If somebody has removed it, forgets the checkpoints
  // that were removed with it.
  Status MakeFolder(uint64_t run);
  // Reads the .safetensors file and checks its size, its digest and the manifest's tag.
  Result<std::string> ReadState(const pb::Manifest& manifest) const;
  Status WriteManifest(pb::Manifest manifest, std::string_view state) const;
  void RemoveOldest(Kind kind);
  void Remove(uint64_t step);
  Status MoveCheckpoints(const std::string& folder, const std::vector<uint64_t>& steps) const;
  // Moves these checkpoints to FOLDER.DATE, and forgets them. Returns a sentence for the log; empty
  // if there are none.
  Result<std::string> MoveAway(const std::vector<uint64_t>& steps,
                               std::chrono::system_clock::time_point now);
  // Writes run.json if it is not about `run`, and if this daemon writes checkpoints. An error does
  // not end the job: Write() will fail for the same reason and report it.
  void RecordRun(uint64_t run);

  const Owner owner_;
  const NumKept num_kept_;
  Storage& storage_;
  std::vector<Point> points_;
  std::set<uint64_t> shard_only_;  // the steps of points_ whose kind is kShard
  std::vector<RefusedCheckpoint> refused_checkpoints_;
  // The run in run.json if run.json belongs to this owner; else 0.
  uint64_t own_recorded_run_ = 0;
  RunRecord record_;  // run.json, whichever owner it belongs to
};

}  // namespace tern::checkpoint
