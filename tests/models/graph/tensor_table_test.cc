#include "models/graph/tensor_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::models {
namespace {

using testing::HasSubstr;

pb::TensorTable TableWith(const std::vector<std::pair<std::string, std::vector<uint32_t>>>& rows) {
  pb::TensorTable tensors;
  for (const auto& [name, shape] : rows) {
    pb::Tensor* tensor = tensors.add_tensors();
    tensor->set_name(name);
    tensor->mutable_shape()->Add(shape.begin(), shape.end());
  }
  return tensors;
}

std::string ErrorOf(const pb::TensorTable& tensors) {
  const Result<ParameterTable> table = TableOfTensors(tensors);
  EXPECT_EQ(table.ok() ? Code::kOk : table.status().code(), Code::kBadData);
  return table.ok() ? "" : table.status().message();
}

TEST(TensorTable, HasOffsetsAndColumns) {
  const ParameterTable table = *TableOfTensors(
      TableWith({{"conv.weight", {20, 3, 5, 5}}, {"conv.bias", {20}}, {"scale", {}}}));
  EXPECT_EQ(table.total, 1500u + 20 + 1);
  ASSERT_EQ(table.parameters.size(), 3u);
  EXPECT_EQ(table.parameters[0].fan_in, 75u);
  EXPECT_FALSE(table.parameters[0].is_bias);
  EXPECT_EQ(table.parameters[1].offset, 1500u);
  EXPECT_TRUE(table.parameters[1].is_bias);
  EXPECT_EQ(table.parameters[2].count, 1u);
  EXPECT_TRUE(table.parameters[2].is_bias);
}

TEST(TensorTable, RefusesWhatIsNoTable) {
  EXPECT_THAT(ErrorOf({}), HasSubstr("saw 0 tensors"));
  EXPECT_THAT(ErrorOf(TableWith({{"", {1}}})), HasSubstr("saw the name ''"));
  EXPECT_THAT(ErrorOf(TableWith({{"a\nb", {1}}})), HasSubstr("printable characters"));
  EXPECT_THAT(ErrorOf(TableWith({{std::string(257, 'a'), {1}}})), HasSubstr("1 to 256"));
  EXPECT_THAT(ErrorOf(TableWith({{"a", {1}}, {"a", {2}}})), HasSubstr("'a' a second time"));
  EXPECT_THAT(ErrorOf(TableWith({{"a", {2, 0}}})), HasSubstr("0 elements"));
  EXPECT_THAT(ErrorOf(TableWith({{"a", std::vector<uint32_t>(17, 1)}})),
              HasSubstr("17 dimensions"));
  EXPECT_THAT(ErrorOf(TableWith({{"a", {65536, 65536, 65536, 65536}}})), HasSubstr("more than"));
}

pb::TensorTable TableWithStatistics(
    const std::vector<std::pair<std::string, std::vector<uint32_t>>>& rows) {
  pb::TensorTable tensors = TableWith({{"a", {1, 2}}});
  *tensors.mutable_statistics() = TableWith(rows).tensors();
  return tensors;
}

TEST(TensorTable, HasStatisticsInPairs) {
  const ParameterTable table = *TableOfTensors(TableWithStatistics(
      {{"bn.mean", {3}}, {"bn.var", {3}}, {"bn2.mean", {5}}, {"bn2.var", {5}}}));
  EXPECT_EQ(table.statistics_total, 16u);
  ASSERT_EQ(table.statistics.size(), 4u);
  EXPECT_EQ(table.statistics[3].offset, 11u);
  EXPECT_EQ(table.statistics[3].count, 5u);
  EXPECT_THAT(ErrorOf(TableWithStatistics({{"bn.mean", {3}}})), HasSubstr("saw 1 statistics"));
  EXPECT_THAT(ErrorOf(TableWithStatistics({{"bn.mean", {3}}, {"bn.var", {4}}})),
              HasSubstr("statistic bn.var: saw another shape"));
  EXPECT_THAT(ErrorOf(TableWithStatistics({{"bn.mean", {3, 1}}, {"bn.var", {3}}})),
              HasSubstr("statistic bn.mean: saw another shape"));
  EXPECT_EQ(TableOfTensors(TableWithStatistics({{"m", {2'097'152}}, {"v", {2'097'152}}}))
                .status()
                .message(),
            "");
  EXPECT_THAT(ErrorOf(TableWithStatistics({{"m", {2'097'153}}, {"v", {2'097'153}}})),
              HasSubstr("at most 4194304 in all"));
  EXPECT_THAT(ErrorOf(TableWithStatistics({{"a", {3}}, {"bn.var", {3}}})),
              HasSubstr("'a' a second time"));
}

TEST(TensorTable, DigestsDifferByNameShapeAndOrder) {
  const uint64_t digest = TensorTableDigest(TableWith({{"a", {1, 2}}, {"b", {3}}}));
  EXPECT_EQ(digest, TensorTableDigest(TableWith({{"a", {1, 2}}, {"b", {3}}})));
  EXPECT_NE(digest, TensorTableDigest(TableWith({{"b", {3}}, {"a", {1, 2}}})));
  EXPECT_NE(digest, TensorTableDigest(TableWith({{"a", {2, 1}}, {"b", {3}}})));
  EXPECT_NE(digest, TensorTableDigest(TableWith({{"a", {1, 2}}, {"c", {3}}})));
  EXPECT_NE(TensorTableDigest(TableWith({{"a", {1}}, {"b", {}}})),
            TensorTableDigest(TableWith({{"a,1;1:b", {}}})));
  pb::TensorTable fixed = TableWith({{"a", {1, 2}}, {"b", {3}}});
  fixed.set_fixed_digest(7);
  EXPECT_NE(TensorTableDigest(fixed), digest);
  EXPECT_NE(TensorTableDigest(TableWithStatistics({})),
            TensorTableDigest(TableWithStatistics({{"bn.mean", {3}}, {"bn.var", {3}}})));
}

}  // namespace
}  // namespace tern::models
