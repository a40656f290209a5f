#include "worker/train/checkpoints.h"

#include <algorithm>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/checkpoint/saved.h"

namespace tern::train {

Checkpoints::Checkpoints(const setup::Setup& setup, uint32_t rank, const std::string& output_dir)
    : setup_(setup),
      store_(setup::CheckpointOwner(setup, output_dir, Cat("worker.", rank)),
             setup.job.checkpoints().keep()) {
  for (const std::string& sentence : store_.Open()) LOG(WARNING) << sentence;
}

std::vector<pb::Checkpoint> Checkpoints::Offers() const {
  std::vector<pb::Checkpoint> offers;
  if (!begun_ && !setup_.job.checkpoints().resume()) return offers;
  for (const checkpoint::Point& point : store_.points()) {
    pb::Checkpoint& offer = offers.emplace_back();
    offer.set_run(point.run);
    offer.set_step(point.step);
    offer.set_round(point.round);
  }
  return offers;
}

std::optional<pb::Checkpoint> Checkpoints::NewestOf(uint64_t run) const {
  std::optional<pb::Checkpoint> newest;
  for (const pb::Checkpoint& one : Offers()) {  // rising
    if (one.run() == run) newest = one;
  }
  return newest;
}

void Checkpoints::Begin(uint64_t run, uint64_t step) {
  run_ = run;
  begun_ = true;
  const auto& points = store_.points();
  const bool of_others = std::any_of(points.begin(), points.end(),
                                     [run](const auto& point) { return point.run != run; });
  if (step != 0 && !of_others) return store_.RemoveAfter({run, step, 0});
  if (store_.SetAside()) {
    LOG(WARNING) << "the checkpoints of another run are put aside: they are in " << store_.folder()
                 << ".before";
  }
}

Status Checkpoints::Write(uint64_t step, uint64_t round, Replica& replica, const SavedState& also) {
  std::vector<models::TensorView> tensors = replica.Views();
  models::Metadata metadata{{"job", setup_.job.name()}, {"format", "pt"}};
  checkpoint::AddSaved(also, &tensors, &metadata);
  Status written = store_.Write({run_, step, round}, tensors, metadata);
  if (written.ok()) {
    LOG(INFO) << "checkpoint of step " << step << " in " << store_.folder();
  } else {
    LOG(ERROR) << "no checkpoint of step " << step << ": " << written.message();
  }
  return written;
}

Result<models::TensorFile> Checkpoints::Read(const pb::Checkpoint& checkpoint) const {
  return store_.Read({checkpoint.run(), checkpoint.step(), checkpoint.round()});
}

}  // namespace tern::train
