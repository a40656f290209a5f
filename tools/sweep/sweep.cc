// tern sweep: runs a job with every combination of values of some of its keys, one run after the
// other. A sweep that was stopped or killed goes on where it was: a run that has ended well is not
// run again.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/folder_lock.h"
#include "common/base/output_file.h"
#include "common/base/signals.h"
#include "common/base/storage.h"
#include "common/base/text.h"
#include "common/config/job.h"
#include "setup/setup.h"
#include "tools/commands.h"
#include "tools/run/run_to_end.h"
#include "tools/sweep/grid.h"
#include "tools/sweep/results.h"

namespace tern::tools {
namespace {

constexpr size_t kMaxRuns = 10'000;
constexpr uint64_t kMaxJobBytes = 16 << 20;

struct PlannedRun {
  std::string name;      // For messages, and of its folder.
  std::string folder;    // The run's output_dir.
  std::string job_yaml;  // Its whole job.

  std::string job_file() const { return folder + "/job.yaml"; }
};

struct Sweep {
  std::vector<GridKey> grid;
  std::vector<SweepRun> runs;
  std::string folder;
  std::vector<PlannedRun> planned;                  // One for each of `runs`.
  std::vector<std::optional<SweepResult>> results;  // One for each of `runs`.
};

Result<std::vector<GridKey>> ReadGrid(const Arguments& arguments, uint64_t num_seeds) {
  std::vector<GridKey> grid;
  for (const std::string& text : arguments.AllValues("grid")) {
    Result<GridKey> key = ParseGridKey(text);
    if (!key.ok()) return key.status();
    const bool is_taken = key->key == "output_dir" || (key->key == "seed" && num_seeds != 0);
    if (is_taken) {
      return Status(Code::kUsage, Cat("--grid ", text, ": tern sweep itself sets ", key->key,
                                      "; leave it out of the grid"));
    }
    for (const GridKey& other : grid) {
      if (other.key == key->key)
        return Status(Code::kUsage,
                      Cat("--grid: saw the key ", key->key, " twice; give all its values at once"));
    }
    grid.push_back(std::move(*key));
  }
  if (grid.empty() && num_seeds == 0) {
    return Status(Code::kUsage,
                  "tern sweep: saw neither --grid nor --seeds; write for example --grid "
                  "train.schedule.learning_rate=0.01,0.1 --seeds 3");
  }
  return grid;
}

// Reads and checks the job of every run, so that no run starts if one of them cannot.
Result<Sweep> PlanSweep(const Arguments& arguments) {
  const Result<uint32_t> num_seeds = arguments.NumberValue("seeds", kMaxRuns);
  if (!num_seeds.ok()) return num_seeds.status();
  Result<std::vector<GridKey>> grid = ReadGrid(arguments, *num_seeds);
  if (!grid.ok()) return grid.status();
  Sweep sweep;
  sweep.grid = std::move(*grid);
  size_t num_runs = std::max<size_t>(1, *num_seeds);
  for (const GridKey& key : sweep.grid) {
    num_runs *= key.values.size();
    if (num_runs > kMaxRuns)
      return Status(Code::kUsage, Cat("tern sweep: saw more than ", kMaxRuns, " runs"));
  }
  sweep.runs = RunsOf(sweep.grid, *num_seeds);
  sweep.results.resize(sweep.runs.size());
  const std::string& job_file = arguments.positional().front();
  const std::vector<std::string> common_overrides = arguments.AllValues("set");
  for (const SweepRun& run : sweep.runs) {
    std::vector<std::string> overrides = common_overrides;
    const std::vector<std::string> own_overrides = OverridesOf(sweep.grid, run);
    overrides.insert(overrides.end(), own_overrides.begin(), own_overrides.end());
    auto setup = setup::MakeSetup(job_file, overrides);
    if (!setup.ok()) return setup.status();
    pb::Job& job = (*setup)->job;
    if (sweep.folder.empty()) {
      sweep.folder =
          arguments.HasFlag("out") ? arguments.LastValue("out") : job.output_dir() + "/sweep";
    }
    PlannedRun planned;
    planned.name = FolderOf(sweep.grid, run);
    planned.folder = Cat(sweep.folder, "/", planned.name);
    job.set_output_dir(planned.folder);
    planned.job_yaml = config::ToYaml(job);
    sweep.planned.push_back(std::move(planned));
  }
  return sweep;
}

// Refuses a link, and a folder with a run of another job, whose result would count as this one's.
Status CheckFolder(const PlannedRun& planned) {
  TERN_RETURN_IF_ERROR(CheckIsNoLink(planned.folder));
  std::error_code ignored;  // A folder that cannot be entered is refused when the run is written.
  if (!std::filesystem::exists(planned.job_file(), ignored)) return Ok();
  const Result<std::string> text = ReadWholeFile(planned.job_file(), kMaxJobBytes);
  if (!text.ok()) return text.status();
  if (*text == planned.job_yaml) return Ok();
  return Status(Code::kMismatch, Cat(planned.job_file(),
                                     ": a run of another job is in this folder; give another "
                                     "folder with --out, or remove this one"));
}

// Starts one run and stores its result. kInterrupted or kTerminated after a stop signal.
Status RunOne(size_t index, StopSignals* stop_signals, Sweep* sweep) {
  const PlannedRun& planned = sweep->planned[index];
  if (const std::error_code error = Disk().CreateFolders(planned.folder)) {
    return Status(Code::kCannotWrite,
                  Cat("cannot create the folder ", planned.folder, ": ", error.message()));
  }
  TERN_RETURN_IF_ERROR(WriteFileAtomically(planned.job_file(), planned.job_yaml));
  const Result<Exit> exit = RunToEnd(planned.job_file(), planned.folder, stop_signals);
  if (!exit.ok()) return exit.status();
  if (stop_signals->signal() != 0) return stop_signals->status();
  sweep->results[index] = ResultOf(*exit, planned.folder);
  return Ok();
}

std::string Outcome(const SweepResult& result) {
  if (result.code != 0) return Cat("failed with code ", result.code, ": ", result.sentence);
  const std::string time = HumanTime(Time(static_cast<int64_t>(result.wall_s * 1e9)));
  if (!result.accuracy.has_value()) return Cat("done in ", time);
  return Cat("accuracy ", FormatWith("%.2f %%", 100 * *result.accuracy), ", ", time);
}

Status RunAll(StopSignals* stop_signals, Sweep* sweep) {
  for (size_t i = 0; i < sweep->runs.size(); ++i) {
    const std::string place =
        Cat("run ", i + 1, " of ", sweep->runs.size(), ", ", sweep->planned[i].name, ": ");
    sweep->results[i] = ReadResult(sweep->planned[i].folder);
    if (sweep->results[i].has_value() && sweep->results[i]->code == 0) {
      std::printf("%swas done before, %s\n", place.c_str(), Outcome(*sweep->results[i]).c_str());
      continue;
    }
    sweep->results[i].reset();
    std::printf("%s", place.c_str());
    std::fflush(stdout);
    if (const Status status = RunOne(i, stop_signals, sweep); !status.ok()) {
      std::printf("\n");
      return status;
    }
    std::printf("%s\n", Outcome(*sweep->results[i]).c_str());
    std::fflush(stdout);
  }
  return Ok();
}

// Ok if all runs ended well; otherwise the error of the first that failed.
Status Verdict(const Sweep& sweep) {
  size_t num_failed = 0, first_failed = 0;
  for (size_t i = 0; i < sweep.results.size(); ++i) {
    if (sweep.results[i]->code == 0) continue;
    if (num_failed++ == 0) first_failed = i;
  }
  if (num_failed == 0) return Ok();
  const SweepResult& result = *sweep.results[first_failed];
  return Status(ParseErrorCode(static_cast<uint32_t>(result.code)),
                Cat(num_failed, " of ", sweep.runs.size(), " runs failed; the first, ",
                    sweep.planned[first_failed].name, ": ", result.sentence));
}

}  // namespace

Status SweepJob(const Arguments& arguments) {
  Result<Sweep> sweep = PlanSweep(arguments);
  if (!sweep.ok()) return sweep.status();
  // The user may have chosen a link for the folder that --out names.
  if (!arguments.HasFlag("out")) TERN_RETURN_IF_ERROR(CheckIsNoLink(sweep->folder));
  for (const PlannedRun& planned : sweep->planned) TERN_RETURN_IF_ERROR(CheckFolder(planned));
  const Result<FolderLock> lock =
      FolderLock::TryLock(sweep->folder, "sweep.lock", arguments.positional().front());
  if (!lock.ok()) return lock.status();
  StopSignals stop_signals(StopSignals::SecondSignal::kReport);
  if (const Status status = RunAll(&stop_signals, &*sweep); !status.ok()) {
    return Status(status.code(),
                  Cat(status.message(), "; the same command goes on after the runs that are done"));
  }
  const std::string csv_file = sweep->folder + "/sweep.csv";
  TERN_RETURN_IF_ERROR(
      WriteFileAtomically(csv_file, SweepCsv(sweep->grid, sweep->runs, sweep->results)));
  std::printf("\n");
  PrintTable(SweepTable(sweep->grid, sweep->runs, sweep->results));
  std::printf("every run is in %s\n", csv_file.c_str());
  return Verdict(*sweep);
}

}  // namespace tern::tools
