#include "tests/conformance/storage_conformance.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

namespace tern {

using testing::HasSubstr;

void StorageConformance::WriteFile(const std::string& name, const std::string& bytes) {
  const Status write_status = storage_.Write(Path(name), bytes);
  EXPECT_TRUE(write_status.ok()) << write_status.message();
}

std::string StorageConformance::ContentOf(const std::string& name) const {
  const auto bytes = storage_.Read(Path(name), 1000);
  return bytes.ok() ? *bytes : "(none)";
}

std::string StorageConformance::NamesIn(const std::string& folder) const {
  std::vector<std::string> names;
  const std::error_code error = storage_.List(folder, &names);
  EXPECT_FALSE(error) << error.message();
  std::sort(names.begin(), names.end());
  std::string joined_names;
  for (const std::string& name : names) joined_names += (joined_names.empty() ? "" : " ") + name;
  return joined_names;
}

namespace {

TEST_P(StorageConformance, ReadsWhatWasWritten) {
  std::string all_bytes;
  for (int i = 0; i < 256; ++i) all_bytes += static_cast<char>(i);
  for (const std::string& bytes : {std::string(), std::string("x"), all_bytes}) {
    WriteFile("file", bytes);
    EXPECT_EQ(ContentOf("file"), bytes);
    EXPECT_EQ(storage_.SizeOf(Path("file")), bytes.size());
    EXPECT_TRUE(storage_.Exists(Path("file")));
  }
}

TEST_P(StorageConformance, WritingAgainReplacesAllBytes) {
  WriteFile("file", "a long text");
  WriteFile("other", "other");
  WriteFile("file", "short");
  EXPECT_EQ(ContentOf("file"), "short");
  EXPECT_EQ(storage_.SizeOf(Path("file")), 5u);
  EXPECT_EQ(ContentOf("other"), "other");
}

TEST_P(StorageConformance, RefusesToWriteIntoAFolderThatDoesNotExist) {
  const Status write_status = storage_.Write(Path("none/file"), "x");
  EXPECT_EQ(write_status.code(), Code::kCannotWrite);
  EXPECT_THAT(write_status.message(), HasSubstr(Path("none/file")));
  EXPECT_THAT(write_status.message(), HasSubstr("No such file or directory"));
  EXPECT_FALSE(storage_.Exists(Path("none/file")));
  EXPECT_FALSE(storage_.Exists(Path("none")));
}

TEST_P(StorageConformance, RefusesToWriteWhereAFolderIs) {
  ASSERT_FALSE(storage_.CreateFolders(Path("folder")));
  const Status write_status = storage_.Write(Path("folder"), "x");
  EXPECT_EQ(write_status.code(), Code::kCannotWrite);
  EXPECT_THAT(write_status.message(), HasSubstr(Path("folder")));
  WriteFile("folder/file", "still a folder");
}

TEST_P(StorageConformance, ReadsNoMoreThanTheLimit) {
  WriteFile("file", "12345");
  EXPECT_EQ(*storage_.Read(Path("file"), 5), "12345");
  const auto result = storage_.Read(Path("file"), 4);
  EXPECT_EQ(result.status().code(), Code::kBadData);
  EXPECT_THAT(result.status().message(),
              HasSubstr(Path("file") + " has 5 bytes, expected at most 4"));
}

TEST_P(StorageConformance, RefusesToReadAFolderOrAMissingFile) {
  ASSERT_FALSE(storage_.CreateFolders(Path("folder")));
  for (const char* name : {"none", "folder", "none/file"}) {
    const auto result = storage_.Read(Path(name), 1000);
    EXPECT_EQ(result.status().code(), Code::kBadData) << name;
    EXPECT_THAT(result.status().message(), HasSubstr(Path(name)));
  }
  EXPECT_EQ(storage_.SizeOf(Path("none")), 0u);
  EXPECT_FALSE(storage_.Exists(Path("none")));
  EXPECT_TRUE(storage_.Exists(Path("folder")));
}

TEST_P(StorageConformance, RenamesAFile) {
  WriteFile("from", "bytes");
  ASSERT_FALSE(storage_.Rename(Path("from"), Path("to")));
  EXPECT_EQ(NamesIn(Path("")), "to");
  EXPECT_EQ(ContentOf("to"), "bytes");
  EXPECT_FALSE(storage_.Exists(Path("from")));
}

TEST_P(StorageConformance, RenamingReplacesAFile) {
  WriteFile("from", "new");
  WriteFile("to", "the old one");
  ASSERT_FALSE(storage_.Rename(Path("from"), Path("to")));
  EXPECT_EQ(NamesIn(Path("")), "to");
  EXPECT_EQ(ContentOf("to"), "new");
  WriteFile("from", "another");  // A new file with the old name must not change the renamed file.
  EXPECT_EQ(ContentOf("to"), "new");
}

TEST_P(StorageConformance, RenamesAFileIntoAnotherFolder) {
  ASSERT_FALSE(storage_.CreateFolders(Path("folder")));
  WriteFile("from", "bytes");
  ASSERT_FALSE(storage_.Rename(Path("from"), Path("folder/to")));
  EXPECT_EQ(ContentOf("folder/to"), "bytes");
  EXPECT_EQ(NamesIn(Path("")), "folder");
}

TEST_P(StorageConformance, RenamesAFolderWithAllThatIsInIt) {
  ASSERT_FALSE(storage_.CreateFolders(Path("from/inner")));
  WriteFile("from/a", "1");
  WriteFile("from/inner/b", "2");
  WriteFile("from.c", "a neighbour whose name begins alike");
  ASSERT_FALSE(storage_.Rename(Path("from"), Path("to")));
  EXPECT_EQ(NamesIn(Path("")), "from.c to");
  EXPECT_EQ(NamesIn(Path("to")), "a inner");
  EXPECT_EQ(ContentOf("to/a"), "1");
  EXPECT_EQ(ContentOf("to/inner/b"), "2");
  EXPECT_TRUE(storage_.Exists(Path("to/inner")));
  EXPECT_FALSE(storage_.Exists(Path("from")));
  EXPECT_FALSE(storage_.Exists(Path("from/inner")));
  WriteFile("to/inner/c", "it is a folder");
}

TEST_P(StorageConformance, ARefusedRenameChangesNothing) {
  WriteFile("file", "bytes");
  EXPECT_EQ(storage_.Rename(Path("none"), Path("file")), std::errc::no_such_file_or_directory);
  EXPECT_EQ(storage_.Rename(Path("file"), Path("none/to")), std::errc::no_such_file_or_directory);
  ASSERT_FALSE(storage_.CreateFolders(Path("folder")));
  EXPECT_EQ(storage_.Rename(Path("folder"), Path("none/to")), std::errc::no_such_file_or_directory);
  EXPECT_EQ(NamesIn(Path("")), "file folder");
  EXPECT_EQ(ContentOf("file"), "bytes");
}

TEST_P(StorageConformance, RemovesAFileAndNothingElse) {
  WriteFile("file", "1");
  WriteFile("file2", "2");
  storage_.Remove(Path("file"));
  EXPECT_EQ(NamesIn(Path("")), "file2");
  EXPECT_FALSE(storage_.Exists(Path("file")));
  storage_.Remove(Path("file"));  // Removing a file that does not exist does nothing.
  EXPECT_EQ(ContentOf("file2"), "2");
  WriteFile("file", "again");
  EXPECT_EQ(ContentOf("file"), "again");
}

TEST_P(StorageConformance, RemovesNoFolder) {
  ASSERT_FALSE(storage_.CreateFolders(Path("folder")));
  WriteFile("folder/file", "1");
  storage_.Remove(Path("folder"));
  EXPECT_EQ(ContentOf("folder/file"), "1");
}

TEST_P(StorageConformance, CreatesAllFoldersOfAPath) {
  ASSERT_FALSE(storage_.CreateFolders(Path("a/b/c")));
  for (const char* name : {"a", "a/b", "a/b/c"}) EXPECT_TRUE(storage_.Exists(Path(name))) << name;
  WriteFile("a/b/c/file", "1");
  WriteFile("a/file", "2");
  EXPECT_FALSE(storage_.CreateFolders(Path("a/b")));  // No error, because the folder exists.
  EXPECT_EQ(ContentOf("a/b/c/file"), "1");
  ASSERT_FALSE(storage_.CreateFolders(Path("d/")));
  WriteFile("d/file", "3");
}

TEST_P(StorageConformance, CreatesNoFolderWhereAFileIs) {
  WriteFile("file", "1");
  EXPECT_TRUE(storage_.CreateFolders(Path("file/folder")));
  EXPECT_EQ(ContentOf("file"), "1");
  EXPECT_FALSE(storage_.Exists(Path("file/folder")));
}

TEST_P(StorageConformance, ListsFilesAndFoldersButNotWhatIsInThem) {
  EXPECT_EQ(NamesIn(Path("")), "");
  WriteFile("b", "1");
  WriteFile("a", "2");
  ASSERT_FALSE(storage_.CreateFolders(Path("c/inner")));
  WriteFile("c/d", "3");
  EXPECT_EQ(NamesIn(Path("")), "a b c");
  EXPECT_EQ(NamesIn(under_test_->folder()), "a b c") << "with and without a slash";
  EXPECT_EQ(NamesIn(Path("c")), "d inner");
  EXPECT_EQ(NamesIn(Path("none")), "") << "a folder that does not exist has no names";
  std::vector<std::string> names = {"before"};
  EXPECT_FALSE(storage_.List(Path("c/inner"), &names));
  EXPECT_THAT(names, testing::ElementsAre("before"));
}

TEST_P(StorageConformance, FlushingAFolderChangesNoNamesOrContents) {
  ASSERT_FALSE(storage_.CreateFolders(Path("folder")));
  WriteFile("folder/file", "1");
  WriteFile("folder/old", "2");
  ASSERT_FALSE(storage_.Rename(Path("folder/old"), Path("folder/new")));
  storage_.FlushFolder(Path("folder"));
  storage_.FlushFolder(Path("folder"));
  storage_.FlushFolder(Path("none"));
  EXPECT_EQ(NamesIn(Path("folder")), "file new");
  EXPECT_EQ(ContentOf("folder/file"), "1");
  EXPECT_FALSE(storage_.Exists(Path("none")));
}

}  // namespace
}  // namespace tern
