// The checkpoints of one daemon (a worker, or a data lane of a server shard), in a folder of its
// own on that daemon's disk:
//
//   FOLDER/step.STEP.safetensors   all that it needs to go on after that step
//   FOLDER/step.STEP.json          the manifest (proto/checkpoint.proto): whose, of which run, the
//                                  digest of the other file. Written last: a checkpoint is whole
//                                  once it is there
//
// Both are written under other names, flushed and renamed (common/base/atomic_file.h), and removed
// in the other order, so that the newest whole one stays whatever dies when. Belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "models/safetensors.h"
#include "proto/checkpoint.pb.h"

namespace tern::checkpoint {

// Of which run of the job, after which step and round. Two daemons' with equal ones go together.
struct Point {
  uint64_t run = 0;
  uint64_t step = 0;
  uint64_t round = 0;
  friend bool operator==(const Point&, const Point&) = default;
};

// Whose checkpoints: those of others are not used.
struct Owner {
  std::string folder;
  std::string name;  // "worker.0"
  uint32_t workers = 0;
  uint64_t job_digest = 0;  // config::StateDigest
  uint64_t model_digest = 0;
  uint64_t plan_digest = 0;
};

class Store {
 public:
  // The newest `keep` stay, at least 2.
  Store(Owner owner, uint32_t keep);

  // Looks through the folder: removes what was half written, checks every checkpoint, byte for
  // byte. A sentence for each that is not used, and why. Nothing is an error: no folder, no
  // checkpoints.
  std::vector<std::string> Open();
  // Those that are whole and ours, by step, rising.
  const std::vector<Point>& points() const { return points_; }
  const std::string& folder() const { return owner_.folder; }

  // Writes one, unless it is there already, and removes those that are too old then. kCannotWrite
  // says what the system says (a full disk, a folder that may not be written); those before are
  // still there then.
  Status Write(const Point& point, const std::vector<models::TensorView>& tensors,
               const models::Metadata& metadata);
  // Checked once more. kBadData: it is gone or not whole.
  Result<models::TensorFile> Read(const Point& point) const;
  // Of a job that goes on from `point`: what came after it is of another past.
  void RemoveAfter(const Point& point);
  // Of a job that begins anew: puts all that is here, of whomever, into FOLDER.before, in place of
  // what was there. Whether there was anything.
  bool SetAside();

 private:
  std::string PathOf(uint64_t step, const char* ending) const;
  pb::Manifest Expected() const;
  Result<pb::Manifest> ReadManifest(uint64_t step) const;
  // The bytes of the state, as the manifest has them.
  Result<std::string> ReadState(const pb::Manifest& manifest) const;
  void Remove(uint64_t step);
  std::vector<uint64_t> StepsHere() const;

  const Owner owner_;
  const uint32_t keep_;
  std::vector<Point> points_;
};

}  // namespace tern::checkpoint
