#include "models/graph/freeze.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/graph/shapes.h"
#include "tests/models/net_text.h"

namespace tern::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

pb::NetDef SmallNet() {
  return *BuildNetOfLayers(
      "layers { name: 'conv' conv { outputs: 4 kernel: 3 } } layers { name: 'norm' batch_norm {} }"
      "layers { name: 'fc' dense { outputs: 3 } } layers { name: 'loss' softmax_loss {} }");
}

std::vector<std::string> NamesOf(const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  for (const Parameter& p : parameters) names.push_back(p.name);
  return names;
}

TEST(Freeze, DividesTheParametersIntoTwoArenasWithoutGaps) {
  const ParameterTable whole = *MakeParameterTable(SmallNet());
  const auto table = MakeParameterTable(SmallNet(), {"conv.*", "*orm.weight"});
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_THAT(NamesOf(table->parameters), ElementsAre("norm.bias", "fc.weight", "fc.bias"));
  EXPECT_THAT(NamesOf(table->frozen), ElementsAre("conv.weight", "conv.bias", "norm.weight"));
  EXPECT_EQ(table->total + table->frozen_total, whole.total);
  for (const auto* list : {&table->parameters, &table->frozen}) {
    uint64_t end = 0;
    for (const Parameter& p : *list) {
      EXPECT_EQ(p.offset, end) << p.name;
      EXPECT_EQ(whole.parameters[p.number].name, p.name);
      end += p.count;
    }
  }
  EXPECT_FALSE(table->statistics[0].is_frozen);  // norm.bias is trained
  EXPECT_TRUE(MakeParameterTable(SmallNet(), {"norm.*"})->statistics[1].is_frozen);
}

TEST(Freeze, RefusesNamesOfNothingAndOfEverything) {
  const Status unknown = MakeParameterTable(SmallNet(), {"conv.*", "convv*"}).status();
  EXPECT_EQ(unknown.code(), Code::kBadJob);
  EXPECT_EQ(unknown.message(),
            "train.freeze: \"convv*\" is the name of no tensor of the model; its tensors are "
            "conv.weight, conv.bias, norm.weight, norm.bias, fc.weight, fc.bias");
  // Statistics are no parameters.
  EXPECT_FALSE(MakeParameterTable(SmallNet(), {"norm.running_mean"}).ok());
  EXPECT_THAT(MakeParameterTable(SmallNet(), {"*"}).status().message(),
              HasSubstr("all tensors of the model are frozen"));
}

}  // namespace
}  // namespace tern::models
