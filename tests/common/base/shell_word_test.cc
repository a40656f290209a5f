#include "common/base/shell_word.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

namespace tern {
namespace {

TEST(ShellWord, LeavesPlainWordsAlone) {
  EXPECT_EQ(ShellWord("out/my-job_2.yaml"), "out/my-job_2.yaml");
  EXPECT_EQ(ShellWord("/a/b:c,d@e+f%g"), "/a/b:c,d@e+f%g");
}

// What a shell makes of the word.
std::string ReadByShell(const std::string& word) {
  std::FILE* const pipe = popen(("printf %s " + ShellWord(word)).c_str(), "r");
  if (pipe == nullptr) return "no shell";
  std::array<char, 256> bytes{};
  const size_t count = std::fread(bytes.data(), 1, bytes.size(), pipe);
  pclose(pipe);
  return std::string(bytes.data(), count);
}

TEST(ShellWord, IsOneWordForAShell) {
  for (const std::string word : {"two words", "it's", "$HOME", "~/x", "a;b", "*", "`id`", "\"",
                                 "\\", "a\nb", "#", "", "f\xc3\xbcr", "a=b", "[x]{y,z}"})
    EXPECT_EQ(ReadByShell(word), word);
}

}  // namespace
}  // namespace tern
