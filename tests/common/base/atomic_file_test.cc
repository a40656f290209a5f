#include "common/base/atomic_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace tern {
namespace {

using ::testing::HasSubstr;

class ReadAtMostTest : public ::testing::Test {
 protected:
  ReadAtMostTest() : folder_(::testing::TempDir() + "tern_read_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << folder_;
  }
  ~ReadAtMostTest() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(ReadAtMostTest, ReadsAFileUpToItsEndOrTheLimit) {
  std::ofstream(Path("file")) << "name: lenet\n";
  EXPECT_EQ(*ReadAtMost(Path("file"), 100, Time(0)), "name: lenet\n");
  EXPECT_EQ(*ReadAtMost(Path("file"), 4, Time(0)), "name");
  EXPECT_EQ(ReadAtMost("/dev/zero", 200'000, Time(0))->size(), 200'000u);
}

TEST_F(ReadAtMostTest, ReportsAMissingFileAndAFolder) {
  EXPECT_THAT(ReadAtMost(Path("none"), 9, Time(0)).status().message(), HasSubstr(Path("none")));
  EXPECT_EQ(ReadAtMost(folder_, 9, Time(0)).status().code(), Code::kBadData);
}

TEST_F(ReadAtMostTest, TimesOutOnAPipeWithoutAWriter) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  const auto read_result = ReadAtMost(Path("pipe"), 100, std::chrono::milliseconds(20));
  EXPECT_EQ(read_result.status().code(), Code::kBadData);
  EXPECT_THAT(read_result.status().message(), HasSubstr("it delivered nothing for 20.0 ms"));
}

TEST_F(ReadAtMostTest, ReadsAPipeWhileItsWriterWrites) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  std::thread writer([this] {
    const int fd = open(Path("pipe").c_str(), O_WRONLY);  // This blocks until there is a reader.
    for (const char* part : {"name: ", "lenet\n"}) EXPECT_GT(write(fd, part, 6), 0);
    close(fd);
  });
  const auto read_result = ReadAtMost(Path("pipe"), 100, std::chrono::minutes(1));
  writer.join();
  ASSERT_TRUE(read_result.ok()) << read_result.status().message();
  EXPECT_EQ(*read_result, "name: lenet\n");
}

}  // namespace
}  // namespace tern
