#include "tests/sim/worker_disk.h"

#include <algorithm>
#include <utility>

namespace tern::sim {

std::string WorkerDisk::Strike(const Fault& fault, bool is_target, const setup::Setup& job,
                               const checkpoint::Owner& owner, const Chooser& chooser) {
  if (is_target && fault.for_good) {
    storage_ = MemoryStorage();
    saved_ = {};
    was_struck_ = true;
    gap = 0;
    return "";
  }
  const bool loses_power = chooser(2) == 0, is_torn = is_target && fault.hold;
  if (!loses_power && !is_torn) return "";
  if (loses_power) storage_.RestartMachine(chooser);
  if (is_torn) storage_.TearRecentFile(chooser(2));
  const protocol::SavedCheckpoints before =
      std::exchange(saved_, OpenFor(job, owner).FindSavedCheckpoints());
  const auto is_lost = [&](const pb::Checkpoint& checkpoint) {
    return std::none_of(
        saved_.checkpoints.begin(), saved_.checkpoints.end(),
        [&](const auto& other) { return protocol::KeyOf(other) == protocol::KeyOf(checkpoint); });
  };
  const auto num_lost =
      std::count_if(before.checkpoints.begin(), before.checkpoints.end(), is_lost);
  const bool lost_record = saved_.prepared_run != before.prepared_run;
  was_struck_ |= num_lost != 0 || lost_record;
  if (num_lost + (lost_record ? 1 : 0) <= (is_torn ? 1 : 0)) return "";
  return std::to_string(num_lost) + " checkpoints" +
         (lost_record ? " and the record of the run" : "") + " are lost";
}

}  // namespace tern::sim
