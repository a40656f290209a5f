#include "tools/run/program_output.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tern::tools {
namespace {

// The lines that TakeLines takes of a text, and behind them in braces what it leaves.
std::string LinesOf(std::string text) {
  const std::string lines = TakeLines("[3] ", &text);
  return lines + "{" + text + "}";
}

TEST(ProgramOutput, PutsThePrefixInFrontOfWholeLines) {
  EXPECT_EQ(LinesOf(""), "{}");
  EXPECT_EQ(LinesOf("half"), "{half}");
  EXPECT_EQ(LinesOf("one\n\ntwo\nhalf"), "[3] one\n[3] \n[3] two\n{half}");
}

TEST(ProgramOutput, LeavesTheEndOfALineThatWasOverwritten) {
  EXPECT_EQ(LinesOf("10 %\r50 %\r100 %\nend\r\n"), "[3] 100 %\n[3] end\n{}");
}

TEST(ProgramOutput, LeavesInItsFileWhatIsNotRead) {
  ProcessSpec spec;
  spec.stdout_path = testing::TempDir() + "tern_program_output";
  spec.stderr_path = "/dev/null";
  std::ofstream(spec.stdout_path) << "one\n" << std::flush;
  bool is_read = false;
  std::string printed;
  ProgramOutput output(
      [&](const ProcessSpec&, bool, const std::string& lines) { printed += lines; },
      [&] { return is_read; });
  ASSERT_TRUE(output.Add(spec).ok());
  output.PrintNew();
  EXPECT_EQ(printed, "");
  is_read = true;
  output.PrintNew();
  EXPECT_EQ(printed, "one\n");
  std::filesystem::remove(spec.stdout_path);
}

TEST(ProgramOutput, CutsALineWithoutEnd) {
  std::string text(200 << 10, 'x');
  std::string lines = TakeLines("[0] ", &text);
  EXPECT_EQ(lines.size(), 3 * ((64 << 10) + std::string("[0] \n").size()));
  EXPECT_EQ(text.size(), 8u << 10);
  text += "\n";
  lines = TakeLines("[0] ", &text);
  EXPECT_EQ(lines, "[0] " + std::string(8 << 10, 'x') + "\n");
}

}  // namespace
}  // namespace tern::tools
