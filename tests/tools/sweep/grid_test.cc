#include "tools/sweep/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

TEST(Grid, SplitsValuesAtCommasOutsideBracketsAndQuotes) {
  const Result<GridKey> key = ParseGridKey("a.b=1,[2,3],{c: 4, d: [5]},\"6,7\"");
  ASSERT_TRUE(key.ok()) << key.status().message();
  EXPECT_EQ(key->key, "a.b");
  EXPECT_THAT(key->values, ElementsAre("1", "[2,3]", "{c: 4, d: [5]}", "\"6,7\""));
}

TEST(Grid, RefusesWhatIsNoListOfDifferentValues) {
  for (const char* text : {"learning_rate", "=1,2", "a=", "a=1,,2", "a=1,"})
    EXPECT_EQ(ParseGridKey(text).status().code(), Code::kUsage) << text;
  EXPECT_THAT(ParseGridKey("a=1,2,1").status().message(), HasSubstr("the value 1 twice"));
}

TEST(Grid, MakesAllCombinationsTheLastKeyFastest) {
  const std::vector<GridKey> grid = {{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}};
  const std::vector<SweepRun> runs = RunsOf(grid, 0);
  ASSERT_EQ(runs.size(), 6u);
  EXPECT_THAT(runs[1].values, ElementsAre("1", "y"));
  EXPECT_THAT(runs[3].values, ElementsAre("2", "x"));
  EXPECT_THAT(OverridesOf(grid, runs[5]), ElementsAre("a=2", "b=z"));
}

TEST(Grid, GivesEachCombinationItsSeeds) {
  const std::vector<SweepRun> runs = RunsOf({{"a", {"1", "2"}}}, 2);
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[1].seed, 2u);
  EXPECT_THAT(OverridesOf({{"a", {"1", "2"}}}, runs[2]), ElementsAre("a=2", "seed=1"));
  EXPECT_EQ(RunsOf({}, 3).size(), 3u);
}

TEST(Grid, NamesKeysAsShortlyAsTheyDiffer) {
  EXPECT_THAT(ShortNames({{"train.schedule.learning_rate", {}}, {"seed", {}}}),
              ElementsAre("learning_rate", "seed"));
  EXPECT_THAT(ShortNames({{"train.schedule.name", {}}, {"train.optimizer.name", {}}}),
              ElementsAre("schedule.name", "optimizer.name"));
}

TEST(Grid, NamesFoldersByTheValues) {
  const std::vector<GridKey> grid = {{"train.schedule.learning_rate", {"0.1"}}};
  EXPECT_EQ(FolderOf(grid, {{"0.1"}, 2}), "learning_rate=0.1,seed=2");
}

TEST(Grid, NamesOfFoldersArePlainAndDiffer) {
  const std::vector<GridKey> grid = {{"model", {}}};
  const std::string bracketed = FolderOf(grid, {{"{a: ../b}"}, 0});
  EXPECT_THAT(bracketed, MatchesRegex("model=_a_.*-[0-9a-f]{16}"));
  EXPECT_EQ(bracketed.find('/'), std::string::npos);
  EXPECT_NE(bracketed, FolderOf(grid, {{"(a: ../b)"}, 0}));
  const std::string long_value(300, 'x');
  EXPECT_LT(FolderOf(grid, {{long_value + "1"}, 0}).size(), 200u);
  EXPECT_NE(FolderOf(grid, {{long_value + "1"}, 0}), FolderOf(grid, {{long_value + "2"}, 0}));
}

}  // namespace
}  // namespace tern::tools
