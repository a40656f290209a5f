// Requirements for every Storage (common/base/storage.h). Whoever implements one runs the suite on
// it (storage_conformance.cc):
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

// A storage to test, and a folder in it that exists and is empty. It removes what it made.
class StorageUnderTest {
 public:
  virtual ~StorageUnderTest() = default;
  virtual Storage& storage() = 0;
  virtual std::string folder() const = 0;  // without a slash at its end
};

struct StorageCase {
  std::string name;  // letters and digits
  std::function<std::unique_ptr<StorageUnderTest>()> make;
};

inline std::string StorageCaseName(const testing::TestParamInfo<StorageCase>& info) {
  return info.param.name;
}

class StorageConformance : public testing::TestWithParam<StorageCase> {
 protected:
  std::string Path(const std::string& name) const { return under_test_->folder() + "/" + name; }
  // Writes, which must succeed.
  void Put(const std::string& name, const std::string& bytes);
  // The whole file; "(none)" if it cannot be read.
  std::string Bytes(const std::string& name) const;
  // The sorted names in a folder, separated by blanks.
  std::string NamesIn(const std::string& folder) const;

  const std::unique_ptr<StorageUnderTest> under_test_ = GetParam().make();
  Storage& storage_ = under_test_->storage();
};

}  // namespace tern
