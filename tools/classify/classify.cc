// tern classify: names the classes of images with the weights of a job.
#include "worker/classify.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include "common/base/text.h"
#include "setup/setup.h"
#include "tools/commands.h"

namespace tern::tools {
namespace {

constexpr uint32_t kMaxClasses = 65'536;

// One line: the path, and the `num_best` classes with the highest probabilities. Of equal ones, the
// class with the lower number comes first.
std::string LineOf(const std::string& image_path, const std::vector<double>& probabilities,
                   size_t num_best, const worker::Classifier& classifier) {
  std::vector<size_t> classes(probabilities.size());
  std::iota(classes.begin(), classes.end(), size_t{0});
  std::stable_sort(classes.begin(), classes.end(),
                   [&](size_t a, size_t b) { return probabilities[a] > probabilities[b]; });
  classes.resize(std::min(num_best, classes.size()));
  std::vector<std::string> best;
  for (const size_t number : classes) {
    best.push_back(Cat(classifier.NameOf(number), " ", FormatFixed(probabilities[number], 4)));
  }
  return Cat(image_path, ": ", Join(best));
}

}  // namespace

Status ClassifyImages(const Arguments& arguments) {
  const std::string weights_path = arguments.LastValue("weights");
  if (weights_path.empty()) {
    return Status(Code::kUsage,
                  "tern classify: --weights FILE is missing: the weights of the network, such as "
                  "weights.safetensors in the job's output_dir");
  }
  const Result<uint32_t> num_best = arguments.NumberValue("top", kMaxClasses);
  if (!num_best.ok()) return num_best.status();
  if (*num_best == 0)
    return Status(Code::kUsage, "--top: saw 0; allowed: a whole number, 1 or more");
  const std::vector<std::string>& positional = arguments.positional();
  const auto setup = setup::MakeSetup(positional.front(), arguments.AllValues("set"));
  if (!setup.ok()) return setup.status();
  const auto classifier = worker::Classifier::Make(**setup, weights_path);
  if (!classifier.ok()) return classifier.status();
  size_t num_failed = 0;
  for (size_t i = 1; i < positional.size(); ++i) {
    const Result<std::vector<double>> probabilities = (*classifier)->Classify(positional[i]);
    if (probabilities.ok()) {
      std::printf("%s\n", LineOf(positional[i], *probabilities, *num_best, **classifier).c_str());
      continue;
    }
    ++num_failed;
    std::fflush(stdout);
    std::fprintf(stderr, "tern: %s\n", probabilities.status().message().c_str());
  }
  if (num_failed == 0) return Ok();
  return Status(Code::kBadData, Cat(num_failed, " of ", positional.size() - 1,
                                    " images could not be classified; the lines above say why"));
}

}  // namespace tern::tools
