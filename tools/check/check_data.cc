#include "tools/check/check_data.h"

#include <memory>
#include <set>
#include <utility>

#include "common/algorithm/ranks.h"
#include "common/algorithm/rules.h"
#include "common/base/text.h"
#include "common/protocol/members/control.h"
#include "worker/data/epochs.h"
#include "worker/data/samples.h"
#include "worker/data/summary.h"

namespace tern::tools {
namespace {

using SamplesPointer = std::unique_ptr<data::Samples>;

std::string ShapeText(const data::Samples& samples) {
  return Cat(samples.channels(), " x ", samples.size().height, " x ", samples.size().width);
}

// `job`: setup.job with the overrides of a rank, as in the functions below.
Status CheckShape(const setup::Setup& setup, const pb::Job& job, const data::Samples& samples,
                  const std::string& name) {
  const pb::ImageShape& input = setup.net.input();
  const uint32_t num_classes = samples.dataset().classes;
  if (samples.channels() == input.channels() && samples.size().height == input.height() &&
      samples.size().width == input.width() && num_classes <= setup.net.classes()) {
    return Ok();
  }
  return Status(Code::kBadData,
                Cat("the ", name, " images in ", job.data().dir(), " are ", ShapeText(samples),
                    " with ", num_classes, " classes; the model takes ", input.channels(), " x ",
                    input.height(), " x ", input.width(), " and ", setup.net.classes()));
}

// Appends how many steps an epoch of the images has.
Status AddSteps(const pb::Job& job, uint64_t num_images, std::string* text) {
  data::Epochs::Options options = data::Epochs::OptionsOf(job);
  options.num_images = num_images;
  const Result<data::Epochs> epochs = data::Epochs::Make(options);
  if (!epochs.ok()) return epochs.status();
  *text += Cat(", ", epochs->steps_per_epoch(), " steps an epoch");
  const std::string warning = algorithm::WarningOfAlgorithm(job, epochs->steps_per_epoch());
  if (!warning.empty() && algorithm::WarningOfAlgorithm(job).empty())  // else it is the job's
    *text += "\nwarning: " + warning;
  return data::StepsOfJob(job, *epochs).status();
}

// Reads a set, checks it, and appends its line to `text`.
Result<SamplesPointer> ReadSet(const setup::Setup& setup, const pb::Job& job, data::Split split,
                               std::string* text) {
  const std::string name = split == data::Split::kTrain ? "training" : "test";
  data::ReadOptions options;
  options.channels = setup.net.input().channels();
  options.warn = [text](const std::string& sentence) { *text += sentence + "\n"; };
  Result<SamplesPointer> samples = data::Samples::Read(job.data(), job.seed(), split, options);
  if (!samples.ok()) return samples;
  *text += Cat(name, " images: ", (*samples)->count(), " of ", ShapeText(**samples), ", ",
               (*samples)->dataset().classes, " classes");
  TERN_RETURN_IF_ERROR(CheckShape(setup, job, **samples, name));
  if (split == data::Split::kTrain) {
    TERN_RETURN_IF_ERROR(AddSteps(job, (*samples)->count(), text));
    if (const uint32_t classes = (*samples)->dataset().classes; classes < setup.net.classes())
      *text += Cat("\nwarning: the model has ", setup.net.classes(), " classes, of which the last ",
                   setup.net.classes() - classes, " have no image");
  }
  *text += "\n";
  return samples;
}

// Reads both sets of a rank, and appends their lines to `text`. Returns what the worker's hello
// says of them.
Result<pb::Hello> ReadSets(const setup::Setup& setup, uint32_t rank, const pb::Job& job,
                           std::string* text) {
  const Result<SamplesPointer> training = ReadSet(setup, job, data::Split::kTrain, text);
  if (!training.ok()) return training.status();
  const Result<SamplesPointer> test = ReadSet(setup, job, data::Split::kTest, text);
  if (!test.ok()) return test.status();
  const data::Summary summary = data::Summarize((*training)->dataset(), (*test)->dataset());
  pb::Hello hello;
  hello.set_rank(rank);
  hello.set_data_digest(summary.digest);
  hello.set_data_text(summary.text);
  return hello;
}

}  // namespace

Result<std::string> DescribeData(const setup::Setup& setup) {
  std::string text;
  if (setup::HasForeignTable(setup.job)) return text;  // The program has the data.
  const pb::Job first_job = config::JobForRank(setup.job, 0);
  const Result<pb::Hello> first = ReadSets(setup, 0, first_job, &text);
  if (!first.ok()) return first.status();
  std::set<std::string> folders = {first_job.data().dir()};
  for (uint32_t rank = 1; rank < algorithm::NumRanks(setup.job); ++rank) {
    const pb::Job job = config::JobForRank(setup.job, rank);
    if (!folders.insert(job.data().dir()).second) continue;
    std::string same_lines;
    const Result<pb::Hello> other = ReadSets(setup, rank, job, &same_lines);
    if (!other.ok()) return other.status().Within(Cat("worker ", rank));
    const std::string difference = protocol::DataDifference(*other, *first);
    if (!difference.empty()) return Status(Code::kMismatch, difference).Within(job.data().dir());
    text += Cat("worker ", rank, " has the same in ", job.data().dir(), "\n");
  }
  return text;
}

}  // namespace tern::tools
