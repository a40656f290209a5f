// tern init: looks at images, and writes a job for them.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/base/cpus.h"
#include "common/base/shell_word.h"
#include "common/base/text.h"
#include "tools/commands.h"
#include "tools/init/image_facts.h"

namespace tern::tools {
namespace {

// A network, and the height and width of the images that it gets.
struct ChosenModel {
  std::string name;
  uint32_t side = 0;
};

// Whether the images are like those of MNIST, which LeNet takes as they are.
bool AreLikeMnist(const ImageFacts& facts) {
  return facts.channels == 1 && facts.common_size == data::Size{28, 28};
}

ChosenModel ChooseModel(const ImageFacts& facts) {
  if (AreLikeMnist(facts)) return {"lenet", 28};
  if (facts.shorter_side <= 40) return {"resnet20", 32};
  if (facts.shorter_side <= 100) return {"resnet18_v2", 64};
  return {"resnet18_v2", 224};
}

std::string NumberList(const std::vector<double>& numbers) {
  std::vector<std::string> texts;
  for (const double number : numbers) texts.push_back(FormatFixed(number, 4));
  return Cat("[", Join(texts), "]");
}

// A text in double quotes of YAML.
std::string InQuotes(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(c));
    const bool is_special = c == '"' || c == '\\' || (c >= 0 && c < 0x20) || c == 0x7f;
    quoted += is_special ? std::string(escape) : std::string(1, c);
  }
  return quoted + "\"";
}

// A name for the job: that of the folder, as far as it is letters and digits.
std::string NameFor(const std::string& folder) {
  std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::string name;
  for (const char c : path.filename().string()) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (is_plain) name += c;
    if (!is_plain && !name.empty() && name.back() != '_') name += '_';
  }
  while (name.ends_with('_')) name.pop_back();
  return name.empty() ? "my_images" : name;
}

std::string AugmentationText(const ImageFacts& facts, uint32_t side) {
  if (AreLikeMnist(facts)) return "";  // A mirror would make other letters.
  const std::string start = Cat("  augmentation: {height: ", side, ", width: ", side);
  const std::string end = ", random_crop: true, mirror: true}\n";
  const std::string comment =
      "  # Random crops and mirror images. Set mirror to false if left and right matter, as in "
      "text.\n";
  if (facts.common_size == data::Size{side, side})
    return Cat(comment, start, ", pad: ", side / 8, end);
  return Cat(comment, start, ", resize_shorter: ", side + side / 8, end);
}

std::string DamagedText(const ImageFacts& facts) {
  if (facts.damaged_count == 0) return "";
  return Cat(
      "  # Damaged images, which are left out. If a worker meets one more, of the training or of "
      "the\n"
      "  # test images, the job ends.\n  max_corrupt: ",
      facts.damaged_count, "\n");
}

std::string DataText(const pb::Data& data, const ImageFacts& facts, uint32_t side) {
  return Cat("\n# ", facts.train_count, " training and ", facts.test_count, " test images in ",
             facts.classes, " classes; the median of their shorter sides is ", facts.shorter_side,
             " pixels.\n", "data:\n  format: ", pb::Data::Format_Name(data.format()),
             "\n  dir: ", InQuotes(data.dir()),
             "   # as seen from the folder in which programs run\n", DamagedText(facts),
             "  # Of the pixels of ", facts.decoded_count, " training images, by channel.\n",
             "  mean: ", NumberList(facts.mean), "\n  std: ", NumberList(facts.deviation), "\n",
             AugmentationText(facts, side));
}

std::string TrainText(uint64_t train_count, uint64_t batch) {
  return Cat(
      "\ntrain:\n  batch_total: ", batch, "   # images a step, of all workers together\n",
      "  epochs: 20\n  optimizer: {name: momentum, momentum: 0.9}\n",
      "  # The learning rate falls to 0 at the end. Lower it if training diverges.\n",
      "  schedule: {name: cosine, learning_rate: 0.05}\n  weight_decay: {rate: 0.0001}\n",
      "\n# How gradients travel: ternary codes take few bytes; fp32 sends them as they are.\n",
      "exchange: {codec: ternary}\n",
      "\n# Every epoch. A job that was stopped goes on from the newest checkpoint.\n",
      "checkpoints: {every_steps: ", std::max<uint64_t>(1, train_count / batch), "}\n");
}

