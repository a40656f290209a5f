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

constexpr double kBound = 1e-4;  // relative to the largest element of a tensor
// The same values as in make_golden.py.
constexpr size_t kPicked = 256, kParts = 32;
constexpr double kZero = 1e-9;
constexpr uint32_t kImages = 255;  // the argument `tensor` of Draw for the images

const tensors::TensorFile& File() {
  static const tensors::TensorFile file = [] {
    // The variable is set if the file is not in the source tree.
    const char* elsewhere = std::getenv("TERN_GOLDEN_FILE");
    auto read = tensors::ReadSafetensors(elsewhere != nullptr ? elsewhere : TERN_GOLDEN_FILE);
    EXPECT_TRUE(read.ok()) << read.status().message();
    return read.ok() ? std::move(*read) : tensors::TensorFile();
  }();
  return file;
}

// A random multiple of 2^-23, uniform in [-1, 1): the splitmix64 hash of the three arguments.
double Draw(uint64_t seed, uint64_t tensor, uint64_t element) {
  uint64_t z = ((seed << 40) + (tensor << 32) + element) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  z ^= z >> 31;
  return static_cast<double>(z >> 40) * 0x1p-23 - 1;
}

// A net of the file with its parameters and its batch.
class Case {
 public:
  explicit Case(const std::string& name)
      : name_(name), about_(Json::parse(File().metadata.at(name))) {
    pb::Model model;
    EXPECT_TRUE(
        google::protobuf::util::JsonStringToMessage(about_["net"].dump(), model.mutable_net())
            .ok());
    auto net = models::BuildNet(model, model.net().input(), model.net().classes());
    EXPECT_TRUE(net.ok()) << net.status().message();
    net_ = std::move(*net);
    table_ = *models::MakeParameterTable(net_);
    samples_ = about_["samples"];
    labels_ = about_["labels"].get<std::vector<uint32_t>>();
    parameters_.resize(table_.total);
    gradients_.resize(table_.total, std::numeric_limits<float>::quiet_NaN());
    statistics_.resize(table_.statistics_total);
    Fill();
    FillImages();
    for (const tensors::Tensor& tensor : File().tensors)
      if (tensor.name.starts_with(name + "/"))
        golden_[tensor.name.substr(name.size() + 1)] = &tensor;
  }

  // log softmax of every sample's scores, computed from the losses for each label in turn.
  void ExpectScores() {
    auto net = Make(false);
    std::vector<double> scores;
    std::vector<float> images = images_;
    const auto one = static_cast<ptrdiff_t>(images.size() / samples_);
    for (uint32_t n = 0; n < samples_; ++n) {
      for (uint32_t label = 0; label < net_.classes(); ++label) {
        const std::vector<uint32_t> labels(samples_, label);
        Score score;
        net->Forward({images, labels, 1}, &score);
        scores.push_back(-score.loss);
      }
      std::rotate(images.begin(), images.begin() + one, images.end());
    }
    if (Smoothing() == 0) Expect("scores", scores);
  }

  void ExpectStep() {
    auto net = Make(true);
    const double loss = net->Forward({images_, labels_, samples_}, nullptr);
    net->Backward(nullptr);
    Expect("loss", {loss});
    for (const models::Parameter& p : table_.parameters)
      Expect(p.name, Doubles(gradients_, p.offset, p.count));
    for (const models::Statistic& s : table_.statistics)
      Expect(s.name, Doubles(statistics_, s.offset, s.count));
  }

  double worst() const { return worst_; }

 private:
  static std::vector<double> Doubles(const std::vector<float>& from, uint64_t at, uint64_t count) {
    const auto begin = from.begin() + static_cast<ptrdiff_t>(at);
    return {begin, begin + static_cast<ptrdiff_t>(count)};
  }

  float Smoothing() const {
    return net_.layers(net_.layers_size() - 1).softmax_loss().label_smoothing();
  }

  std::unique_ptr<Net> Make(bool training) {
    auto made =
        Net::Make(net_, {.device = DeviceUnderTest(), .batch = samples_, .training = training},
                  {parameters_.data(), training ? gradients_.data() : nullptr, statistics_.data()});
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::move(*made);
  }

