// Tests that parameters and statistics survive a round trip through a safetensors file. An arena is
// one array with the elements of all tensors.
#include "models/graph/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::models {
namespace {

using testing::HasSubstr;

ParameterTable MakeFcTable() {
  ParameterTable table;
  table.total = 8;
  table.parameters.resize(2);
  table.parameters[0].name = "fc.weight";
  table.parameters[0].shape = {2, 3};
  table.parameters[0].count = 6;
  table.parameters[1].name = "fc.bias";
  table.parameters[1].shape = {2};
  table.parameters[1].offset = 6;
  table.parameters[1].count = 2;
  return table;
}

TEST(Arena, RoundTripsThroughAFileUnderAPrefix) {
  const std::vector<float> arena = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto file = tensors::DecodeSafetensors(
      tensors::EncodeSafetensors(ViewArena(MakeFcTable(), arena.data(), "v."), {}));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->tensors[1].name, "v.fc.bias");
  std::vector<float> loaded(8);
  ASSERT_TRUE(LoadArena(*file, MakeFcTable(), loaded.data(), "v.").ok());
  EXPECT_EQ(loaded, arena);
}

TEST(Arena, RefusesAnotherModelsTensors) {
  std::vector<float> arena(8);
  tensors::TensorFile file = *tensors::DecodeSafetensors(
      tensors::EncodeSafetensors(ViewArena(MakeFcTable(), arena.data()), {}));
  EXPECT_THAT(LoadArena(file, MakeFcTable(), arena.data(), "w.").message(),
              HasSubstr("\"w.fc.weight\" is missing"));
  file.unread["w.fc.weight"] = "I64";
  EXPECT_EQ(
      LoadArena(file, MakeFcTable(), arena.data(), "w.").message(),
      "the tensor \"w.fc.weight\" has dtype I64, expected F32, F16, BF16 or F64: save it as one "
      "of these");
  file.tensors[0].shape = {3, 2};
  const Status status = LoadArena(file, MakeFcTable(), arena.data());
  EXPECT_EQ(status.code(), Code::kBadData);
  EXPECT_THAT(status.message(), HasSubstr("\"fc.weight\" has shape [3, 2], the model's is [2, 3]"));
}

TEST(Statistics, RoundTripThroughAFileWithTheParameters) {
  ParameterTable table;
  table.statistics = {{"norm.running_mean", 0, 2, 0}, {"norm.running_var", 2, 2, 1}};
  table.statistics_total = 4;
  const std::vector<float> statistics = {1, 2, 3, 4};
  tensors::TensorFile file = *tensors::DecodeSafetensors(
      tensors::EncodeSafetensors(ViewStatistics(table, statistics.data()), {}));
  std::vector<float> loaded(4);
  ASSERT_TRUE(LoadStatistics(file, table, loaded.data()).ok());
  EXPECT_EQ(loaded, statistics);
  file.tensors.pop_back();
  EXPECT_THAT(LoadStatistics(file, table, loaded.data()).message(),
              HasSubstr("\"norm.running_var\" is missing"));
}

}  // namespace
}  // namespace tern::models
