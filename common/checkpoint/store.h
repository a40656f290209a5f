// The checkpoints of one daemon (a worker, or a data lane of a server shard), in a folder of its
// own on that daemon's disk:
//
//   FOLDER/step.STEP.safetensors   all that it needs to go on after that step
//   FOLDER/step.STEP.json          the manifest (proto/checkpoint.proto): whose, of which run, the
//                                  digest of the other file. Written last: a checkpoint is whole
//                                  once it is there
//   FOLDER/run.json                of which run the others are, and its job. There before the first
//
// All are written under other names, flushed and renamed (common/base/atomic_file.h), and removed
// in the other order, so that the newest whole one stays whatever dies when. Nothing is removed but
// the oldest of the run that writes here, and what came after the point that it goes on from: all
// else is moved to FOLDER.DATE (UTC, 2026-11-22T22-26-01). Belongs to one thread.
//
// There are two kinds, kept apart from each other: those of all daemons, and a shard's own between
// them.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/storage.h"
#include "common/tensors/safetensors.h"
#include "proto/checkpoint.pb.h"

namespace tern::checkpoint {

// Of which run of the job, after which step and round. Two daemons' with equal ones go together.
struct Point {
  uint64_t run = 0;
  uint64_t step = 0;
  uint64_t round = 0;
  friend bool operator==(const Point&, const Point&) = default;
};

enum class Kind {
  kOfAll,  // every daemon of the job writes one of this step
  kShard,  // a shard's own
};

// So many of the newest of a kind stay; 0: none of that kind are written here.
struct Keep {
  uint32_t of_all = 2;
  uint32_t shard = 0;
};

// Whose checkpoints: those of others are not used.
struct Owner {
  std::string folder;
  std::string name;  // "worker.0"
  uint32_t workers = 0;
  uint64_t job_digest = 0;  // config::StateDigest
  uint64_t model_digest = 0;
  uint64_t plan_digest = 0;
  std::string job_text;  // config::JobText
};

// One that is not used.
struct Refused {
  uint64_t step = 0;   // 0: nobody knows which, since the folder cannot be read
  bool other = false;  // it is of another owner, job, model, plan or number of workers
  uint64_t run = 0;    // with `other`
  Kind kind = Kind::kOfAll;
  std::string why;  // "its digest is A, expected B"
};

class Store {
 public:
  // `storage` outlives it.
  Store(Owner owner, Keep keep, Storage& storage = Disk());

  // Looks through the folder: removes what was half written, checks every checkpoint, byte for
  // byte. A sentence for each that is not used, and why. No folder, no checkpoints; but one that
  // cannot be read may have some.
  std::vector<std::string> Open();
  // Those that are whole and ours, by step, rising.
  const std::vector<Point>& points() const { return points_; }
  Kind KindOf(const Point& point) const {
    return shard_only_.contains(point.step) ? Kind::kShard : Kind::kOfAll;
  }
  // As Open found them, by step, rising; none once a run has begun.
  const std::vector<Refused>& refused() const { return refused_; }
  // The run of this owner that began here last; 0: none has.
  uint64_t began() const { return began_; }
  // The job of that run, of whomever, as its Owner had it; empty: it is not known.
  std::string JobTextOf(uint64_t run) const;
  const std::string& folder() const { return owner_.folder; }

  // `run` begins here or, unless it begins `anew`, continues. Everything that is not a whole
  // checkpoint of it (with `anew`, everything) moves to FOLDER.DATE, or FOLDER.DATE.2 and so on if
  // that exists. Returns a sentence for the log, empty if nothing was moved. kCannotWrite: it could
  // not be moved, and is still here.
  Result<std::string> Begin(
      uint64_t run, bool anew,
      std::chrono::system_clock::time_point now = std::chrono::system_clock::now());
  // Writes a checkpoint, unless it exists, and removes those that are then too old. A shard's own
  // may become one of all. kCannotWrite with the system's message (a full disk, a read-only
  // folder); then the older ones are kept.
  Status Write(const Point& point, Kind kind, const std::vector<tensors::TensorView>& tensors,
               const tensors::Metadata& metadata);
  // Checked once more. kBadData: it is gone or not whole.
  Result<tensors::TensorFile> Read(const Point& point) const;
  // Its run goes on from `point`: removes those of that run that came after it.
  void RemoveAfter(const Point& point);

 private:
  std::string PathOf(uint64_t step, const char* ending) const;
  std::string RecordPath() const { return owner_.folder + "/run.json"; }
  pb::Manifest Expected() const;
  // Whole, of whomever.
  Result<pb::Manifest> ReadManifest(uint64_t step) const;
  void ReadRecord();
  Status WriteRecord(uint64_t run);
  // The bytes of the state, as the manifest has them.
  Result<std::string> ReadState(const pb::Manifest& manifest) const;
  Status WriteManifest(pb::Manifest manifest) const;
  void RemoveOldest(Kind kind);
  void Remove(uint64_t step);
  Status MoveTo(const std::string& folder, const std::vector<uint64_t>& steps) const;
  std::vector<uint64_t> StepsHere() const;

  const Owner owner_;
  const Keep keep_;
  Storage& storage_;
  std::vector<Point> points_;
  std::set<uint64_t> shard_only_;  // of their steps
  std::vector<Refused> refused_;
  uint64_t began_ = 0;
  uint64_t record_run_ = 0;  // of run.json, whosever
  std::string job_text_;     // ... and its job
};

}  // namespace tern::checkpoint
