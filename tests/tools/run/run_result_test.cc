#include "tools/run/run_result.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/atomic_file.h"
#include "common/base/text.h"

namespace tern::tools {
namespace {

namespace fs = std::filesystem;

class RunResultTest : public testing::Test {
 protected:
  RunResultTest() : folder_(testing::TempDir() + "tern_result_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << folder_;
  }
  ~RunResultTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Text(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }
  void WriteWeights(const std::string& bytes) const {
    EXPECT_TRUE(WriteFileAtomically(Path("weights.safetensors"), bytes).ok());
  }
  static std::string Summary(int code) { return Cat("{\"code\":", code, "}"); }
  // Simulates a run that writes `weights` (unless empty) and ends with `code`.
  RunResult::Written Run(int code, const std::string& weights) const {
    const RunResult result(folder_);
    if (!weights.empty()) WriteWeights(weights);
    return result.Write(Summary(code), code);
  }

  std::string folder_;
};

TEST_F(RunResultTest, AFailedRunKeepsAnEarlierResult) {
  EXPECT_EQ(Run(0, "good").path, Path("summary.json"));
  const RunResult::Written failed = Run(65, "");
  EXPECT_TRUE(failed.status.ok());
  EXPECT_TRUE(failed.kept_older);
  EXPECT_EQ(failed.path, Path("summary.failed.json"));
  EXPECT_EQ(Text("summary.json"), Summary(0) + "\n");
  EXPECT_EQ(Text("summary.failed.json"), Summary(65) + "\n");
  EXPECT_TRUE(Run(143, "").kept_older) << "stopped before it had anything";
}

TEST_F(RunResultTest, ASuccessfulRunReplacesBothSummaries) {
  Run(0, "good");
  Run(75, "");
  const RunResult::Written well = Run(0, "good");  // this run writes the same weights as before
  EXPECT_FALSE(well.kept_older);
  EXPECT_EQ(Text("summary.json"), Summary(0) + "\n");
  EXPECT_FALSE(fs::exists(Path("summary.failed.json"))) << "of the run before";
}

TEST_F(RunResultTest, ASummaryDescribesTheWeightsInItsFolder) {
  Run(0, "good");
  EXPECT_FALSE(Run(143, "stopped").kept_older);
  EXPECT_EQ(Text("summary.json"), Summary(143) + "\n");
  EXPECT_TRUE(Run(75, "").kept_older) << "weights of a stopped run are worth keeping, too";
  // This run writes weights and then fails.
  EXPECT_FALSE(Run(70, "newest").kept_older);
  EXPECT_EQ(Text("summary.json"), Summary(70) + "\n");
}

TEST_F(RunResultTest, WithoutAnEarlierResultAFailureBecomesTheSummary) {
  EXPECT_EQ(Run(75, "").path, Path("summary.json"));
  EXPECT_EQ(Run(65, "").path, Path("summary.json")) << "the other run had failed as well";
  EXPECT_EQ(Text("summary.json"), Summary(65) + "\n");
  EXPECT_EQ(Run(143, "").path, Path("summary.json"));
  EXPECT_EQ(Run(75, "").path, Path("summary.json")) << "stopped, and no weights";
  for (const char* text : {"", "{", "[]", "{\"code\":\"0\"}", "{\"code\":null}"}) {
    std::ofstream(Path("summary.json")) << text;
    EXPECT_EQ(Run(75, "").path, Path("summary.json")) << text;
  }
}

TEST_F(RunResultTest, ReportsASummaryThatCannotBeWritten) {
  const RunResult result(folder_);
  fs::create_directories(Path("summary.json/in_the_way"));
  const RunResult::Written written = result.Write(Summary(0), 0);
  EXPECT_FALSE(written.status.ok());
  EXPECT_NE(written.status.message().find(Path("summary.json")), std::string::npos);
}

}  // namespace
}  // namespace tern::tools
