#include "tools/command_table.h"

#include <algorithm>

#include "common/base/logging.h"
#include "tools/commands.h"
#include "tools/run_flags.h"

namespace tern::tools {
namespace {

using setup::FlagDef;
using setup::kSetFlag;
using setup::PositionalDef;

constexpr PositionalDef kJob = {
    "JOB", "The file of the job: YAML, or protobuf text (.textproto, .pbtxt, .prototxt)."};

constexpr PositionalDef kJobOrStdin = {"JOB",
                                       "The file of the job: YAML, or protobuf text (.textproto, "
                                       ".pbtxt, .prototxt); - reads YAML from "
                                       "stdin."};

constexpr PositionalDef kNet = {"NET",
                                "The network: the name of a built-in one, such as lenet or "
                                "resnet50; the file of a job; or JSON "
                                "as `tern model --json` prints it (.json)."};

constexpr FlagDef kChannelsFlag = {
    "channels", "N", "", "Channels of an image. Default: those of the network's publication."};
constexpr FlagDef kHeightFlag = {
    "height", "N", "", "Rows of an image, in pixels. Default: those of the network's publication."};
constexpr FlagDef kWidthFlag = {
    "width", "N", "",
    "Columns of an image, in pixels. Default: those of the network's publication."};
constexpr FlagDef kClassesFlag = {"classes", "N", "",
                                  "Number of classes. Default: that of the network's publication."};
constexpr FlagDef kBatchNormFlag = {
    "batch_norm", "", "",
    "For alexnet, googlenet, vgg_a, vgg16, vgg19: a batch norm after every convolution."};

Command RunCommand() {
  return {
      {"tern run",
       "start a job's servers and workers on this machine, and supervise them until they end",
       "Shows the progress, and at the end a table of results; writes logs, summary.json and "
       "the weights to the job's output_dir. The exit code is that of the job. SIGINT, SIGTERM "
       "or SIGHUP stop the job in order: it is evaluated and writes its weights.",
       {kJob},
       {kSetFlag,
        kRestartsFlag,
        kLogDirFlag,
        kFreePortsFlag,
        {"trace", "N", "0",
         "Record what every process does in N steps, up to 1000, in trace.json in the job's "
         "output_dir, which ui.perfetto.dev and chrome://tracing show; 0: nothing. The first ten "
         "steps are left out, if the job has enough."},
        {"fail", "ROLE.RANK:FAILPOINT", "",
         "Let a process fail on purpose, for drills: worker.1:disk.write=full. May be repeated; "
         "`tern_worker --fail list` describes the failpoints."}}},
      &RunJob};
}

Command InitCommand() {
  return {{"tern init",
           "write a first job file for your images",
           "Looks at the images, and writes a job that trains a network which suits their size and "
           "channels, with comments. Reads folders of JPEG and PNG, packed files, IDX and CIFAR; "
           "docs/DATA.md describes them. Never overwrites a file.",
           {{"DIR",
             "The folder with the images: with train/CLASS/FILE and test/CLASS/FILE, or "
             "with train.tpk, train-images-idx3-ubyte, data_batch_1.bin or train.bin."}},
           {{"job", "FILE", "job.yaml", "The file to write."}}},
          &InitJob};
}

Command SweepCommand() {
  return {
      {"tern sweep",
       "run a job with every combination of values of some keys, and compare the results",
       "Each run is a `tern run` in a folder of its own, one after the other. The table at the end "
       "has the best values first; sweep.csv has every run. The same command goes on after a stop "
       "or a kill: runs that are done are not run again. The exit code is that of the first run "
       "that failed.",
       {kJob},
       {{"grid", "KEY=VALUE,VALUE,...", "",
         "A key of the job and its values, such as train.schedule.learning_rate=0.01,0.1. May be "
         "repeated: all combinations are run."},
        {"seeds", "N", "0",
         "Run each combination with the seeds 1 to N; the table has means and standard "
         "deviations. 0: once, with the job's own seed."},
        {"out", "DIR", "", "The folder of the runs. Default: sweep in the job's output_dir."},
        kSetFlag}},
      &SweepJob};
}

Command FindLrCommand() {
  return {
      {"tern find_lr",
       "suggest a learning rate for a job: a range test and trials",
       "Trains the job's network for some steps while the learning rate grows exponentially, and "
       "takes a quarter of the rate at which the smoothed training loss, after its lowest value, "
       "has risen halfway back to the first loss. Then trains it from the beginning with the job's "
       "schedule, without warm-up, at this rate, a third and three times of it, further on while "
       "the "
       "best of all is the lowest or the highest, up to six trials, and suggests the one with the "
       "lowest loss at its end. Everything is written to the "
       "folder find_lr in the job's output_dir: find_lr.csv has the loss at each rate of the range "
       "test, find_lr.svg draws them. The job's own results stay as they are. The algorithm must "
       "have rounds.",
       {kJob},
       {{"steps", "N", "200", "The length of the test, in steps, 20 to 100000."},
        {"from", "RATE", "1e-5", "The learning rate of the first step."},
        {"to", "RATE", "10",
         "The learning rate of the last step. What follows a smoothed loss of more than 4 times "
         "the "
         "lowest so far does not count. The test ends before it if the training diverges."},
        {"trial_steps", "N", "200",
         "The length of a trial, in steps, 10 to 100000. 0: the range test alone suggests a rate."},
        kSetFlag}},
      &FindLearningRate};
}

Command WhitenCommand() {
  return {
      {"tern whiten",
       "compute the weights of a network's first layer, which whiten the images",
       "Writes the file that the job's model.weights names, with the weights of the first "
       "convolution alone: those with which its outputs, over all patches of the training "
       "images, are uncorrelated and of equal size. The job trains the other tensors, which "
       "model.new_tensors names, and may freeze this one. Never overwrites a file.",
       {kJob},
       {{"images", "N", "5000", "From how many of the training images, evenly spaced."}, kSetFlag}},
      &WhitenJob};
}

Command ClassifyCommand() {
  return {
      {"tern classify",
       "name the classes of images with trained weights",
       "Prints a line for each image: its path, its class and the probability of that class. The "
       "images are changed as the job's evaluation does (data.augmentation). Classes have the "
       "names "
       "in classes.txt beside the weights, or those of the job's data, or else their numbers. An "
       "image that cannot be read does not stop the others; the exit code is then 65. Needs no "
       "server and no test set; computes on the CPU.",
       {kJob, {"IMAGE", "A JPEG or PNG file.", false, true}},
       {{"weights", "FILE", "", "The weights of the network (safetensors). Required."},
        {"top", "N", "1", "How many classes to print, those with the highest probabilities."},
        kSetFlag}},
      &ClassifyImages};
}

constexpr PositionalDef kJobOrUrl = {
    "JOB|URL",
    "The file of a running job with metrics.port, or where it serves its page: http://HOST:PORT/ "
    "or HOST:PORT."};

Command TopCommand() {
  return {{"tern top",
           "show a running job in the terminal: its progress and each worker",
           "Keys: q quits, s sorts the workers by another column, p pauses. The terminal must have "
           "80 x 24 characters.",
           {kJobOrUrl},
           {kSetFlag}},
          &ShowTop};
}

Command StatusCommand() {
  return {{"tern status",
           "print the status of a running job once",
           "The same figures as `tern top`.",
           {kJobOrUrl},
           {kSetFlag, {"json", "", "", "Print status.json as the job serves it."}}},
          &ShowStatus};
}

Command CheckCommand() {
  return {
      {"tern check",
       "check a job; print what it sends, and the memory that it needs",
       "Checks every key, the network, the data and this machine, without starting a process. "
       "The first line says whether the job can run here. An invalid job is refused with all its "
       "faults, each with file and line.",
       {kJobOrStdin},
       {kSetFlag, {"verbose", "", "", "Print the job with every key, too, as `tern config`."}}},
      &CheckJob};
}

Command DoctorCommand() {
  return {
      {"tern doctor",
       "look at this machine as a member of a job: its limits, cores, disk, ports and links",
       "Prints a line for each finding: good; warn, if the job may be slow or fail later; bad, if "
       "it cannot run. Starts no daemon, and connects to servers on other machines without "
       "taking part. The exit code is that with which the job would end, or 0. The rates of links "
       "are not measured. `tern check` looks at the job and its data.",
       {kJob},
       {kSetFlag,
        {"workers", "RANKS", "",
         "The workers on this machine, such as 0-3,8. Default: all, if all servers have addresses "
         "of this machine; else 0."}}},
      &RunDoctor};
}

Command ConfigCommand() {
  return {{"tern config",
           "print a job with all defaults",
           "The output is YAML, a complete job file: the job's own keys, and the defaults of those "
           "that have an effect. A few whose default depends on other keys are left out.",
           {kJobOrStdin},
           {kSetFlag}},
          &PrintConfig};
}

Command KeysCommand() {
  return {
      {"tern keys make",
       "make the keys of a job with security: curve, in a new folder",
       "Writes a secret key for every server shard and worker, the list of their public keys, "
       "and a secret for checkpoints; prints which host needs which file.",
       {{"DIR", "The folder for the keys: a new one, or an empty one that only its user may use."}},
       {{"job", "JOB", "", "The file of the job that the keys are for. Required."}, kSetFlag}},
      &MakeKeys};
}

Command ModelCommand() {
  return {
      {"tern model",
       "print a network's layers, parameters and operations; or its definition",
       "The table has the shape of every layer's output for one image.",
       {kNet},
       {kChannelsFlag,
        kHeightFlag,
        kWidthFlag,
        kClassesFlag,
        kBatchNormFlag,
        kSetFlag,
        {"yaml", "", "", "Print the network as the section `model` of a job, to change it there."},
        {"json", "", "", "Print the network as JSON, which `tern convert onnx` reads."},
        {"netdef", "", "", "Print the network as protobuf text."}}},
      &ShowModel};
}

Command PackCommand() {
  return {
      {"tern convert pack",
       "pack images into train.tpk and test.tpk, which load faster than a folder",
       "Decodes every image once, so that the packed files have no damaged one. A job reads them "
       "with data.format: packed.",
       {{"DIR", "The folder with the images."}, {"OUT_DIR", "The folder for the packed files."}},
       {{"format", "folder|cifar10|cifar100|idx", "folder",
         "The format of the images, as the job's data.format."},
        {"max_corrupt", "N", "0",
         "Up to this many damaged images are left out; one more is an error."},
        {"threads", "N", "",
         "Threads that decode, 1 to 256. Default: as many as this machine has cores."}}},
      &ConvertPack};
}

Command OnnxCommand() {
  return {{"tern convert onnx",
           "write a network with trained weights as an ONNX file",
           "The ONNX model takes \"data\" [batch, channels, height, width] and gives \"scores\" "
           "[batch, "
           "classes], before softmax.",
           {kNet,
            {"WEIGHTS", "The file of the weights (safetensors)."},
            {"OUT", "The ONNX file to write."}},
           {kChannelsFlag, kHeightFlag, kWidthFlag, kClassesFlag, kBatchNormFlag, kSetFlag}},
          &ConvertOnnx};
}

Command ForecastCommand() {
  return {
      {"tern forecast",
       "measure one step; forecast the job's speed on other links, with other workers and codecs",
       "Times the job's network, codecs and messages on this machine for some seconds, and "
       "simulates "
       "the job's steps with these times. Tables of weak and strong scaling follow, and the "
       "bandwidth below which the job's codec is faster than fp32.",
       {{kJob.name, kJob.help, true}},
       {kSetFlag,
        {"job", "JOB", "", "The file of the job, in place of the argument."},
        {"link_mbit", "X,...", "1000", "Rates of the servers' links, in Mbit/s each way."},
        {"worker_link_mbit", "X", "",
         "Rate of the workers' links, in Mbit/s each way; 0: no limit. Default: as link_mbit."},
        {"latency_us", "X", "0", "Time that a packet travels one way, in microseconds."},
        {"burst_kib", "X", "0", "What a link may send at once beyond its rate, in KiB."},
        {"queue_ms", "X", "0", "How long a packet may wait in a link's queue, in milliseconds."},
        {"cores_shared", "N", "0",
         "Cores that servers and workers share, if they are on one machine; 0: each process has "
         "its "
         "own."},
        {"workers", "N,...", "1,2,4,8,16", "Numbers of workers, 1 to 1024."},
        {"workers_a_host", "N", "1",
         "How many workers a host has. They share its link; with exchange.host_sum it carries one "
         "push for all of them."},
        {"codecs", "NAME,...", "", "Codecs. Default: fp32 and the job's."},
        {"algorithms", "NAME,...", "", "Algorithms. Default: the job's."},
        {"compute_ms", "X", "0",
         "How long forward and backward of a step take in a program of yours (train.compute: "
         "client); other jobs are measured."},
        {"profile", "FILE", "", "Read the times from this file instead of measuring them."},
        {"save_profile", "FILE", "", "Write the times to this file (JSON)."},
        {"csv", "FILE", "", "Write the forecasts to this file (CSV)."},
        {"paper", "", "",
         "Print the performance model of the TernGrad paper instead of a forecast; takes no "
         "JOB."}}},
      &ForecastJob,
      "tern predict"};
}

Command DocsCommand() {
  return {{"tern generate_docs",
           "write the man pages and the completion of shells",
           "For packages: writes man/man1, man/man5, bash-completion/completions and "
           "zsh/site-functions.",
           {{"DIR", "The folder to write to, such as build/cpu/share."},
            {"REFERENCE", "The file configs/reference.yaml."}},
           {}},
          &GenerateDocs,
          "",
          true};
}

}  // namespace

const std::vector<Command>& Commands() {
  static const std::vector<Command> commands = {
      RunCommand(),    LaunchCommand(), MemberCommand(),   InitCommand(), SweepCommand(),
      FindLrCommand(), WhitenCommand(), ClassifyCommand(), TopCommand(),  StatusCommand(),
      CheckCommand(),  DoctorCommand(), ConfigCommand(),   KeysCommand(), ModelCommand(),
      PackCommand(),   OnnxCommand(),   ForecastCommand(), DocsCommand(), LaunchHostCommand()};
  return commands;
}

const Command& CommandCalled(const std::string& name) {
  const auto command = std::find_if(Commands().begin(), Commands().end(),
                                    [&](const Command& c) { return name == c.def.name; });
  CHECK(command != Commands().end()) << name;
  return *command;
}

}  // namespace tern::tools
