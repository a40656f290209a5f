// tern check: says whether a job can run here; prints its data, its exchange plan and its memory.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "common/algorithm/algorithms.h"
#include "common/algorithm/facts.h"
#include "common/algorithm/ranks.h"
#include "common/base/text.h"
#include "common/config/address.h"
#include "common/update/optimizer.h"
#include "setup/first_weights.h"
#include "setup/setup.h"
#include "setup/tensor_rates.h"
#include "tools/check/check_data.h"
#include "tools/commands.h"
#include "tools/doctor/cores.h"
#include "tools/doctor/keys.h"
#include "tools/doctor/members.h"
#include "tools/doctor/ports.h"
#include "tools/forecast/sizes.h"
#include "tools/job_arguments.h"
#include "tools/memory.h"
#include "tools/table.h"
#include "worker/machine.h"

namespace tern::tools {
namespace {

// The weight decay of each tensor, wherever it is added.
std::vector<float> DecaysOf(const setup::Setup& setup) {
  const std::vector<float> in_gradient =
      setup::DecaysOf(setup.job, setup.table, pb::WeightDecay::in_gradient);
  return setup.job.train().weight_decay().where() == pb::WeightDecay::in_gradient
             ? in_gradient
             : setup::DecaysOf(setup.job, setup.table, pb::WeightDecay::local);
}

std::string RateText(const setup::UpdateRates& rates, size_t t) {
  const std::string factor = Cat(rates.of_tensor[t].rate_times, " x");
  const uint64_t last_step = rates.last_step[t];
  return last_step == setup::UpdateRates::kNever ? factor : Cat(factor, " to step ", last_step);
}

// Decays have a column only if a tensor has one, and so have rates if the job has rules for them.
void PrintParameters(const setup::Setup& setup) {
  std::printf("\nparameters: %s in %zu tensors\n", Cat(setup.table.total).c_str(),
              setup.table.parameters.size());
  const std::vector<float> decays = DecaysOf(setup);
  const setup::UpdateRates rates = setup::UpdateRatesOf(setup.job, setup.table, false);
  const bool has_decays = std::any_of(decays.begin(), decays.end(), [](float d) { return d != 0; });
  const bool has_factors = setup.job.train().schedule().rules_size() > 0;
  std::vector<TableRow> rows = {{"name", "shape", "count", "codec"}};
  if (has_decays) rows[0].push_back("weight decay");
  if (has_factors) rows[0].push_back("learning rate");
  for (size_t t = 0; t < setup.table.parameters.size(); ++t) {
    const models::Parameter& parameter = setup.table.parameters[t];
    std::vector<std::string> dimensions;
    for (const uint32_t dim : parameter.shape) dimensions.push_back(Cat(dim));
    rows.push_back({parameter.name, Join(dimensions, " x "), Cat(parameter.count),
                    std::string(setup.plan.codec_of[t]->name())});
    if (has_decays) rows.back().push_back(Cat(decays[t]));
    if (has_factors) rows.back().push_back(RateText(rates, t));
  }
  PrintTable(rows);
  if (setup.table.frozen.empty()) return;
  std::printf("\nfrozen: %s in %zu tensors, which are neither trained nor sent\n",
              Cat(setup.table.frozen_total).c_str(), setup.table.frozen.size());
  for (const models::Parameter& parameter : setup.table.frozen)
    std::printf("  %s\n", parameter.name.c_str());
}

void PrintBuckets(const setup::Setup& setup) {
  size_t num_chunks = 0;
  for (const protocol::Bucket& bucket : setup.plan.buckets) num_chunks += bucket.chunks.size();
  std::printf("\nexchange: %zu buckets, %zu chunks, in the order in which workers push them\n",
              setup.plan.buckets.size(), num_chunks);
  std::vector<TableRow> rows = {
      {"bucket", "tensors", "count", "shared scalers", "chunks", "servers"}};
  for (size_t b = 0; b < setup.plan.buckets.size(); ++b) {
    const protocol::Bucket& bucket = setup.plan.buckets[b];
    const std::string& first_name = setup.table.parameters[bucket.first_tensor].name;
    const std::string& last_name =
        setup.table.parameters[bucket.first_tensor + bucket.tensors - 1].name;
    std::vector<std::string> server_names;
    for (const protocol::Chunk& chunk : bucket.chunks) {
      const std::string server_name = Cat(chunk.shard);
      if (std::find(server_names.begin(), server_names.end(), server_name) == server_names.end())
        server_names.push_back(server_name);
    }
    rows.push_back({Cat(b), bucket.tensors == 1 ? first_name : first_name + " to " + last_name,
                    Cat(bucket.count), Cat(bucket.shared_parts.size()), Cat(bucket.chunks.size()),
                    Join(server_names)});
  }
  PrintTable(rows);
}

// The bytes of a round of Gaussian gradients, if the sizes of codes depend on the values: then they
// may be far below the limits.
struct UpAndDown {
  uint64_t up = 0, down = 0;
};
std::optional<UpAndDown> GaussianRoundBytes(const protocol::ExchangePlan& plan,
                                            const UpAndDown& limits) {
  constexpr double kMuchSmaller = 0.95;
  const auto sizes = SizesOf(plan);
  if (!sizes.ok()) return std::nullopt;
  const RoundTotals totals = TotalsOf(*sizes);
  if (totals.up > kMuchSmaller * static_cast<double>(limits.up) &&
      totals.down > kMuchSmaller * static_cast<double>(limits.down))
    return std::nullopt;
  return UpAndDown{static_cast<uint64_t>(totals.up), static_cast<uint64_t>(totals.down)};
}

UpAndDown LimitsOf(const protocol::ExchangePlan& plan) {
  const protocol::RoundBytes bytes = protocol::CountRoundBytes(plan);
  return {bytes.push + bytes.scalers, bytes.sum + bytes.pulled + bytes.scalers};
}

void PrintRound(const setup::Setup& setup) {
  const UpAndDown limits = LimitsOf(setup.plan);
  // In the mean over the parts, if rounds exchange one part of the model each.
  const uint64_t num_parts = std::max(1u, algorithm::FactsOf(setup.job).num_parts);
  const uint64_t fp32_bytes = 4 * setup.table.total / num_parts;
  const auto make_row = [&](const std::string& name, uint64_t payload_bytes) {
    const double ratio = static_cast<double>(fp32_bytes) / static_cast<double>(payload_bytes);
    return TableRow{name, Cat(payload_bytes), HumanBytes(payload_bytes), FormatFixed(ratio, 2)};
  };
  std::printf("\npayload of one worker in a round%s, without headers\n",
              num_parts == 1 ? "" : Cat(" of one of ", num_parts, " parts").c_str());
  std::vector<TableRow> rows = {{"", "bytes", "", "fp32 / this"},
                                make_row("up, at most", limits.up / num_parts),
                                make_row("down, at most", limits.down / num_parts)};
  const std::optional<UpAndDown> bytes = GaussianRoundBytes(setup.plan, limits);
  if (bytes.has_value()) {
    rows.push_back(make_row("up, about", bytes->up / num_parts));
    rows.push_back(make_row("down, about", bytes->down / num_parts));
  }
  rows.push_back(make_row("fp32, each way", fp32_bytes));
  PrintTable(rows);
  if (bytes.has_value()) std::printf("about: codes of Gaussian gradients, with their headers\n");
  if (setup.plan.pulls_first)
    std::printf(
        "the workers form the compensation term, for which they pull the weights a second time; "
        "with exchange.codec: fp32 the servers form it\n");
  if (setup.job.exchange().host_sum())
    std::printf(
        "exchange.host_sum: a host sends one push, and gets one answer, for all its workers; tern "
        "forecast --workers_a_host N says how many bytes that saves\n");
}

void PrintMemory(const std::string& title, const std::vector<MemoryItem>& items) {
  uint64_t total_bytes = 0;
  std::vector<TableRow> rows;
  for (const MemoryItem& item : items) {
    rows.push_back({item.name, HumanBytes(item.bytes), item.note});
    total_bytes += item.bytes;
  }
  rows.push_back({"total", HumanBytes(total_bytes), ""});
  std::printf("\nmemory of %s, besides the program itself\n", title.c_str());
  PrintTable(rows);
}

// Whether all daemons run on this machine, because all servers have loopback addresses.
bool RunsHere(const pb::Job& job) {
  return std::all_of(job.servers().begin(), job.servers().end(), [](const pb::Server& server) {
    const std::optional<config::Address> address = config::ParseAddress(server.address());
    return address.has_value() && config::IsLoopback(address->host);
  });
}

// Whether this machine can run the job's daemons.
Status CheckMachine(const pb::Job& job) {
  for (uint32_t rank = 0; rank < algorithm::NumRanks(job); ++rank) {
    TERN_RETURN_IF_ERROR(
        worker::CheckDeviceOf(config::JobForRank(job, rank)).Within(Cat("worker ", rank)));
  }
  if (!RunsHere(job)) return Ok();
  const Members members = AllMembers(job);
  TERN_RETURN_IF_ERROR(CheckPortsDiffer(job, members));
  TERN_RETURN_IF_ERROR(StatusOf(CheckKeys(job, members)));
  return StatusOf(CheckCores(job, members, std::nullopt));
}

// Prints whether the job can run here, before everything else. Returns why it cannot.
Status PrintVerdict(const setup::Setup& setup) {
  const pb::Job& job = setup.job;
  const Result<std::string> data = DescribeData(setup);
  const Status machine_status = CheckMachine(job);
  const Status status = data.ok() ? machine_status : data.status();
  if (status.ok()) {
    std::printf("the job %s is valid and can run here: ", job.name().c_str());
  } else {
    std::printf("the job %s is valid, but cannot run here (the last line says why): ",
                job.name().c_str());
  }
  std::printf("%s, %s, workers: %u, servers: %d\n", job.train().algorithm().c_str(),
              job.exchange().codec().c_str(), job.workers().count(), job.servers_size());
  if (!setup::IsClientJob(job)) {
    std::printf("algorithm: %s, optimizer: %s\n", algorithm::DescribeAlgorithm(job.train()).c_str(),
                update::DescribeOptimizer(job.train().optimizer()).c_str());
  }
  for (const std::string& warning : setup.job_warnings)
    std::printf("warning: %s\n", warning.c_str());
  for (const std::string& warning : worker::WarningsOfThreads(job))
    std::printf("warning: %s\n", warning.c_str());
  if (data.ok()) std::printf("%s", data->c_str());
  return status;
}

}  // namespace

Status CheckJob(const Arguments& arguments) {
  const auto made_setup = SetupOfJob(arguments);
  if (!made_setup.ok()) return made_setup.status();
  TERN_RETURN_IF_ERROR(setup::ReadGivenWeights(made_setup->get()));
  const setup::Setup& setup = **made_setup;
  const Status verdict = PrintVerdict(setup);
  PrintParameters(setup);
  PrintBuckets(setup);
  PrintRound(setup);
  PrintMemory("a worker", WorkerMemory(setup));
  for (uint32_t shard = 0; shard < setup.plan.data_lanes.size(); ++shard) {
    PrintMemory(Cat("server ", shard), ServerMemory(setup, shard));
  }
  if (arguments.HasFlag("verbose"))
    std::printf("\nthe job with every key\n%s", config::ToYaml(setup.job).c_str());
  return verdict;
}

}  // namespace tern::tools
