#include "client/train/checkpoints.h"

#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/checkpoint/saved.h"
#include "setup/saved.h"

namespace tern::client {

DiskCheckpoints::DiskCheckpoints(const setup::Setup& setup, uint32_t rank,
                                 const std::string& output_dir)
    : DiskCheckpoints(setup, setup::CheckpointOwner(setup, output_dir, Cat("worker.", rank)),
                      Disk()) {}

DiskCheckpoints::DiskCheckpoints(const setup::Setup& setup, checkpoint::Owner owner,
                                 Storage& storage)
    : setup_(setup),
      store_(std::move(owner), {.num_of_all = setup::NumCheckpointsToKeep(setup)}, storage) {
  for (const std::string& warning : store_.Open()) LOG(WARNING) << warning;
}

std::vector<pb::Checkpoint> DiskCheckpoints::Offers() const {
  if (!has_begun_ && !setup_.job.checkpoints().resume()) return {};
  return setup::OffersOf(store_);
}

protocol::SavedCheckpoints DiskCheckpoints::FindSavedCheckpoints() const {
  if (setup_.job.checkpoints().resume()) return setup::FindSaved(setup_, store_);
  protocol::SavedCheckpoints saved;
  saved.shard_checkpoints = setup::OffersOf(store_);
  return saved;
}

std::optional<pb::Checkpoint> DiskCheckpoints::NewestOfRun(uint64_t run) const {
  std::optional<pb::Checkpoint> newest;
  for (const pb::Checkpoint& checkpoint : setup::OffersOf(store_)) {  // The steps ascend.
    if (checkpoint.run() == run) newest = checkpoint;
  }
  return newest;
}

Status DiskCheckpoints::Begin(uint64_t run, uint64_t step, bool has_past) {
  const std::string changes = setup::ChangesAtResume(setup_, store_, run);
  if (step != 0 && has_past && !changes.empty())
    LOG(WARNING) << "the job goes on with other settings: " << changes;
  Result<std::string> move_report = store_.Begin(run, step == 0 || !has_past);
  if (!move_report.ok()) return move_report.status();
  if (!move_report->empty()) LOG(WARNING) << *move_report;
  run_ = run;
  has_begun_ = true;
  move_report = store_.RemoveAfter({run, step, 0});
  if (move_report.ok() && !move_report->empty()) LOG(WARNING) << *move_report;
  return move_report.status();
}

Status DiskCheckpoints::Write(uint64_t step, uint64_t round,
                              std::vector<tensors::TensorView> tensors, const SavedState& extra,
                              uint64_t weights_hash) {
  tensors::Metadata metadata{{"job", setup_.job.name()}, {"format", "pt"}};
  checkpoint::AddSavedState(extra, &tensors, &metadata);
  Status write_status =
      store_.Write({run_, step, round, weights_hash}, checkpoint::Kind::kOfAll, tensors, metadata);
  if (write_status.ok()) {
    LOG(INFO) << "wrote the checkpoint of step " << step << " to " << store_.folder();
  } else {
    LOG(ERROR) << "cannot write the checkpoint of step " << step << ": " << write_status.message();
  }
  return write_status;
}

Result<tensors::TensorFile> DiskCheckpoints::Read(const pb::Checkpoint& checkpoint) const {
  return store_.Read({checkpoint.run(), checkpoint.step(), checkpoint.round()});
}

}  // namespace tern::client
