#include "setup/advice.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "common/algorithm/facts.h"
#include "common/base/text.h"
#include "common/config/address.h"

namespace tern::setup {

namespace {

constexpr double kMinTrainSeconds = 1;
constexpr uint64_t kMinSteps = 10;
constexpr size_t kMaxSentences = 2;
// From these shares of the time on, something is worth a sentence.
constexpr double kMuchWaiting = 0.3, kMuchComputing = 0.85, kSomeComputing = 0.3;
constexpr double kManyCheckpoints = 0.1, kSlowData = 0.2;
// From these ratios on.
constexpr double kThreadsPerCpu = 1.5, kSlowFactor = 1.5;
constexpr const char* kSmallestCodec = "ternary_ans";
// From this up_ratio on, kSmallestCodec would not send less (topk may send a thousandth).
constexpr double kSmallestRatio = 20;

using Sentence = std::optional<std::string>;

std::string Percent(double share) { return FormatWith("%.0f %%", 100 * share); }
std::string Milliseconds(double seconds) { return FormatWith("%.1f ms", 1000 * seconds); }

bool HasTooManyThreads(uint32_t threads, uint32_t cpus) {
  return cpus > 0 && threads > kThreadsPerCpu * cpus;
}

Sentence OversubscribedWorker(const AdviceFacts& facts) {
  const AdviceFacts::Worker* worst = nullptr;
  for (const AdviceFacts::Worker& worker : facts.workers) {
    if (!HasTooManyThreads(worker.compute_threads, worker.cpus)) continue;
    if (worst == nullptr ||
        worker.compute_threads * worst->cpus > worst->compute_threads * worker.cpus)
      worst = &worker;
  }
  if (worst == nullptr) return std::nullopt;
  return Cat("the CPUs are oversubscribed: worker ", worst->rank, " computes with ",
             worst->compute_threads, " threads on ", worst->cpus,
             worst->cpus == 1 ? " CPU" : " CPUs", "; workers.threads should not be larger");
}

Sentence OversubscribedMachine(const AdviceFacts& facts) {
  struct Machine {
    uint32_t workers = 0, threads = 0, cpus = 0;
  };
  std::map<uint64_t, Machine> machines;
  for (const AdviceFacts::Worker& worker : facts.workers) {
    Machine& machine = machines[worker.machine];
    ++machine.workers;
    machine.threads += worker.compute_threads;
    machine.cpus = worker.machine_cpus;
  }
  for (const auto& [id, machine] : machines) {
    if (machine.workers < 2 || !HasTooManyThreads(machine.threads, machine.cpus)) continue;
    return Cat("the CPUs are oversubscribed: ", machine.workers, " workers on one machine with ",
               machine.cpus, machine.cpus == 1 ? " CPU" : " CPUs", " compute with ",
               machine.threads, " threads; fewer workers or threads would be faster");
  }
  return std::nullopt;
}

Sentence Oversubscribed(const AdviceFacts& facts) {
  if (facts.totals.ShareOf(facts.totals.compute_s) < kSomeComputing) return std::nullopt;
  Sentence sentence = OversubscribedWorker(facts);
  return sentence.has_value() ? sentence : OversubscribedMachine(facts);
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Sentence SlowWorker(const AdviceFacts& facts) {
  std::vector<std::pair<double, uint32_t>> step_times;  // and ranks
  for (const AdviceFacts::Worker& worker : facts.workers) {
    if (worker.steps >= kMinSteps && worker.compute_s > 0)
      step_times.emplace_back(worker.compute_s / static_cast<double>(worker.steps), worker.rank);
  }
  if (step_times.size() < 2) return std::nullopt;
  const auto slowest = std::max_element(step_times.begin(), step_times.end());
  const auto [slowest_s, rank] = *slowest;
  step_times.erase(slowest);
  std::vector<double> others_s;
  for (const auto& [step_s, other_rank] : step_times) others_s.push_back(step_s);
  const double median_s = MedianOf(others_s);
  if (slowest_s < kSlowFactor * median_s) return std::nullopt;
  return Cat("worker ", rank, " takes ", FormatFixed(slowest_s / median_s, 1),
             " times as long for a step as ",
             others_s.size() == 1 ? "the other one" : "the median of the others", " (",
             Milliseconds(slowest_s), ", not ", Milliseconds(median_s), ")",
             facts.waits_for_all_workers ? ", and all wait for it" : "");
}

Sentence Checkpoints(const AdviceFacts& facts) {
  const Totals& totals = facts.totals;
  const double share = totals.checkpoint_s / (totals.train_s + totals.checkpoint_s);
  if (share < kManyCheckpoints) return std::nullopt;
  return "writing checkpoints took " + Percent(share) +
         " of the time: a larger checkpoints.every_steps or a faster disk would help";
}

Sentence SlowData(const AdviceFacts& facts) {
  const double share = facts.totals.ShareOf(facts.totals.data_s);
  if (share < kSlowData) return std::nullopt;
  return Percent(share) +
         " of the training time was waiting for samples: more data.threads or packed data (tern "
         "convert pack) would help";
}

Sentence SlowLinks(const AdviceFacts& facts) {
  const Totals& totals = facts.totals;
  const double share = totals.ShareOf(totals.communication_s);
  if (!facts.uses_network || share < kMuchWaiting) return std::nullopt;
  const double waiting_s =
      totals.communication_s * static_cast<double>(facts.workers.size());  // of all workers
  const auto bytes = static_cast<double>(totals.traffic.up_bytes + totals.traffic.down_bytes);
  std::vector<std::string> remedies;
  if (facts.pushes_gradients && facts.codec != kSmallestCodec && facts.up_ratio < kSmallestRatio)
    remedies.push_back(Cat("a smaller codec (exchange.codec: ", kSmallestCodec, ")"));
  if (facts.num_servers < facts.workers.size())
    remedies.push_back(facts.num_servers == 1 ? "a second server shard on a host of its own"
                                              : "another server shard on a host of its own");
  if (remedies.empty()) remedies.emplace_back("a larger train.batch_total");
  return Cat(Percent(share),
             " of the training time was waiting for sums, while a worker exchanged ",
             HumanBytes(static_cast<uint64_t>(bytes / waiting_s)),
             " a second: ", Join(remedies, " or "), " would help");
}

Sentence MuchComputing(const AdviceFacts& facts) {
  const double share = facts.totals.ShareOf(facts.totals.compute_s);
  if (share < kMuchComputing) return std::nullopt;
  return "computing took " + Percent(share) +
         " of the training time: more or faster workers would help, a smaller codec would not";
}

}  // namespace

AdviceFacts AdviceFactsOf(const Setup& setup, const std::vector<WorkerStatus>& workers) {
  AdviceFacts facts;
  facts.totals = TotalsOf(workers);
  for (const WorkerStatus& worker : workers) {
    if (!worker.is_present) continue;
    const pb::Counters& counters = worker.counters;
    facts.workers.push_back({worker.rank, counters.steps(), counters.compute_s(),
                             counters.compute_threads(), counters.cpus(), counters.machine_cpus(),
                             counters.machine()});
  }
  facts.codec = setup.job.exchange().codec();
  facts.up_ratio =
      RatioToFp32(setup.table.total, facts.totals.rounds, facts.totals.traffic.up_bytes);
  facts.num_servers = static_cast<uint32_t>(setup.job.servers_size());
  const algorithm::Facts algorithm_facts = algorithm::FactsOf(setup.job);
  facts.pushes_gradients = algorithm_facts.pushed_quantity == pb::AlgorithmTraits::gradient;
  facts.waits_for_all_workers =
      algorithm_facts.has_rounds && algorithm_facts.num_backup_workers == 0;
  facts.uses_network =
      std::any_of(setup.job.servers().begin(), setup.job.servers().end(), [](const auto& server) {
        const std::optional<config::Address> address = config::ParseAddress(server.address());
        return address.has_value() && !config::IsLoopback(address->host);
      });
  return facts;
}

std::vector<std::string> AdviseOn(const AdviceFacts& facts) {
  const Totals& totals = facts.totals;
  if (facts.workers.empty() || totals.train_s < kMinTrainSeconds ||
      totals.rounds < kMinSteps * facts.workers.size())
    return {};
  std::vector<std::string> sentences;
  const auto add = [&sentences](Sentence sentence) {
    if (sentence.has_value() && sentences.size() < kMaxSentences)
      sentences.push_back(*std::move(sentence));
  };
  add(Oversubscribed(facts));
  add(SlowWorker(facts));
  const bool explains_waiting = !sentences.empty();
  add(Checkpoints(facts));
  add(SlowData(facts));
  if (!explains_waiting) add(SlowLinks(facts));
  if (sentences.empty()) add(MuchComputing(facts));
  return sentences;
}

}  // namespace tern::setup
