#include "client/train/checkpoints.h"

#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/checkpoint/saved.h"
#include "setup/saved.h"

namespace tern::client {

Checkpoints::Checkpoints(const setup::Setup& setup, uint32_t rank, const std::string& output_dir)
    : setup_(setup),
      store_(setup::CheckpointOwner(setup, output_dir, Cat("worker.", rank)),
             {.of_all = every() == 0 ? 0 : setup.job.checkpoints().keep()}) {
  for (const std::string& sentence : store_.Open()) LOG(WARNING) << sentence;
}

std::vector<pb::Checkpoint> Checkpoints::Offers() const {
  if (!begun_ && !setup_.job.checkpoints().resume()) return {};
  return setup::OffersOf(store_);
}

protocol::Saved Checkpoints::Saved() const {
  return setup_.job.checkpoints().resume() ? setup::FindSaved(setup_, store_) : protocol::Saved();
}

std::optional<pb::Checkpoint> Checkpoints::NewestOf(uint64_t run) const {
  std::optional<pb::Checkpoint> newest;
  for (const pb::Checkpoint& one : Offers()) {  // in ascending order
    if (one.run() == run) newest = one;
  }
  return newest;
}

Status Checkpoints::Begin(uint64_t run, uint64_t step) {
  const Result<std::string> aside = store_.Begin(run, step == 0);
  if (!aside.ok()) return aside.status();
  if (!aside->empty()) LOG(WARNING) << *aside;
  run_ = run;
  begun_ = true;
  store_.RemoveAfter({run, step, 0});
  return Ok();
}

Status Checkpoints::Write(uint64_t step, uint64_t round, ReplicaState& state,
                          const SavedState& extra) {
  std::vector<tensors::TensorView> tensors = state.Views();
  tensors::Metadata metadata{{"job", setup_.job.name()}, {"format", "pt"}};
  checkpoint::AddSaved(extra, &tensors, &metadata);
  Status written = store_.Write({run_, step, round}, checkpoint::Kind::kOfAll, tensors, metadata);
  if (written.ok()) {
    LOG(INFO) << "wrote the checkpoint of step " << step << " to " << store_.folder();
  } else {
    LOG(ERROR) << "cannot write the checkpoint of step " << step << ": " << written.message();
  }
  return written;
}

Result<tensors::TensorFile> Checkpoints::Read(const pb::Checkpoint& checkpoint) const {
  return store_.Read({checkpoint.run(), checkpoint.step(), checkpoint.round()});
}

}  // namespace tern::client
