#include "setup/environment.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "common/base/hash.h"
#include "common/base/text.h"

namespace tern::setup {
namespace {

constexpr uint32_t kMaxNumber = std::numeric_limits<int32_t>::max();

std::string ValueOf(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value == nullptr ? "" : value;
}

bool IsSet(const Environment& environment, const char* name) {
  return !ValueOf(environment, name).empty();
}

// Which of the variables count: those of the launcher that is nearest to this process.
std::vector<const char*> WithoutOuterLaunchers(std::vector<const char*> names,
                                               const Environment& environment) {
  if (IsSet(environment, "TORCHELASTIC_RUN_ID")) return {names.front(), names.back()};
  if (IsSet(environment, "OMPI_COMM_WORLD_RANK") || IsSet(environment, "PMI_RANK")) {
    std::erase_if(names, [](std::string_view name) { return name.starts_with("SLURM_"); });
  }
  return names;
}

std::vector<const char*> RankNames(const Environment& environment) {
  return WithoutOuterLaunchers({"TERN_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                "JOB_COMPLETION_INDEX", "RANK"},
                               environment);
}

std::vector<const char*> WorldSizeNames(const Environment& environment) {
  return WithoutOuterLaunchers(
      {"TERN_WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE"},
      environment);
}

Result<std::optional<EnvironmentNumber>> FirstNumber(const std::vector<const char*>& names,
                                                     uint32_t least,
                                                     const Environment& environment) {
  for (const char* name : names) {
    const std::string text = ValueOf(environment, name);
    if (text.empty()) continue;
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size() && number >= least &&
        number <= kMaxNumber)
      return std::optional(EnvironmentNumber{number, name});
    return Status(Code::kUsage, Cat("the environment variable ", name, ": saw '", Printable(text),
                                    "'; allowed: a whole number from ", least));
  }
  return std::optional<EnvironmentNumber>();
}

// Whether this is a batch script of Slurm, or a shell of salloc, and not a task of srun. Slurm
// gives these no step, or one of the numbers that it keeps for them, the largest ones of 32 bits.
bool IsOutsideSrun(const Environment& environment) {
  if (!IsSet(environment, "SLURM_JOB_ID")) return false;
  const std::string step = ValueOf(environment, "SLURM_STEP_ID");
  return step.empty() || step.starts_with("42949672");
}

std::string Joined(const std::vector<const char*>& names) {
  return Join(std::vector<std::string>(names.begin(), names.end()));
}

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const size_t first = text.find_first_not_of(" \t\n", begin);
    const size_t last = text.find_last_not_of(" \t\n", end == 0 ? 0 : end - 1);
    items.push_back(first < end ? text.substr(first, last + 1 - first) : "");
    begin = end + 1;
  }
  return items;
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const char* name) -> const char* { return std::getenv(name); };
}

Result<std::optional<EnvironmentNumber>> RankOf(const Environment& environment) {
  const auto rank = FirstNumber(RankNames(environment), 0, environment);
  if (!rank.ok() || !rank->has_value()) return rank;
  const std::string num_tasks = ValueOf(environment, "SLURM_NTASKS");
  const bool is_of_slurm = std::string_view((*rank)->variable) == "SLURM_PROCID";
  if (!is_of_slurm || !IsOutsideSrun(environment) || num_tasks.empty() || num_tasks == "1")
    return rank;
  return Status(Code::kUsage,
                Cat("saw a batch script of Slurm with ", Printable(num_tasks),
                    " tasks, of which this process is none (SLURM_STEP_ID is not set); start it "
                    "with srun, which starts it once for each task, or give --rank"));
}

Result<std::optional<EnvironmentNumber>> LocalRankOf(const Environment& environment) {
  return FirstNumber(
      WithoutOuterLaunchers({"TERN_LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK",
                             "MPI_LOCALRANKID", "LOCAL_RANK"},
                            environment),
      0, environment);
}

Result<std::optional<EnvironmentNumber>> WorldSizeOf(const Environment& environment) {
  return FirstNumber(WorldSizeNames(environment), 1, environment);
}

std::string RankVariables(const Environment& environment) {
  return Cat("one of ", Joined(RankNames(environment)),
             IsOutsideSrun(environment)
                 ? "; this is a job of Slurm, whose tasks have SLURM_PROCID if srun starts them"
                 : "");
}

std::string WorldSizeVariables(const Environment& environment) {
  return "one of " + Joined(WorldSizeNames(environment));
}

std::string JobFileOf(const Environment& environment) { return ValueOf(environment, "TERN_JOB"); }

Result<uint64_t> LaunchOf(const Environment& environment) {
  const std::string text = ValueOf(environment, kLaunchVariable);
  if (text.empty()) return 0;
  uint64_t launch = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), launch, 16);
  if (error == std::errc() && end == text.data() + text.size() && launch != 0) return launch;
  return Status(Code::kUsage,
                Cat("the environment variable ", kLaunchVariable, ": saw '", Printable(text),
                    "', expected what `tern run` gives its daemons, up to 16 hexadecimal digits; "
                    "unset it for a daemon that you start yourself"));
}

std::string LaunchEntry(uint64_t launch) {
  return Cat(kLaunchVariable, "=", launch == 0 ? "" : Hex(launch));
}

config::Place PlaceOf(const Environment& environment) {
  config::Place place;
  if (const std::string servers = ValueOf(environment, config::kServersVariable); !servers.empty())
    place.servers = SplitAtCommas(servers);
  place.workers = ValueOf(environment, config::kWorkersVariable);
  place.output_dir = ValueOf(environment, config::kOutputVariable);
  return place;
}

std::vector<std::string> DescribePlace(const config::Place& place, const pb::Job& job) {
  std::vector<std::string> lines;
  std::vector<std::string> servers;
  for (const pb::Server& server : job.servers()) servers.push_back(server.address());
  const auto describe = [&](const std::string& what, bool is_used, const char* variable) {
    lines.push_back(Cat(what, is_used ? " from " : " from --set, which wins over ", variable));
  };
  if (!place.servers.empty())
    describe("servers " + Join(servers), servers == place.servers, config::kServersVariable);
  if (!place.workers.empty()) {
    const std::string count = Cat(job.workers().count());
    describe(count + " workers", count == place.workers, config::kWorkersVariable);
  }
  if (!place.output_dir.empty()) {
    describe("output_dir " + job.output_dir(), job.output_dir() == place.output_dir,
             config::kOutputVariable);
  }
  return lines;
}

std::vector<std::string> WithoutPlace() {
  return {Cat(config::kServersVariable, "="), Cat(config::kWorkersVariable, "="),
          Cat(config::kOutputVariable, "=")};
}

}  // namespace tern::setup
