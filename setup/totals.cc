#include "setup/totals.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace tern::setup {

namespace {

// The types of messages that belong to training rounds.
const std::set<std::string> kRoundTypes = {"scale", "push", "scaled", "sum"};

}  // namespace

WorkerTraffic TrafficOf(const pb::Counters& counters) {
  WorkerTraffic traffic;
  for (const pb::Traffic& row : counters.traffic()) {
    traffic.all_up_bytes += row.bytes_out();
    traffic.all_down_bytes += row.bytes_in();
    if (!kRoundTypes.contains(row.type())) continue;
    traffic.up_bytes += row.bytes_out();
    traffic.down_bytes += row.bytes_in();
  }
  return traffic;
}

double RatioToFp32(uint64_t parameters, uint64_t rounds, uint64_t bytes) {
  if (bytes == 0) return 0;
  return 4.0 * static_cast<double>(parameters) * static_cast<double>(rounds) /
         static_cast<double>(bytes);
}

size_t CountPresent(const std::vector<WorkerStatus>& workers) {
  return static_cast<size_t>(
      std::count_if(workers.begin(), workers.end(),
                    [](const WorkerStatus& worker) { return worker.is_present; }));
}

Totals TotalsOf(const std::vector<WorkerStatus>& workers) {
  Totals totals;
  const size_t num_present = CountPresent(workers);
  const auto num_counted = static_cast<double>(num_present == 0 ? workers.size() : num_present);
  double losses = 0, num_losses = 0, samples = 0, num_training = 0;
  for (const WorkerStatus& worker : workers) {
    const pb::Counters& counters = worker.counters;
    totals.rounds += counters.rounds();
    totals.samples += counters.samples();
    totals.refusals += counters.refusals();
    totals.failed_checkpoints += counters.failed_checkpoints();
    const WorkerTraffic traffic = TrafficOf(counters);
    totals.traffic.up_bytes += traffic.up_bytes;
    totals.traffic.down_bytes += traffic.down_bytes;
    totals.traffic.all_up_bytes += traffic.all_up_bytes;
    totals.traffic.all_down_bytes += traffic.all_down_bytes;
    if (num_present != 0 && !worker.is_present) continue;
    samples += static_cast<double>(counters.samples());
    if (counters.train_s() > 0) ++num_training;
    totals.evaluated += counters.evaluated();
    totals.to_evaluate += counters.to_evaluate();
    totals.compute_s += counters.compute_s() / num_counted;
    totals.encode_s += counters.encode_s() / num_counted;
    totals.decode_s += counters.decode_s() / num_counted;
    totals.data_s += counters.data_s() / num_counted;
    totals.checkpoint_s += counters.checkpoint_s() / num_counted;
    totals.train_s += counters.train_s() / num_counted;
    totals.communication_s +=
        CommunicationOf(counters.train_s(), counters.compute_s(), counters.decode_s(),
                        counters.data_s(), counters.wait_s()) /
        num_counted;
    if (counters.steps() == 0) continue;
    losses += counters.loss();
    ++num_losses;
  }
  if (totals.train_s > 0)
    totals.samples_per_s = samples * num_training / (totals.train_s * num_counted);
  if (num_losses > 0) totals.loss = losses / num_losses;
  return totals;
}

double CommunicationOf(double train_s, double compute_s, double decode_s, double data_s,
                       double wait_s) {
  return std::min(wait_s, std::max(0.0, train_s - compute_s - decode_s - data_s));
}

pb::Counters CountersSince(const pb::Counters& before, const pb::Counters& now) {
  pb::Counters since = now;
  if (now.train_s() < before.train_s() || now.rounds() < before.rounds() ||
      now.samples() < before.samples())
    return since;
  since.set_rounds(now.rounds() - before.rounds());
  since.set_samples(now.samples() - before.samples());
  since.set_train_s(now.train_s() - before.train_s());
  since.set_compute_s(now.compute_s() - before.compute_s());
  since.set_encode_s(now.encode_s() - before.encode_s());
  since.set_decode_s(now.decode_s() - before.decode_s());
  since.set_data_s(now.data_s() - before.data_s());
  since.set_wait_s(now.wait_s() - before.wait_s());
  since.set_checkpoint_s(now.checkpoint_s() - before.checkpoint_s());
  std::map<std::string, const pb::Traffic*> rows_before;
  for (const pb::Traffic& row : before.traffic()) rows_before[row.type()] = &row;
  for (pb::Traffic& row : *since.mutable_traffic()) {
    const auto found = rows_before.find(row.type());
    if (found == rows_before.end()) continue;
    row.set_bytes_in(row.bytes_in() - std::min(row.bytes_in(), found->second->bytes_in()));
    row.set_bytes_out(row.bytes_out() - std::min(row.bytes_out(), found->second->bytes_out()));
  }
  return since;
}

}  // namespace tern::setup
