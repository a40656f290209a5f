#include "client/train/local_point.h"

#include <algorithm>

#include "client/train/gradient.h"
#include "common/algorithm/facts.h"
#include "common/base/logging.h"

namespace tern::client {
namespace {

using Local = device::DeviceModel::Local;

// Of the updater's state.
Local ArenaOf(const update::Optimizer::Slot& slot) {
  return slot.name == "local_momentum" ? Local::kVelocity : Local::kMeanSquare;
}

const pb::LocalUpdater& LocalOf(const pb::Job& job) {
  const pb::LocalUpdater* local = algorithm::FactsOf(job).local;
  CHECK(local != nullptr) << "the algorithm " << job.train().algorithm() << " has no local updater";
  return *local;
}

bool LooksBack(const pb::Job& job) {
  return LocalOf(job).reference() == pb::LocalUpdater::prev_global;
}

std::unique_ptr<update::LocalUpdater> UpdaterOf(const pb::Job& job, size_t parameters) {
  auto made = update::MakeLocalUpdater(LocalOf(job), parameters, job.workers().count());
  CHECK(made.ok()) << made.status().message();  // the setup made one before
  return std::move(*made);
}

}  // namespace

std::vector<Local> LocalPoint::Arenas(const pb::Job& job) {
  std::vector<Local> arenas = {Local::kPoint};
  if (LooksBack(job)) arenas.push_back(Local::kBefore);
  for (const update::Optimizer::Slot& slot : UpdaterOf(job, 1)->Slots())
    arenas.push_back(ArenaOf(slot));
  return arenas;
}

LocalPoint::LocalPoint(const setup::Setup& setup, Replica& replica)
    : setup_(setup),
      replica_(replica),
      before_(LooksBack(setup.job) ? setup.table.total : 0),
      updater_(UpdaterOf(setup.job, setup.table.total)) {
  if (replica.device() == nullptr) {
    for (std::vector<float>& kept : kept_) kept.resize(setup.table.total);
  }
  for (uint32_t t = 0; t < setup.table.parameters.size(); ++t)
    decay_.push_back(DecayOf(setup, t, pb::WeightDecay::local));
}

Status LocalPoint::Begin() {
  TERN_RETURN_IF_ERROR(Send());  // a device still has that of another beginning
  TERN_RETURN_IF_ERROR(StandAtW());
  return LeaveW();
}

Status LocalPoint::StandAtW() {
  if (replica_.device() != nullptr) return replica_.UseDevice().CopyWeights(Local::kPoint);
  std::copy_n(replica_.parameters(), setup_.table.total, replica_.point());
  return Ok();
}

Status LocalPoint::LeaveW() {
  if (before_.empty()) return Ok();
  if (replica_.device() != nullptr) return replica_.UseDevice().CopyWeights(Local::kBefore);
  std::copy_n(replica_.parameters(), before_.size(), before_.data());
  return Ok();
}

Result<const float*> LocalPoint::Keep(uint64_t round, uint32_t bucket) {
  if (device::DeviceModel* device = replica_.device(); device != nullptr) {
    TERN_RETURN_IF_ERROR(device->KeepGradients(round, bucket));
    return static_cast<const float*>(replica_.gradients());
  }
  const protocol::Bucket& of = setup_.plan.buckets[bucket];
  std::vector<float>& kept = kept_[round % 2];
  std::copy_n(replica_.gradients() + of.begin, of.count, kept.data() + of.begin);
  return static_cast<const float*>(kept.data());
}

Status LocalPoint::Move(float learning_rate) {
  if (replica_.device() != nullptr)
    return replica_.UseDevice().MoveLocally(updater_->NumbersOf(learning_rate), decay_);
  float* point = replica_.point();
  const float* reference = before_.empty() ? point : before_.data();
  for (uint32_t t = 0; t < decay_.size(); ++t) {
    const uint64_t first = setup_.plan.tensor_begin[t];
    updater_->Next(replica_.parameters() + first, replica_.gradients() + first, reference + first,
                   learning_rate, point + first, setup_.plan.tensor_count[t], first, decay_[t]);
  }
  return Ok();
}

std::vector<LocalPoint::Arena> LocalPoint::StateHere() {
  std::vector<Arena> state = {{Local::kPoint, replica_.point()}};
  if (!before_.empty()) state.push_back({Local::kBefore, before_.data()});
  for (const update::Optimizer::Slot& slot : updater_->Slots())
    state.push_back({ArenaOf(slot), slot.values.data()});
  return state;
}

Status LocalPoint::Bring() {
  if (replica_.device() == nullptr) return Ok();
  for (const Arena& arena : StateHere())
    TERN_RETURN_IF_ERROR(replica_.device()->BringLocal(arena.local, arena.here));
  return Ok();
}

Status LocalPoint::Send() {
  if (replica_.device() == nullptr) return Ok();
  for (const Arena& arena : StateHere())
    TERN_RETURN_IF_ERROR(replica_.device()->SendLocal(arena.local, arena.here));
  return Ok();
}

void LocalPoint::AddState(SavedState* state) {
  if (!before_.empty()) state->arrays.push_back({"local.before", before_});
  for (const update::Optimizer::Slot& slot : updater_->Slots())
    state->arrays.push_back({"local." + slot.name, slot.values});
}

}  // namespace tern::client
