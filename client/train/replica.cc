#include "client/train/replica.h"

#include <algorithm>
#include <utility>

#include "client/train/host_arenas.h"
#include "common/algorithm/facts.h"
#include "common/base/hash.h"
#include "setup/first_weights.h"

namespace tern::client {
namespace {

// Where the ranges of the model end whose state of the optimizer begins apart.
std::vector<size_t> RangeEndsOf(const setup::Setup& setup, const update::Optimizer& optimizer) {
  if (algorithm::FactsOf(setup.job).num_parts == 0 || !optimizer.counts_updates())
    return {setup.table.total};
  std::vector<size_t> ends;
  for (const protocol::Bucket& part : setup.plan.buckets) ends.push_back(part.begin + part.count);
  std::sort(ends.begin(), ends.end());
  return ends;
}

}  // namespace

Result<std::unique_ptr<Replica>> Replica::Make(const setup::Setup& setup) {
  std::unique_ptr<Replica> replica(new Replica(setup));
  auto optimizer =
      update::MakeOptimizer(setup.job.train().optimizer(), replica->parameters_.size());
  if (!optimizer.ok()) return optimizer.status();
  replica->optimizer_ = std::move(*optimizer);
  replica->state_begins_ =
      std::make_unique<update::StateBegins>(RangeEndsOf(setup, *replica->optimizer_));
  const algorithm::Facts facts = algorithm::FactsOf(setup.job);
  if (facts.outer_optimizer != nullptr) {
    auto outer = update::MakeOuterOptimizer(*facts.outer_optimizer, replica->parameters_.size());
    if (!outer.ok()) return outer.status();
    replica->outer_optimizer_ = std::move(*outer);
  }
  replica->arenas_ = std::make_unique<HostArenas>(setup, replica->host_values());
  return replica;
}

Replica::Replica(const setup::Setup& setup) : setup_(setup), gradients_(setup.table.total) {
  if (setup::IsClientJob(setup.job)) return;
  parameters_ = Floats(setup.table.total);
  models::Weights first_weights = setup::FirstWeights(setup);
  std::copy(first_weights.parameters.begin(), first_weights.parameters.end(), parameters_.begin());
  frozen_ = std::move(first_weights.frozen);
  statistics_ = std::move(first_weights.statistics);
  mean_statistics_ = statistics_;
  const algorithm::Facts facts = algorithm::FactsOf(setup.job);
  if (facts.has_own_point) point_ = parameters_;
  if (facts.has_average) average_ = parameters_;
}

HostValues Replica::host_values() {
  return {parameters(),     point(),
          gradients(),      average_.empty() ? nullptr : average_.data(),
          optimizer_.get(), state_begins_.get()};
}

Status Replica::MoveTo(std::unique_ptr<Arenas> arenas) {
  arenas_ = std::move(arenas);
  return CopyFromHost();
}

void Replica::UpdateMovingAverage(size_t first, size_t count, uint64_t update) {
  UpdateAverage(setup_, parameters_.data(), first, count, update, average_.data());
}

void Replica::ResetOptimizer() {
  for (const update::Optimizer::StateArray& slot : optimizer_->StateArrays())
    std::fill(slot.values.begin(), slot.values.end(), 0.f);
  state_begins_->Reset();
}

void Replica::ResetOptimizer(uint64_t first, uint64_t n) {
  for (const update::Optimizer::StateArray& slot : optimizer_->StateArrays())
    std::fill_n(slot.values.begin() + static_cast<ptrdiff_t>(first), n, 0.f);
  if (optimizer_->counts_updates()) state_begins_->Reset(first);
}

uint64_t Replica::Hash() const {
  return Digest(std::span(reinterpret_cast<const uint8_t*>(parameters_.data()),
                          parameters_.size() * sizeof(float)));
}

}  // namespace tern::client
