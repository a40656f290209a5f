#include "common/base/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/atomic_file.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Each test has a folder of the job's output, "out", and a file of somebody else, "theirs".
class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() : folder_(::testing::TempDir() + "tern_output_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << folder_;
    fs::create_directory(Path("out"));
    std::ofstream(Path("theirs")) << "theirs";
  }
  ~OutputFileTest() override { fs::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string ContentOf(const std::string& path) {
    std::ostringstream content;
    content << std::ifstream(path).rdbuf();
    return content.str();
  }
  // Writes "x" to the file that was opened, and closes it.
  static void WriteAndClose(const Result<int>& fd) {
    ASSERT_TRUE(fd.ok()) << fd.status().message();
    EXPECT_EQ(write(*fd, "x", 1), 1);
    close(*fd);
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat file_info = {};
    EXPECT_EQ(stat(path.c_str(), &file_info), 0);
    return file_info.st_mode & 07777;
  }

  std::string folder_;
};

TEST_F(OutputFileTest, AppendsOrStartsAnew) {
  const std::string path = Path("out/file");
  WriteAndClose(OpenForAppending(path));
  WriteAndClose(OpenForAppending(path));
  EXPECT_EQ(ContentOf(path), "xx");
  EXPECT_EQ(ModeOf(path) & ~0640u, 0u);
  WriteAndClose(CreateAnew(path));
  EXPECT_EQ(ContentOf(path), "x");
  EXPECT_EQ(ModeOf(path) & ~0640u, 0u);
  EXPECT_THAT(CreateAnew(Path("none/file")).status().message(), HasSubstr("No such file"));
  EXPECT_EQ(OpenForAppending(Path("none/file")).status().code(), Code::kCannotWrite);
}

TEST_F(OutputFileTest, NeverWritesThroughALink) {
  for (const bool is_symbolic : {true, false}) {
    const std::string link = Path("out/file");
    is_symbolic ? fs::create_symlink(Path("theirs"), link)
                : fs::create_hard_link(Path("theirs"), link);
    if (is_symbolic) {
      EXPECT_EQ(OpenForAppending(link).status().message(),
                "cannot write " + link +
                    ": it is a symbolic link, which could lead to files of others; remove it, or "
                    "give another output_dir");
    }
    WriteAndClose(CreateAnew(link));
    EXPECT_EQ(ContentOf(link), "x");
    EXPECT_EQ(ContentOf(Path("theirs")), "theirs");
    fs::remove(link);
  }
}

TEST_F(OutputFileTest, RefusesAPipeAndWritesToATerminal) {
  ASSERT_EQ(mkfifo(Path("out/pipe").c_str(), 0600), 0);
  const int terminal_fd = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_TRUE(grantpt(terminal_fd) == 0 && unlockpt(terminal_fd) == 0);
  const std::string terminal = ptsname(terminal_fd);
  for (const auto open_file : {&OpenForAppending, &CreateAnew}) {
    EXPECT_EQ(open_file(Path("out/pipe")).status().code(), Code::kCannotWrite);
    WriteAndClose(open_file(terminal));
    EXPECT_TRUE(fs::is_character_file(terminal));
  }
  close(terminal_fd);
}

// An atomic write ignores what stands in its way: a link with the file's name, and links with
// temporary names that somebody may guess.
TEST_F(OutputFileTest, AnAtomicWriteReplacesALink) {
  const std::string path = Path("out/summary.json");
  fs::create_symlink(Path("theirs"), path);
  fs::create_symlink(Path("theirs"), path + ".tmp." + std::to_string(getpid()));
  const Status write_status = WriteFileAtomically(path, "ours");
  ASSERT_TRUE(write_status.ok()) << write_status.message();
  EXPECT_EQ(ContentOf(path), "ours");
  EXPECT_FALSE(fs::is_symlink(path));
  EXPECT_EQ(ContentOf(Path("theirs")), "theirs");
}

TEST_F(OutputFileTest, RecognizesOnlyItsOwnTemporaryNames) {
  EXPECT_EQ(NameWithoutTemporarySuffix("a.json.tmp.0123456789abcdef"), "a.json");
  for (const char* name :
       {"a.json", "a.tmp.123", "a.tmp.", "a.tmp.0123456789ABCDEF", "a.tmp.0123456789abcdef0"}) {
    EXPECT_EQ(NameWithoutTemporarySuffix(name), "") << name;
  }
}

TEST_F(OutputFileTest, AJobsFoldersAreNoLinks) {
  fs::create_directories(Path("theirs_too/x"));
  EXPECT_TRUE(CheckOutputFolder(Path("out")).ok());
  EXPECT_TRUE(CheckOutputFolder(Path("none")).ok());
  fs::create_directory(Path("out/checkpoints"));
  fs::create_directory(Path("out/events"));
  EXPECT_TRUE(CheckOutputFolder(Path("out")).ok());
  fs::create_symlink(Path("out"), Path("link_to_out"));
  EXPECT_TRUE(CheckOutputFolder(Path("link_to_out")).ok()) << "the user chose this link";
  for (const char* name : {"out/logs", "out/checkpoints/worker.0", "out/events/worker.1"}) {
    fs::create_directory_symlink(Path("theirs_too"), Path(name));
    const Status status = CheckOutputFolder(Path("out"));
    EXPECT_EQ(status.code(), Code::kCannotWrite);
    EXPECT_THAT(status.message(), HasSubstr(Path(name) + ": it is a symbolic link"));
    fs::remove(Path(name));
  }
}

TEST_F(OutputFileTest, AFolderThatAProgramMakesIsNoLink) {
  EXPECT_TRUE(CheckIsNoLink(Path("none")).ok());
  EXPECT_TRUE(CheckIsNoLink(Path("out")).ok());
  fs::create_directory_symlink(Path("out"), Path("out/sweep"));
  EXPECT_EQ(CheckIsNoLink(Path("out/sweep")).code(), Code::kCannotWrite);
}

TEST_F(OutputFileTest, WarnsOfAFolderThatOthersMayWriteTo) {
  for (const mode_t mode : {0777u, 0770u, 0702u, 01777u}) {
    ASSERT_EQ(chmod(Path("out").c_str(), mode), 0);
    EXPECT_THAT(WarningOfOpenFolder(Path("out")), HasSubstr("chmod go-w " + Path("out"))) << mode;
  }
  for (const mode_t mode : {0755u, 0750u, 0700u}) {
    ASSERT_EQ(chmod(Path("out").c_str(), mode), 0);
    EXPECT_EQ(WarningOfOpenFolder(Path("out")), "") << mode;
  }
  EXPECT_EQ(WarningOfOpenFolder(Path("none")), "");
}

TEST_F(OutputFileTest, WarnsOfAFolderOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(chmod(Path("out").c_str(), 0755), 0);
  ASSERT_EQ(chown(Path("out").c_str(), 12345, 12345), 0);
  EXPECT_THAT(WarningOfOpenFolder(Path("out")), HasSubstr("belongs to another user"));
  EXPECT_THAT(WarningOfOpenFolder(Path("out")), HasSubstr("12345"));
}

TEST_F(OutputFileTest, NewFoldersAreClosedToOthers) {
  ASSERT_FALSE(Disk().CreateFolders(Path("new/folder")));
  EXPECT_EQ(ModeOf(Path("new")) & 0027u, 0u);
  EXPECT_EQ(ModeOf(Path("new/folder")) & 0027u, 0u);
  EXPECT_EQ(Disk().CreateFolders(Path("theirs")), std::errc::not_a_directory);
}

}  // namespace
}  // namespace tern