// A job of two workers on this machine; of one worker if there is only one image.
std::string JobText(const std::string& path, const pb::Data& data, const ImageFacts& facts) {
  constexpr uint64_t kUsualBatch = 64;
  const uint64_t num_workers = facts.train_count == 1 ? 1 : 2;
  const Result<std::vector<uint32_t>> cpus = CpusOfThisThread();
  const uint64_t num_threads = std::max<uint64_t>(1, cpus.ok() ? cpus->size() / num_workers : 1);
  const ChosenModel model = ChooseModel(facts);
  const uint64_t batch =
      std::clamp(facts.train_count / num_workers * num_workers, num_workers, kUsualBatch);
  const std::string name = NameFor(data.dir());
  // A line of the file's head must stay one.
  const bool is_line =
      std::none_of(path.begin(), path.end(), [](unsigned char c) { return c < ' '; });
  const std::string file = is_line ? ShellWord(path) : Printable(ShellWord(path), 200);
  return Cat(
      "# Made by tern init. configs/reference.yaml and the man page tern-job describe every "
      "key.\n#   tern check ",
      file,
      "   whether it can run here, and what it costs\n#   tern "
      "run ",
      file, "     trains\nname: ", name, "\noutput_dir: out/", name,
      "   # weights, figures, logs and checkpoints\n",
      "\n# One server and its workers on this machine. docs/HOSTS.md tells of several.\n",
      "servers: [{address: \"127.0.0.1:7540\"}]\nworkers: {count: ", num_workers,
      ", threads: ", num_threads, "}\n", "\n# tern model ", model.name,
      " shows its layers; docs/NETWORKS.md lists others.\nmodel: {name: ", model.name,
      ", input_channels: ", facts.channels, ", input_height: ", model.side,
      ", input_width: ", model.side, ", classes: ", facts.classes, "}\n",
      DataText(data, facts, model.side), TrainText(facts.train_count, batch));
}

Status FileExistsError(const std::string& path) {
  return Status(Code::kCannotWrite, Cat(Printable(path, 200),
                                        ": saw a file there, and files are never overwritten: "
                                        "choose another with --job"));
}

// Writes a file that does not exist yet.
Status WriteNewFile(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wxe");
  if (file == nullptr && errno == EEXIST) return FileExistsError(path);
  int error = errno;
  if (file != nullptr) {
    bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    error = errno;
    is_written = std::fclose(file) == 0 && is_written;
    if (is_written) return Ok();
    std::remove(path.c_str());
  }
  return Status(Code::kCannotWrite,
                Cat("cannot write ", Printable(path, 200), ": ", std::string(std::strerror(error)),
                    "; choose a folder that can be written"));
}

}  // namespace

Status InitJob(const Arguments& arguments) {
  const std::string path = arguments.LastValue("job");
  std::error_code ignored_error;  // If the file is not seen here, it is when it is written.
  if (std::filesystem::exists(path, ignored_error)) return FileExistsError(path);
  const Result<pb::Data> data = FindImages(arguments.positional()[0]);
  if (!data.ok()) return data.status();
  const Result<ImageFacts> facts = LookAtImages(*data);
  if (!facts.ok()) return facts.status();
  TERN_RETURN_IF_ERROR(WriteNewFile(path, JobText(path, *data, *facts)));
  const std::string file = ShellWord(path);
  std::printf("%s", Cat("wrote ", path, ": ", ChooseModel(*facts).name, " for ", facts->train_count,
                        " images in ", facts->classes, " classes; next: tern check ", file,
                        ", tern run ", file, "\n")
                        .c_str());
  return Ok();
}

}  // namespace tern::tools
