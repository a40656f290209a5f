// A test suite of requirements that every implementation of Storage, the interface to a file system
// (common/base/storage.h), must meet. The test of an implementation instantiates the suite:
//
//   INSTANTIATE_TEST_SUITE_P(Disk, StorageConformance, testing::Values(StorageCase{...}),
//                            StorageCaseName);
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "common/base/storage.h"

namespace tern {

// A storage to test, with an existing empty folder in it. The destructor removes all files.
class StorageUnderTest {
 public:
  virtual ~StorageUnderTest() = default;
  virtual Storage& storage() = 0;
  // The path of the folder, without a slash at the end.
  virtual std::string folder() const = 0;
};

struct StorageCase {
  std::string name;  // Only letters and digits.
  std::function<std::unique_ptr<StorageUnderTest>()> make;
};

inline std::string StorageCaseName(const testing::TestParamInfo<StorageCase>& info) {
  return info.param.name;
}

class StorageConformance : public testing::TestWithParam<StorageCase> {
 protected:
  std::string Path(const std::string& name) const { return under_test_->folder() + "/" + name; }
  // Writes a file; the test fails if that is impossible.
  void WriteFile(const std::string& name, const std::string& bytes);
  // Returns a file's content; "(none)" if it cannot be read.
  std::string ContentOf(const std::string& name) const;
  // Returns the sorted names of a folder's entries, separated by blanks.
  std::string NamesIn(const std::string& folder) const;

  const std::unique_ptr<StorageUnderTest> under_test_ = GetParam().make();
  Storage& storage_ = under_test_->storage();
};

}  // namespace tern
