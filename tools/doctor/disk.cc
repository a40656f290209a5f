#include "tools/doctor/disk.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "common/algorithm/facts.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/text.h"
#include "common/update/optimizer.h"
#include "setup/saved.h"

namespace tern::tools {
namespace {

constexpr uint64_t kBytesOfFloat = sizeof(float);
constexpr uint64_t kPieceBytes = 4 << 20, kMaxTestBytes = 64 << 20;
constexpr double kTestSeconds = 1;
// Checkpoints that take a larger share of the time than this are worth a warning.
constexpr double kLargeShare = 0.05;

uint64_t NumOptimizerArrays(const pb::Job& job) {
  const auto optimizer = update::MakeOptimizer(job.train().optimizer(), 0);
  const uint64_t num_arrays = optimizer.ok() ? (*optimizer)->StateArrays().size() : 0;
  const algorithm::Facts facts = algorithm::FactsOf(job);
  if (facts.outer_optimizer == nullptr) return num_arrays;
  const auto outer = update::MakeOuterOptimizer(*facts.outer_optimizer, 0);
  return num_arrays + (outer.ok() ? (*outer)->StateArrays().size() : 0);
}

// Weights, the optimizers' state and the moving average, a float each an element.
uint64_t ArraysOfModel(const setup::Setup& setup) {
  return 1 + NumOptimizerArrays(setup.job) + (algorithm::FactsOf(setup.job).has_average ? 1 : 0);
}

uint64_t WorkerCheckpointBytes(const setup::Setup& setup) {
  uint64_t floats = ArraysOfModel(setup) * setup.table.total + 2 * setup.table.statistics_total;
  if (algorithm::FactsOf(setup.job).has_own_point) floats += setup.table.total;
  for (size_t t = 0; t < setup.table.parameters.size(); ++t)
    if (setup.plan.codec_of[t]->HasMemory()) floats += setup.table.parameters[t].count;
  return floats * kBytesOfFloat;
}

uint64_t ShardCheckpointBytes(const setup::Setup& setup, uint32_t shard) {
  if (!setup.plan.is_central) return 0;
  uint64_t elements = 0;
  for (const protocol::Bucket& bucket : setup.plan.buckets)
    for (const protocol::Chunk& chunk : bucket.chunks)
      if (chunk.shard == shard) elements += chunk.count;
  return elements * ArraysOfModel(setup) * kBytesOfFloat;
}

// The bytes of the files in a folder, which need not exist.
uint64_t BytesIn(const std::string& folder) {
  std::error_code error;
  uint64_t bytes = 0;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored_error;
    const uint64_t size = entry->file_size(ignored_error);
    if (!ignored_error) bytes += size;
  }
  return bytes;
}

// `path` or, as far as that does not exist, the folder in which it would be made.
std::string NearestFolder(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path.empty() ? "." : path);
  std::error_code ignored_error;
  while (!folder.empty() && !std::filesystem::exists(folder, ignored_error) &&
         folder != folder.parent_path())
    folder = folder.parent_path();
  return folder.empty() ? "." : folder.string();
}

Status WriteError(const std::string& folder) {
  return Status(Code::kCannotWrite,
                Cat("cannot write a file in ", folder, ": ", std::string(std::strerror(errno))));
}

// An open file without a name; -1 with errno.
int OpenNameless(const std::string& folder) {
  const int fd = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  std::string path = folder + "/.tern_doctor.XXXXXX";  // Some file systems need a name.
  const int named_fd = mkostemp(path.data(), O_CLOEXEC);
  if (named_fd >= 0) unlink(path.c_str());
  return named_fd;
}

// Daemons write no file beyond `ulimit -f`.
Finding JudgeFileSize(uint64_t limit, uint64_t file_bytes) {
  const std::string subject = "size of files";
  if (limit >= file_bytes)
    return Good(subject, limit == RLIM_INFINITY ? "no limit" : HumanBytes(limit) + " allowed");
  return Bad(Code::kCannotWrite, subject,
             Cat("saw a limit of ", HumanBytes(limit), " a file, expected at least ",
                 HumanBytes(file_bytes),
                 " for a checkpoint or the final weights; raise it "
                 "(ulimit -f, LimitFSIZE of systemd)"));
}

}  // namespace

DiskNeeds DiskNeedsOf(const setup::Setup& setup, const Members& members) {
  const pb::Checkpoints& keys = setup.job.checkpoints();
  const std::string folder = setup.job.output_dir() + "/checkpoints/";
  DiskNeeds needs;
  uint64_t kept_bytes = 0, own_bytes = 0;
  const bool has_checkpoints = keys.every_steps() > 0;
  const uint64_t num_kept = setup::NumCheckpointsToKeep(setup);
  for (const uint32_t rank : members.workers) {
    if (!has_checkpoints) break;
    const uint64_t bytes = WorkerCheckpointBytes(setup);
    needs.checkpoint_bytes += bytes;
    kept_bytes += bytes * (num_kept + 1);
    own_bytes += BytesIn(folder + Cat("worker.", rank));
  }
  for (const uint32_t shard : members.servers) {
    const uint64_t bytes = ShardCheckpointBytes(setup, shard);
    if (has_checkpoints) needs.checkpoint_bytes += bytes;
    if (has_checkpoints) kept_bytes += bytes * (num_kept + 1);
    if (keys.shard_every_steps() > 0) kept_bytes += bytes * (keys.shard_keep() + 1);
    const uint32_t num_lanes = setup.plan.data_lanes[shard];
    for (uint32_t lane = 0; lane <= num_lanes; ++lane)
      own_bytes += BytesIn(folder + Cat("shard.", shard, ".lane.", lane));
  }
  const uint64_t num_files = 1 + (algorithm::FactsOf(setup.job).has_average ? 1 : 0) +
                             (setup.job.evaluation().keep_best() ? 1 : 0);
  const uint64_t num_values = setup.table.total + setup.table.frozen_total;
  needs.total_bytes =
      kept_bytes - std::min(kept_bytes, own_bytes) + num_files * num_values * kBytesOfFloat;
  return needs;
}

