#include "client/train/local_point.h"

#include "common/algorithm/facts.h"
#include "common/algorithm/ranks.h"
#include "common/base/logging.h"
#include "setup/tensor_rates.h"

namespace tern::client {
namespace {

const pb::LocalUpdater& LocalUpdaterSettings(const pb::Job& job) {
  const pb::LocalUpdater* settings = algorithm::FactsOf(job).local_updater;
  CHECK(settings != nullptr) << "the algorithm " << job.train().algorithm()
                             << " has no local updater";
  return *settings;
}

std::unique_ptr<update::LocalUpdater> MakeUpdater(const pb::Job& job, size_t elements) {
  auto updater =
      update::MakeLocalUpdater(LocalUpdaterSettings(job), elements, algorithm::NumRanks(job));
  // The setup has checked that the updater can be made.
  CHECK(updater.ok()) << updater.status().message();
  return std::move(*updater);
}

}  // namespace

LocalValues::LocalValues(const pb::Job& job, size_t elements)
    : updater(MakeUpdater(job, elements)),
      reference_weights(
          LocalUpdaterSettings(job).reference() == pb::LocalUpdater::prev_global ? elements : 0) {}

LocalPoint::LocalPoint(const setup::Setup& setup, Replica& replica)
    : arenas_(replica.arenas()),
      local_values_(setup.job, setup.table.total),
      rates_(setup::UpdateRatesOf(setup.job, setup.table, false).of_tensor) {}

Status LocalPoint::Begin() {
  TERN_RETURN_IF_ERROR(CopyFromHost());  // a device may still have the state of a previous start
  TERN_RETURN_IF_ERROR(ResetToGlobal());
  return SaveReference();
}

void LocalPoint::AddState(SavedState* state) {
  if (!local_values_.reference_weights.empty())
    state->arrays.push_back({"local.before", local_values_.reference_weights});
  for (const update::Optimizer::StateArray& slot : local_values_.updater->StateArrays())
    state->arrays.push_back({"local." + slot.name, slot.values});
}

}  // namespace tern::client
