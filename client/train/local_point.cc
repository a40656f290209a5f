#include "client/train/local_point.h"

#include "client/train/host_arenas.h"
#include "common/algorithm/facts.h"
#include "common/base/logging.h"

namespace tern::client {
namespace {

const pb::LocalUpdater& LocalOf(const pb::Job& job) {
  const pb::LocalUpdater* local = algorithm::FactsOf(job).local;
  CHECK(local != nullptr) << "the algorithm " << job.train().algorithm() << " has no local updater";
  return *local;
}

std::unique_ptr<update::LocalUpdater> UpdaterOf(const pb::Job& job, size_t elements) {
  auto made = update::MakeLocalUpdater(LocalOf(job), elements, job.workers().count());
  CHECK(made.ok()) << made.status().message();  // the setup has checked that it can be made
  return std::move(*made);
}

}  // namespace

LocalValues::LocalValues(const pb::Job& job, size_t elements)
    : updater(UpdaterOf(job, elements)),
      before(LocalOf(job).reference() == pb::LocalUpdater::prev_global ? elements : 0) {}

LocalPoint::LocalPoint(const setup::Setup& setup, Replica& replica)
    : arenas_(replica.arenas()),
      local_(setup.job, setup.table.total),
      decay_(DecaysOf(setup, pb::WeightDecay::local)) {}

Status LocalPoint::Begin() {
  TERN_RETURN_IF_ERROR(CopyFromHost());  // a device may have the state of a previous start
  TERN_RETURN_IF_ERROR(ResetToGlobal());
  return SaveReference();
}

void LocalPoint::AddState(SavedState* state) {
  if (!local_.before.empty()) state->arrays.push_back({"local.before", local_.before});
  for (const update::Optimizer::StateArray& slot : local_.updater->StateArrays())
    state->arrays.push_back({"local." + slot.name, slot.values});
}

}  // namespace tern::client
