// The engine against PyTorch: the nets of tests/torch/golden_cases.py, with the results that
// make_golden.py computed with PyTorch in double precision.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "common/tensors/safetensors.h"
#include "models/graph/shapes.h"
#include "models/models.h"
#include "tests/worker/engine/problem.h"
#include "worker/engine/net.h"

namespace tern::engine {
namespace {

using Json = nlohmann::json;

constexpr double kErrorBound = 1e-4;  // relative to the largest magnitude in a tensor
// The next two constants are equal to PICKED and PARTS of make_golden.py.
constexpr size_t kPickedElements = 256, kSumRanges = 32;
// If all magnitudes in a tensor are below this bound, its errors are relative to the largest
// magnitude in all tensors of the net.
constexpr double kNegligible = 1e-9;
constexpr uint32_t kTensorOfImages = 255;  // the argument `tensor` of Draw for the images

const tensors::TensorFile& GoldenTensors() {
  static const tensors::TensorFile file = [] {
    // This environment variable is set if the file is not in the source tree.
    const char* other_path = std::getenv("TERN_GOLDEN_FILE");
    auto contents = tensors::ReadSafetensors(other_path != nullptr ? other_path : TERN_GOLDEN_FILE);
    EXPECT_TRUE(contents.ok()) << contents.status().message();
    return contents.ok() ? std::move(*contents) : tensors::TensorFile();
  }();
  return file;
}

// A random multiple of 2^-23, uniform in [-1, 1), made from the splitmix64 hash of the arguments.
double Draw(uint64_t seed, uint64_t tensor, uint64_t element) {
  uint64_t z = ((seed << 40) + (tensor << 32) + element) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  z ^= z >> 31;
  return static_cast<double>(z >> 40) * 0x1p-23 - 1;
}

// A net of the golden file with its parameters, its batch and PyTorch's results.
class GoldenCase {
 public:
  explicit GoldenCase(const std::string& name)
      : name_(name), description_(Json::parse(GoldenTensors().metadata.at(name))) {
    pb::Model model;
    EXPECT_TRUE(
        google::protobuf::util::JsonStringToMessage(description_["net"].dump(), model.mutable_net())
            .ok());
    auto net = models::BuildNet(model, model.net().input(), model.net().classes());
    EXPECT_TRUE(net.ok()) << net.status().message();
    net_ = std::move(*net);
    table_ = *models::MakeParameterTable(net_);
    num_samples_ = description_["samples"];
    labels_ = description_["labels"].get<std::vector<uint32_t>>();
    parameters_.resize(table_.total);
    gradients_.resize(table_.total, std::numeric_limits<float>::quiet_NaN());
    statistics_.resize(table_.statistics_total);
    FillArrays();
    FillImages();
    for (const tensors::Tensor& tensor : GoldenTensors().tensors)
      if (tensor.name.starts_with(name + "/"))
        golden_tensors_[tensor.name.substr(name.size() + 1)] = &tensor;
  }

  // If the net does not smooth labels, compares the log softmax of every sample's scores. The net
  // reports only losses: the loss of a sample with label c is minus the log softmax of score c, so
  // each label is evaluated in turn.
  void ExpectScores() {
    auto net = MakeNet(false);
    std::vector<double> scores;
    std::vector<float> images = images_;
    const auto image_elements = static_cast<ptrdiff_t>(images.size() / num_samples_);
    for (uint32_t n = 0; n < num_samples_; ++n) {
      for (uint32_t label = 0; label < net_.classes(); ++label) {
        const std::vector<uint32_t> labels(num_samples_, label);
        Score score;
        net->Forward({images, labels, 1}, &score);
        scores.push_back(-score.loss);
      }
      std::rotate(images.begin(), images.begin() + image_elements, images.end());
    }
    if (LabelSmoothing() == 0) ExpectNearGolden("scores", scores);
  }

  void ExpectStep() {
    auto net = MakeNet(true);
    const double loss = net->Forward({images_, labels_, num_samples_}, nullptr);
    net->Backward(nullptr);
    ExpectNearGolden("loss", {loss});
    for (const models::Parameter& p : table_.parameters)
      ExpectNearGolden(p.name, ToDoubles(gradients_, p.offset, p.count));
    for (const models::Statistic& s : table_.statistics)
      ExpectNearGolden(s.name, ToDoubles(statistics_, s.offset, s.count));
  }

  double largest_relative_error() const { return largest_relative_error_; }

 private:
  static std::vector<double> ToDoubles(const std::vector<float>& values, uint64_t offset,
                                       uint64_t count) {
    const auto begin = values.begin() + static_cast<ptrdiff_t>(offset);
    return {begin, begin + static_cast<ptrdiff_t>(count)};
  }

  float LabelSmoothing() const {
    return net_.layers(net_.layers_size() - 1).softmax_loss().label_smoothing();
  }

  std::unique_ptr<Net> MakeNet(bool training) {
    auto net = Net::Make(
        net_, {.device = DeviceUnderTest(), .batch = num_samples_, .is_training = training},
        {parameters_.data(), training ? gradients_.data() : nullptr, statistics_.data()});
    EXPECT_TRUE(net.ok()) << net.status().message();
    return std::move(*net);
  }

