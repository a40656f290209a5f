#include "models/graph/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "models/graph/arena.h"
#include "models/graph/shapes.h"
#include "tests/models/net_text.h"

namespace tern::models {
namespace {

using testing::HasSubstr;

pb::NetDef NetWithClasses(uint32_t classes) {
  return *BuildNetOfLayers(
      "layers { name: 'conv' conv { outputs: 4 kernel: 3 } } layers { name: 'norm' batch_norm {} }"
      "layers { name: 'fc' dense { outputs: " +
          std::to_string(classes) + " } } layers { name: 'loss' softmax_loss {} }",
      MakeImageShape(1, 8, 8), classes);
}

// The weights of a net, trained or not, as a file.
tensors::TensorFile FileOf(const ParameterTable& table, const Weights& weights) {
  std::vector<tensors::TensorView> views = ViewArena(table, weights.parameters.data());
  for (auto& view : ViewFrozen(table, weights.frozen.data())) views.push_back(view);
  for (auto& view : ViewStatistics(table, weights.statistics.data())) views.push_back(view);
  return *tensors::DecodeSafetensors(tensors::EncodeSafetensors(views, {}));
}

// Random weights whose statistics are not those of a new net.
Weights TrainedWeights(const ParameterTable& table, uint64_t seed) {
  Weights weights = RandomWeights(table, seed);
  for (float& value : weights.statistics) value += 0.25f;
  return weights;
}

TEST(Weights, OfARandomNetAreTheSameWhateverIsFrozen) {
  const ParameterTable whole = *MakeParameterTable(NetWithClasses(3)),
                       divided = *MakeParameterTable(NetWithClasses(3), {"conv.*", "fc.bias"});
  const Weights all = RandomWeights(whole, 9), parts = RandomWeights(divided, 9);
  for (const auto& [list, arena] : {std::pair{&divided.parameters, &parts.parameters},
                                    std::pair{&divided.frozen, &parts.frozen}}) {
    for (const Parameter& p : *list)
      EXPECT_TRUE(std::equal(&(*arena)[p.offset], &(*arena)[p.offset] + p.count,
                             &all.parameters[whole.parameters[p.number].offset]))
          << p.name;
  }
}

TEST(Weights, OfAFileAreAllTaken) {
  const ParameterTable table = *MakeParameterTable(NetWithClasses(3), {"conv.*"});
  const Weights trained = TrainedWeights(table, 1);
  const auto weights = WeightsFromFile(FileOf(table, trained), table, 2, {});
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  EXPECT_EQ(weights->parameters, trained.parameters);
  EXPECT_EQ(weights->frozen, trained.frozen);
  EXPECT_EQ(weights->statistics, trained.statistics);
  EXPECT_EQ(WeightsDigest(*weights), WeightsDigest(trained));
  Weights other = trained;
  other.statistics.back() += 1;
  EXPECT_NE(WeightsDigest(other), WeightsDigest(trained));
}

TEST(Weights, BeginAnewOnlyWhereTheJobSaysSo) {
  const ParameterTable old_table = *MakeParameterTable(NetWithClasses(3)),
                       table = *MakeParameterTable(NetWithClasses(5));
  const Weights trained = TrainedWeights(old_table, 1);
  const tensors::TensorFile file = FileOf(old_table, trained);
  const Status other_shape = WeightsFromFile(file, table, 2, {}).status();
  EXPECT_EQ(other_shape.code(), Code::kBadData);
  EXPECT_EQ(other_shape.message(),
            "the tensor \"fc.weight\" has shape [3, 144], the model's has [5, 144]; if it is to "
            "begin anew, write model.new_tensors: [\"fc.*\"]");
  const auto weights = WeightsFromFile(file, table, 2, {"fc.*", "norm.running_var"});
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  const Weights random = RandomWeights(table, 2);
  const uint64_t head = table.parameters[4].offset;
  EXPECT_TRUE(
      std::equal(&weights->parameters[0], &weights->parameters[head], &trained.parameters[0]));
  EXPECT_TRUE(std::equal(weights->parameters.begin() + static_cast<ptrdiff_t>(head),
                         weights->parameters.end(), &random.parameters[head]));
  EXPECT_EQ(weights->statistics[0], trained.statistics[0]);
  EXPECT_EQ(weights->statistics[4], 1);  // norm.running_var is new
}

TEST(Weights, ThatDoNotFitAreRefusedByName) {
  const ParameterTable table = *MakeParameterTable(NetWithClasses(3), {"conv.*"});
  const tensors::TensorFile whole = FileOf(table, TrainedWeights(table, 1));
  for (const char* name : {"fc.bias", "conv.weight", "norm.running_mean"}) {
    tensors::TensorFile file = whole;
    std::erase_if(file.tensors, [&](const auto& tensor) { return tensor.name == name; });
    EXPECT_THAT(WeightsFromFile(file, table, 2, {}).status().message(),
                HasSubstr(std::string("the tensor \"") + name + "\" is missing; the model's has"));
    file = whole;
    for (tensors::Tensor& tensor : file.tensors) {
      if (tensor.name == name) tensor.values[1] = std::numeric_limits<float>::quiet_NaN();
    }
    EXPECT_THAT(WeightsFromFile(file, table, 2, {}).status().message(),
                HasSubstr(std::string("\"") + name + "\" has a value that is not finite"));
  }
  tensors::TensorFile integers = whole;
  std::erase_if(integers.tensors, [](const auto& tensor) { return tensor.name == "fc.bias"; });
  integers.unread = {{"fc.bias", "I8"}, {"norm.num_batches_tracked", "I64"}};
  EXPECT_EQ(
      WeightsFromFile(integers, table, 2, {}).status().message(),
      "the tensor \"fc.bias\" has dtype I8, expected F32, F16, BF16 or F64: save it as one of "
      "these; the model's has shape [3]; if it is to begin anew, write model.new_tensors: "
      "[\"fc.*\"]");
  EXPECT_TRUE(WeightsFromFile(integers, table, 2, {"fc.bias"}).ok());
  EXPECT_THAT(WeightsFromFile(whole, table, 2, {"head.*"}).status().message(),
              HasSubstr("model.new_tensors: \"head.*\" is the name of no tensor"));
  EXPECT_THAT(WeightsFromFile(whole, table, 2, {"conv.bias"}).status().message(),
              HasSubstr("train.freeze and model.new_tensors both name the tensor \"conv.bias\""));
}

}  // namespace
}  // namespace tern::models
