// Tests that Disk() (the machine's file system) and MemoryStorage (its substitute for tests) obey
// the same contract, and that MemoryStorage keeps exactly what is durable.
#include "common/base/storage.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/common/base/memory_storage.h"
#include "tests/conformance/storage_conformance.h"

namespace tern {
namespace {

class DiskUnderTest : public StorageUnderTest {
 public:
  DiskUnderTest() : folder_(testing::TempDir() + "tern_storage_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << "no temporary folder at " << folder_;
  }
  ~DiskUnderTest() override { std::filesystem::remove_all(folder_); }
  Storage& storage() override { return Disk(); }
  std::string folder() const override { return folder_; }

 private:
  std::string folder_;
};

class MemoryUnderTest : public StorageUnderTest {
 public:
  MemoryUnderTest() { EXPECT_FALSE(storage_.CreateFolders(folder())); }
  Storage& storage() override { return storage_; }
  std::string folder() const override { return "job/folder"; }

 private:
  MemoryStorage storage_;
};

INSTANTIATE_TEST_SUITE_P(
    Both, StorageConformance,
    testing::Values(StorageCase{"Disk", [] { return std::make_unique<DiskUnderTest>(); }},
                    StorageCase{"Memory", [] { return std::make_unique<MemoryUnderTest>(); }}),
    StorageCaseName);

TEST(Disk, DoesNotWaitForTheWriterOfAPipe) {
  DiskUnderTest disk;
  const std::string path = disk.folder() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto read_result = Disk().Read(path, 100);
  EXPECT_EQ(read_result.status().code(), Code::kBadData);
  EXPECT_EQ(read_result.status().message(), path + " is not a regular file");
}

// In the worst restart of the machine, all changes that are not durable (storage.h defines which
// are) are lost.
TEST(MemoryStorage, KeepsWhatIsDurable) {
  const Chooser choose_to_lose = [](uint64_t) { return 0; };
  MemoryStorage storage;
  ASSERT_FALSE(storage.CreateFolders("job"));
  ASSERT_TRUE(storage.Write("job/flushed", "1").ok());
  ASSERT_TRUE(storage.Write("job/renamed.new", "2").ok());
  ASSERT_FALSE(storage.Rename("job/renamed.new", "job/renamed"));
  ASSERT_TRUE(storage.Write("job/kept", "3").ok());
  storage.FlushFolder("job");
  ASSERT_TRUE(storage.Write("job/unflushed", "4").ok());
  ASSERT_TRUE(storage.Write("job/flushed", "5").ok());
  storage.Remove("job/kept");
  storage.RestartMachine(choose_to_lose);
  EXPECT_EQ(*storage.Read("job/flushed", 9), "5") << "bytes are flushed once Write returns";
  EXPECT_EQ(*storage.Read("job/renamed", 9), "2");
  EXPECT_FALSE(storage.Exists("job/renamed.new"));
  EXPECT_FALSE(storage.Exists("job/unflushed")) << "its name was not flushed";
  EXPECT_EQ(*storage.Read("job/kept", 9), "3") << "its removal was not flushed";
}

}  // namespace
}  // namespace tern