  void FillArrays() {
    const uint64_t seed = description_["seed"];
    uint64_t tensor = 0;
    const auto& fills = description_["fills"];
    // `fills` has PyTorch's order; for a batch norm: weight, bias, running mean, running variance.
    std::map<std::string, std::pair<float*, uint64_t>> arrays;
    for (const models::Parameter& p : table_.parameters)
      arrays[p.name] = {parameters_.data() + p.offset, p.count};
    for (const models::Statistic& s : table_.statistics)
      arrays[s.name] = {statistics_.data() + s.offset, s.count};
    ASSERT_EQ(fills.size(), arrays.size());
    for (const auto& fill : fills) {
      const auto& [values, count] = arrays.at(fill[0].get<std::string>());
      const double centre = fill[1], width = fill[2];
      for (uint64_t i = 0; i < count; ++i)
        values[i] = static_cast<float>(centre + width * Draw(seed, tensor, i));
      ++tensor;
    }
  }

  void FillImages() {
    const pb::ImageShape& image = net_.input();
    images_.resize(size_t{num_samples_} * image.channels() * image.height() * image.width());
    const bool is_one_hot = description_["one_hot"];
    for (size_t i = 0; i < images_.size(); ++i) {
      images_[i] = is_one_hot ? static_cast<float>(i % (num_samples_ + 1) == 0)
                              : static_cast<float>(Draw(description_["seed"], kTensorOfImages, i));
    }
  }

  // Compares values with PyTorch's. Of a large tensor the file has only some elements, and the
  // sums and norms of ranges.
  void ExpectNearGolden(const std::string& key, const std::vector<double>& our_values) {
    if (golden_tensors_.contains(key)) return CompareWithGolden(key, our_values);
    std::vector<double> picked_values, sums, norms;
    for (size_t i = 0; i < kPickedElements; ++i)
      picked_values.push_back(our_values[i * our_values.size() / kPickedElements]);
    for (size_t range = 0; range < kSumRanges; ++range) {
      double sum = 0, squares = 0;
      for (size_t i = our_values.size() * range / kSumRanges;
           i < our_values.size() * (range + 1) / kSumRanges; ++i) {
        sum += our_values[i];
        squares += our_values[i] * our_values[i];
      }
      sums.push_back(sum);
      norms.push_back(std::sqrt(squares));
    }
    CompareWithGolden(key + "#picked", picked_values);
    CompareWithGolden(key + "#sums", sums);
    CompareWithGolden(key + "#norms", norms);
  }

  void CompareWithGolden(const std::string& key, const std::vector<double>& our_values) {
    ASSERT_TRUE(golden_tensors_.contains(key)) << key;
    const std::vector<float>& their_values = golden_tensors_.at(key)->values;
    ASSERT_EQ(our_values.size(), their_values.size()) << key;
    double scale = LargestMagnitudeOf(their_values), largest_error = 0;
    if (scale < kNegligible) {
      for (const auto& [name, tensor] : golden_tensors_)
        scale = std::max(scale, LargestMagnitudeOf(tensor->values));
    }
    size_t worst_element = 0;
    for (size_t i = 0; i < our_values.size(); ++i) {
      const double difference = std::abs(our_values[i] - their_values[i]);
      if (!(difference <= largest_error)) {  // also true for a NaN
        largest_error = difference;
        worst_element = i;
      }
    }
    largest_relative_error_ = std::max(largest_relative_error_, largest_error / scale);
    EXPECT_LE(largest_error / scale, kErrorBound)
        << name_ << ", " << key << "[" << worst_element << "]: " << our_values[worst_element]
        << ", PyTorch has " << their_values[worst_element];
  }

  static double LargestMagnitudeOf(const std::vector<float>& values) {
    double largest = 0;
    for (const float value : values) largest = std::max<double>(largest, std::abs(value));
    return largest;
  }

  const std::string name_;
  const Json description_;
  pb::NetDef net_;
  models::ParameterTable table_;
  uint32_t num_samples_ = 0;
  std::vector<uint32_t> labels_;
  std::vector<float> parameters_, gradients_, statistics_, images_;
  std::map<std::string, const tensors::Tensor*> golden_tensors_;
  double largest_relative_error_ = 0;
};

std::vector<std::string> CaseNames() {
  std::vector<std::string> names;
  for (const auto& [name, description] : GoldenTensors().metadata) names.push_back(name);
  return names;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, MatchesPyTorch) {
  GoldenCase golden_case(GetParam());
  golden_case.ExpectScores();
  golden_case.ExpectStep();
  RecordProperty("largest_error_in_millionths",
                 std::to_string(golden_case.largest_relative_error() * 1e6));
}

INSTANTIATE_TEST_SUITE_P(Nets, Golden, testing::ValuesIn(CaseNames()),
                         [](const auto& info) { return info.param; });

TEST(GoldenFile, ContainsEveryKindOfLayerAndIsSmall) {
  EXPECT_GE(CaseNames().size(), 90u);
  for (const char* kind : {"conv", "maxPool", "avgPool", "dense", "relu", "gelu", "scale",
                           "batchNorm", "lrn", "concat", "add", "standardize", "softmaxLoss"}) {
    const bool is_found = std::any_of(
        GoldenTensors().metadata.begin(), GoldenTensors().metadata.end(), [&](const auto& entry) {
          return entry.second.find(std::string("\"") + kind + "\":") != std::string::npos;
        });
    EXPECT_TRUE(is_found) << kind;
  }
  size_t num_elements = 0;
  for (const tensors::Tensor& tensor : GoldenTensors().tensors)
    num_elements += tensor.values.size();
  EXPECT_LT(num_elements * sizeof(float), 1'000'000u);
}

}  // namespace
}  // namespace tern::engine
