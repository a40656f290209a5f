// tern: the command-line tool. kCommands lists its subcommands, apart from `help` and `version`.
#include <signal.h>

#include <cstdio>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "common/net/zmq_version.h"
#include "tools/commands.h"

namespace {

using tern::Code;
using tern::Status;
using tern::tools::Args;

struct Command {
  const char* name;
  const char* usage;
  const char* summary;
  Status (*run)(const Args&);
};

const std::vector<Command> kCommands = {
    {"run", "JOB [--set KEY=VALUE]... [--restarts N] [--log_dir DIR] [--free_ports]",
     "start the job's servers and workers on this machine, and supervise them until they end",
     &tern::tools::RunJob},
    {"check", "JOB [--set KEY=VALUE]...",
     "check a job; print it with all defaults, its exchange plan and the memory that it needs",
     &tern::tools::CheckJob},
    {"keys", "make DIR --job JOB [--set KEY=VALUE]...",
     "make the keys of a job with security: curve, in a new folder", &tern::tools::ManageKeys},
    {"top", "JOB|URL [--set KEY=VALUE]...",
     "show a running job in the terminal: its progress and each worker (keys: q, s, p)",
     &tern::tools::ShowTop},
    {"status", "JOB|URL [--json] [--set KEY=VALUE]...", "print the same once, or as JSON",
     &tern::tools::ShowStatus},
    {"model",
     "NAME [--channels N] [--height N] [--width N] [--classes N] [--batch_norm] [--netdef | "
     "--json]",
     "print a network's layers, parameters and operations; or its NetDef", &tern::tools::ShowModel},
    {"convert",
     "pack DIR OUT_DIR [--format folder] [--max_corrupt N] [--threads N]\n"
     "  tern convert onnx JOB|NAME|NET.json WEIGHTS.safetensors OUT.onnx [--classes N]...",
     "pack images into train.tpk and test.tpk, which load faster than a folder; write a network "
     "with trained weights as an ONNX file (takes the flags of tern model, too)",
     &tern::tools::ConvertFiles},
    {"predict",
     "JOB [--set KEY=VALUE]... [--link_mbit X,...] [--workers N,...] [--codecs NAME,...]",
     "measure one step; forecast the job's speed on other links, with other workers and codecs "
     "(also --algorithms, --profile, --save_profile, --csv, --latency_us, --worker_link_mbit, "
     "--cores_shared; --paper: TernGrad's own model)",
     &tern::tools::PredictJob},
};

std::string HelpText() {
  std::string text = "tern: distributed training with quantized gradients\n\n";
  for (const Command& command : kCommands) {
    text +=
        tern::Cat("  tern ", command.name, " ", command.usage, "\n      ", command.summary, "\n");
  }
  return text + "  tern help\n  tern --version\n";
}

Status UnknownCommandError(const std::string& name) {
  std::vector<std::string> known_commands;
  for (const Command& command : kCommands) known_commands.emplace_back(command.name);
  known_commands.emplace_back("help");
  return Status(
      Code::kUsage,
      tern::Cat(name.empty() ? "no command" : "there is no command '" + tern::Printable(name) + "'",
                "; known: ", tern::Join(known_commands)));
}

Status RunCommand(const Args& args) {
  const std::string name = args.empty() ? "" : args[0];
  if (name == "help" || name == "--help" || name == "-h") {
    std::printf("%s", HelpText().c_str());
    return tern::Ok();
  }
  if (name == "version" || name == "--version") {
    std::printf("tern version %s, %s\n", TERN_VERSION, tern::net::ZmqVersion().c_str());
    return tern::Ok();
  }
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(Args(args.begin() + 1, args.end()));
  }
  return UnknownCommandError(name);
}

}  // namespace

int main(int argc, char** argv) {
  // A write beyond the limit of `ulimit -f` fails with an error instead of ending the program.
  signal(SIGXFSZ, SIG_IGN);
  const Status status = RunCommand(Args(argv + 1, argv + argc));
  std::fflush(stdout);
  if (!status.ok()) std::fprintf(stderr, "tern: %s\n", status.message().c_str());
  return tern::ExitCode(status);
}
