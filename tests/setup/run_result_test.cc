#include "setup/run_result.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/atomic_file.h"
#include "common/base/text.h"
#include "tests/limited_memory.h"

namespace tern::setup {
namespace {

namespace fs = std::filesystem;

class RunResultTest : public testing::Test {
 protected:
  RunResultTest() : folder_(testing::TempDir() + "tern_result_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << folder_;
  }
  ~RunResultTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string ReadText(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }
  void WriteWeights(const std::string& bytes) const {
    EXPECT_TRUE(WriteFileAtomically(Path("weights.safetensors"), bytes).ok());
  }
  static std::string SummaryJson(int code) { return Cat("{\"code\":", code, "}"); }
  // Simulates a run that writes `weights`, if not empty, and ends with `code`.
  RunResult::WrittenSummary SimulateRun(int code, const std::string& weights) const {
    const RunResult result(folder_);
    if (!weights.empty()) WriteWeights(weights);
    return result.WriteSummary(SummaryJson(code), code);
  }

  std::string folder_;
};

TEST_F(RunResultTest, AFailedRunKeepsAnEarlierResult) {
  EXPECT_EQ(SimulateRun(0, "good").path, Path("summary.json"));
  const RunResult::WrittenSummary failed_result = SimulateRun(65, "");
  EXPECT_TRUE(failed_result.status.ok());
  EXPECT_TRUE(failed_result.kept_earlier_result);
  EXPECT_EQ(failed_result.path, Path("summary.failed.json"));
  EXPECT_EQ(ReadText("summary.json"), SummaryJson(0) + "\n");
  EXPECT_EQ(ReadText("summary.failed.json"), SummaryJson(65) + "\n");
  EXPECT_TRUE(SimulateRun(143, "").kept_earlier_result) << "stopped before it had anything";
}

TEST_F(RunResultTest, AFailedRunKeepsTheWeightsOfDaemonsStartedByHand) {
  WriteWeights("by hand");
  EXPECT_TRUE(SimulateRun(78, "").kept_earlier_result);
  EXPECT_FALSE(fs::exists(Path("summary.json")));
}

TEST_F(RunResultTest, ASuccessfulRunReplacesBothSummaries) {
  SimulateRun(0, "good");
  SimulateRun(75, "");
  const RunResult::WrittenSummary successful_result =
      SimulateRun(0, "good");  // this run writes the same weights as before
  EXPECT_FALSE(successful_result.kept_earlier_result);
  EXPECT_EQ(ReadText("summary.json"), SummaryJson(0) + "\n");
  EXPECT_FALSE(fs::exists(Path("summary.failed.json"))) << "of the run before";
}

TEST_F(RunResultTest, ASummaryDescribesTheWeightsInItsFolder) {
  SimulateRun(0, "good");
  EXPECT_FALSE(SimulateRun(143, "stopped").kept_earlier_result);
  EXPECT_EQ(ReadText("summary.json"), SummaryJson(143) + "\n");
  EXPECT_TRUE(SimulateRun(75, "").kept_earlier_result)
      << "weights of a stopped run are worth keeping, too";
  // This run writes weights and then fails.
  EXPECT_FALSE(SimulateRun(70, "newest").kept_earlier_result);
  EXPECT_EQ(ReadText("summary.json"), SummaryJson(70) + "\n");
}

TEST_F(RunResultTest, WithoutAnEarlierResultAFailureBecomesTheSummary) {
  EXPECT_EQ(SimulateRun(75, "").path, Path("summary.json"));
  EXPECT_EQ(SimulateRun(65, "").path, Path("summary.json")) << "the other run had failed as well";
  EXPECT_EQ(ReadText("summary.json"), SummaryJson(65) + "\n");
  EXPECT_EQ(SimulateRun(143, "").path, Path("summary.json"));
  EXPECT_EQ(SimulateRun(75, "").path, Path("summary.json")) << "stopped, and no weights";
  for (const char* bad_summary : {"", "{", "[]", "{\"code\":\"0\"}", "{\"code\":null}"}) {
    std::ofstream(Path("summary.json")) << bad_summary;
    EXPECT_EQ(SimulateRun(75, "").path, Path("summary.json")) << bad_summary;
  }
}

TEST_F(RunResultTest, AShardKeepsItsOwnEarlierSummary) {
  SimulateRun(0, "good");
  for (const int code : {0, 65}) {
    const RunResult result(folder_, "server.0");
    EXPECT_EQ(result.WriteSummary(SummaryJson(code), code).kept_earlier_result, code != 0);
  }
  EXPECT_EQ(ReadText("server.0.json"), SummaryJson(0) + "\n");
  EXPECT_EQ(ReadText("server.0.failed.json"), SummaryJson(65) + "\n");
  EXPECT_FALSE(fs::exists(Path("summary.failed.json")));
}

// The output folder may be from elsewhere.
TEST_F(RunResultTest, IgnoresADeepSummaryWithLittleMemory) {
  std::ofstream(Path("summary.json")) << std::string(4 << 20, '[');
  TERN_EXPECT_WITHIN_MEMORY(24 << 20,
                            !RunResult(folder_).WriteSummary("{}", 1).kept_earlier_result);
}

TEST_F(RunResultTest, ReportsASummaryThatCannotBeWritten) {
  const RunResult result(folder_);
  fs::create_directories(Path("summary.json/in_the_way"));
  const RunResult::WrittenSummary write_result = result.WriteSummary(SummaryJson(0), 0);
  EXPECT_FALSE(write_result.status.ok());
  EXPECT_NE(write_result.status.message().find(Path("summary.json")), std::string::npos);
}

}  // namespace
}  // namespace tern::setup