Result<DiskFacts> MeasureDisk(const std::string& folder) {
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0) return WriteError(folder);
  DiskFacts facts;
  facts.free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  File file(OpenNameless(folder));
  if (file.fd() < 0) return WriteError(folder);
  std::vector<uint32_t> piece(kPieceBytes / sizeof(uint32_t));
  for (size_t i = 0; i < piece.size(); ++i)
    piece[i] = static_cast<uint32_t>(i * 2654435761u);  // Not compressible as zeros are.
  uint64_t num_written = 0;
  const Time begin = Now();
  double seconds = 0;
  while (num_written < kMaxTestBytes && seconds < kTestSeconds) {
    const ssize_t count = write(file.fd(), piece.data(), kPieceBytes);
    if (count <= 0 || fdatasync(file.fd()) != 0) return WriteError(folder);
    num_written += static_cast<uint64_t>(count);
    seconds = Seconds(Now() - begin);
  }
  facts.bytes_s = static_cast<double>(num_written) / std::max(seconds, 1e-9);
  return facts;
}

Finding JudgeFreeSpace(uint64_t free_bytes, uint64_t needed_bytes) {
  const std::string subject = "free disk";
  if (free_bytes >= needed_bytes)
    return Good(subject, Cat(HumanBytes(free_bytes), ", about ", HumanBytes(needed_bytes),
                             " needed for checkpoints and weights"));
  return Bad(Code::kCannotWrite, subject,
             Cat("saw ", HumanBytes(free_bytes), " free, expected about ", HumanBytes(needed_bytes),
                 " for checkpoints and weights; free some, lower "
                 "checkpoints.keep, or choose another output_dir"));
}

Finding JudgeDiskSpeed(double bytes_s, uint64_t checkpoint_bytes, uint64_t every_steps,
                       std::optional<double> step_s, double timeout_s) {
  const std::string subject = "speed of the disk";
  const std::string speed = HumanBytes(static_cast<uint64_t>(bytes_s)) + "/s";
  if (checkpoint_bytes == 0 || every_steps == 0)
    return Good(subject, speed + ", the job writes no checkpoints");
  const double write_s = static_cast<double>(checkpoint_bytes) / bytes_s;
  const std::string seen = Cat(speed, ", so the checkpoints of the daemons here, ",
                               HumanBytes(checkpoint_bytes), ", take ", SecondsText(write_s));
  if (write_s > timeout_s) {
    return Bad(Code::kCannotWrite, subject,
               Cat("saw ", seen, ", expected less than ", SecondsText(timeout_s),
                   ", after which a worker that waits for its disk counts as lost; use a faster "
                   "disk for output_dir, or a longer faults.progress_timeout_s"));
  }
  if (!step_s) return Good(subject, Cat(seen, " every ", every_steps, " steps"));
  const double train_s = static_cast<double>(every_steps) * *step_s;
  const double share = write_s / (write_s + train_s);
  const std::string text =
      Cat(seen, " every ", SecondsText(train_s), " of computing (", every_steps, " steps)");
  if (share <= kLargeShare) return Good(subject, text);
  return Warning(subject, Cat("saw ", text, ", expected at most ", 100 * kLargeShare,
                              " % of the time; raise checkpoints.every_steps, or use a faster "
                              "disk for output_dir"));
}

Findings CheckDisk(const setup::Setup& setup, const Members& members,
                   std::optional<double> step_s) {
  const pb::Job& job = setup.job;
  const std::string folder = NearestFolder(job.output_dir());
  const DiskNeeds needs = DiskNeedsOf(setup, members);
  Findings findings;
  rlimit file_size{};
  if (getrlimit(RLIMIT_FSIZE, &file_size) == 0) {
    const uint64_t largest_file =
        job.checkpoints().every_steps() > 0 ? WorkerCheckpointBytes(setup) : setup.table.total * 4;
    findings.push_back(JudgeFileSize(file_size.rlim_cur, largest_file));
    if (findings.back().grade == Grade::kBad) return findings;
  }
  const Result<DiskFacts> facts = MeasureDisk(folder);
  if (!facts.ok()) {
    findings.push_back(Bad(facts.status().code(), "output_dir",
                           Cat("saw that this user ", facts.status().message(),
                               ", expected to write to ", job.output_dir(),
                               "; make it writable, free some space, or choose another "
                               "output_dir")));
    return findings;
  }
  findings.push_back(Good("output_dir", Cat("can be written (", folder, ")")));
  findings.push_back(JudgeFreeSpace(facts->free_bytes, needs.total_bytes));
  // As protocol::ProgressTimeout.
  const double given_timeout_s = job.faults().progress_timeout_s();
  const double timeout_s =
      given_timeout_s > 0 ? given_timeout_s : std::max(60.0, 10 * step_s.value_or(0));
  findings.push_back(JudgeDiskSpeed(facts->bytes_s, needs.checkpoint_bytes,
                                    job.checkpoints().every_steps(), step_s, timeout_s));
  return findings;
}

}  // namespace tern::tools