  void Fill() {
    const uint64_t seed = about_["seed"];
    uint64_t tensor = 0;
    const auto& fills = about_["fills"];
    // In PyTorch's order: a norm's weight, bias, running mean and variance.
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
    images_.resize(size_t{samples_} * image.channels() * image.height() * image.width());
    const bool one_hot = about_["one_hot"];
    for (size_t i = 0; i < images_.size(); ++i) {
      images_[i] = one_hot ? static_cast<float>(i % (samples_ + 1) == 0)
                           : static_cast<float>(Draw(about_["seed"], kImages, i));
    }
  }

  // All values, or, of a large tensor, those in the file: some elements, and sums and norms of
  // parts.
  void Expect(const std::string& key, const std::vector<double>& ours) {
    if (golden_.contains(key)) return Compare(key, ours);
    std::vector<double> picked, sums, norms;
    for (size_t i = 0; i < kPicked; ++i) picked.push_back(ours[i * ours.size() / kPicked]);
    for (size_t part = 0; part < kParts; ++part) {
      double sum = 0, squares = 0;
      for (size_t i = ours.size() * part / kParts; i < ours.size() * (part + 1) / kParts; ++i) {
        sum += ours[i];
        squares += ours[i] * ours[i];
      }
      sums.push_back(sum);
      norms.push_back(std::sqrt(squares));
    }
    Compare(key + "#picked", picked);
    Compare(key + "#sums", sums);
    Compare(key + "#norms", norms);
  }

  void Compare(const std::string& key, const std::vector<double>& ours) {
    ASSERT_TRUE(golden_.contains(key)) << key;
    const std::vector<float>& theirs = golden_.at(key)->values;
    ASSERT_EQ(ours.size(), theirs.size()) << key;
    double scale = LargestOf(theirs), off = 0;
    if (scale < kZero) {
      for (const auto& [name, tensor] : golden_) scale = std::max(scale, LargestOf(tensor->values));
    }
    size_t at = 0;
    for (size_t i = 0; i < ours.size(); ++i) {
      const double difference = std::abs(ours[i] - theirs[i]);
      if (!(difference <= off)) {  // also true for a NaN
        off = difference;
        at = i;
      }
    }
    worst_ = std::max(worst_, off / scale);
    EXPECT_LE(off / scale, kBound)
        << name_ << ", " << key << "[" << at << "]: " << ours[at] << ", PyTorch has " << theirs[at];
  }

  static double LargestOf(const std::vector<float>& values) {
    double largest = 0;
    for (const float value : values) largest = std::max<double>(largest, std::abs(value));
    return largest;
  }

  const std::string name_;
  const Json about_;
  pb::NetDef net_;
  models::ParameterTable table_;
  uint32_t samples_ = 0;
  std::vector<uint32_t> labels_;
  std::vector<float> parameters_, gradients_, statistics_, images_;
  std::map<std::string, const tensors::Tensor*> golden_;
  double worst_ = 0;
};

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& [name, about] : File().metadata) names.push_back(name);
  return names;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, MatchesPyTorch) {
  Case one(GetParam());
  one.ExpectScores();
  one.ExpectStep();
  RecordProperty("largest_error_in_millionths", std::to_string(one.worst() * 1e6));
}

INSTANTIATE_TEST_SUITE_P(Nets, Golden, testing::ValuesIn(Names()),
                         [](const auto& info) { return info.param; });

TEST(GoldenFile, ContainsEveryKindOfLayerAndIsSmall) {
  EXPECT_GE(Names().size(), 90u);
  for (const char* kind : {"conv", "maxPool", "avgPool", "dense", "relu", "batchNorm", "lrn",
                           "concat", "add", "standardize", "softmaxLoss"}) {
    const bool found =
        std::any_of(File().metadata.begin(), File().metadata.end(), [&](const auto& entry) {
          return entry.second.find(std::string("\"") + kind + "\":") != std::string::npos;
        });
    EXPECT_TRUE(found) << kind;
  }
  size_t elements = 0;
  for (const tensors::Tensor& tensor : File().tensors) elements += tensor.values.size();
  EXPECT_LT(elements * sizeof(float), 1'000'000u);
}

}  // namespace
}  // namespace tern::engine
