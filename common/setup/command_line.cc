#include "common/setup/command_line.h"

#include <gflags/gflags.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"

DEFINE_string(job, "", "the job file: YAML, or protobuf text by the endings .textproto, .pbtxt, .prototxt");
DEFINE_int32(rank, -1, "which server shard or which worker of the job this is, from 0");
DEFINE_bool(check, false, "read and check the job, print what it resolves to, and leave");
DEFINE_int32(progress_fd, -1, "a file descriptor to write progress to, one JSON object a line");

namespace tern::setup {

namespace {

// gflags keeps only the last value of a flag: --set is taken out first, and names that are not flags are refused here,
// because gflags would exit with 1.
Status TakeOverrides(int argc, char** argv, std::vector<std::string>* overrides, std::vector<char*>* rest) {
  rest->push_back(argv[0]);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool dashes = word.starts_with("-");
    const std::string flag = word.substr(word.starts_with("--") ? 2 : dashes ? 1 : 0);
    const std::string name = flag.substr(0, flag.find('='));
    if (!dashes) return Status(Code::kUsage, "'" + word + "' is not a flag; the job file goes after --job");
    if (name == "set") {
      if (flag.find('=') != std::string::npos) {
        overrides->push_back(flag.substr(4));
      } else if (++i < argc) {
        overrides->push_back(argv[i]);
      } else {
        return Status(Code::kUsage, "--set needs KEY=VALUE after it");
      }
      continue;
    }
    gflags::CommandLineFlagInfo info;
    std::string bare = name;
    if (!gflags::GetCommandLineFlagInfo(bare.c_str(), &info) && bare.starts_with("no")) bare = bare.substr(2);
    if (!gflags::GetCommandLineFlagInfo(bare.c_str(), &info)) {
      return Status(Code::kUsage, "there is no flag --" + name + "; --help lists them");
    }
    rest->push_back(argv[i]);
    if (info.type == "bool" || flag.find('=') != std::string::npos) continue;
    if (++i >= argc) return Status(Code::kUsage, "--" + name + " needs a value after it");
    rest->push_back(argv[i]);
    std::string error = gflags::SetCommandLineOption(bare.c_str(), argv[i]);
    if (error.empty()) return Status(Code::kUsage, "--" + name + ": '" + argv[i] + "' is not of type " + info.type);
  }
  return Ok();
}

}  // namespace

Result<CommandLine> ParseCommandLine(int argc, char** argv, const std::string& role) {
  gflags::SetVersionString(TERN_VERSION);
  gflags::SetUsageMessage("a Tern " + role + "\n  --job FILE --rank N [--set key=value]... [--check] [--log_dir DIR]");
  CommandLine line;
  std::vector<char*> rest;
  TERN_RETURN_IF_ERROR(TakeOverrides(argc, argv, &line.overrides, &rest));
  int count = static_cast<int>(rest.size());
  rest.push_back(nullptr);
  char** words = rest.data();
  gflags::ParseCommandLineFlags(&count, &words, true);
  if (FLAGS_job.empty()) return Status(Code::kUsage, "--job FILE is missing");
  if (FLAGS_rank < 0) return Status(Code::kUsage, "--rank N is missing: which " + role + " of the job this is, from 0");
  line.job = FLAGS_job;
  line.rank = static_cast<uint32_t>(FLAGS_rank);
  line.check = FLAGS_check;
  line.log_dir = FLAGS_log_dir;
  line.progress_fd = FLAGS_progress_fd;
  return line;
}

Result<std::unique_ptr<Setup>> Begin(const CommandLine& line, const std::string& role) {
  auto setup = MakeSetup(line.job, line.overrides);
  if (!setup.ok()) return setup;
  const pb::Job& job = (*setup)->job;
  const uint32_t count = role == "server" ? static_cast<uint32_t>(job.servers_size()) : job.workers().count();
  if (line.rank >= count) {
    return Status(Code::kBadJob, Cat("--rank ", line.rank, ": the job has ", count, " ", role, "s, so ranks 0 to ", count - 1));
  }
  if (line.check) return setup;
  TERN_RETURN_IF_ERROR(InitLogging("tern_" + role, Cat(role, ".", line.rank),
                                   line.log_dir.empty() ? job.output_dir() + "/logs" : line.log_dir));
  LOG(INFO) << "the job as this " << role << " understands it:\n" << config::ToYaml(job);
  if (job.security() == pb::Job::none) {
    LOG(WARNING) << "security: none - nobody checks who the peers are; anyone who reaches the ports may take part";
  }
  return setup;
}

int Finish(const std::string& program, const Status& status) {
  if (status.ok()) return 0;
  LOG(INFO) << "leaves with " << ExitCode(status) << ": " << status.message();
  google::FlushLogFiles(google::INFO);
  std::fprintf(stderr, "%s: %s\n", program.c_str(), status.message().c_str());
  return ExitCode(status);
}

}  // namespace tern::setup
