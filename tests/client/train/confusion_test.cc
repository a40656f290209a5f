#include "client/train/confusion.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/atomic_file.h"

namespace tern::client {
namespace {

TEST(Confusion, CarriesTheNamesOfTheClasses) {
  const std::string folder = testing::TempDir() + "tern_confusion_" + std::to_string(std::rand());
  const std::vector<std::string> names = {"cat", "dog, \"big\""};
  ASSERT_TRUE(WriteConfusion(folder, "confusion.csv", {5, 1, 0, 2, 6, 0, 0, 0, 7}, 3, names).ok());
  EXPECT_EQ(*ReadWholeFile(folder + "/confusion.csv"),
            "true,cat,\"dog, \"\"big\"\"\",2\n"
            "cat,5,1,0\n"
            "\"dog, \"\"big\"\"\",2,6,0\n"
            "2,0,0,7\n");
  ASSERT_TRUE(WriteClasses(folder, names).ok());
  EXPECT_EQ(*ReadWholeFile(folder + "/classes.txt"), "cat\ndog, \"big\"\n");
  ASSERT_TRUE(WriteClasses(folder, {"gr\xc3\xb6\xc3\x9f"
                                    "e",
                                    "a\nb\\", std::string(100, 'x')})
                  .ok());
  EXPECT_EQ(*ReadWholeFile(folder + "/classes.txt"),
            "gr\xc3\xb6\xc3\x9f"
            "e\na\\x0ab\\x5c\n" +
                std::string(100, 'x') + "\n");
  ASSERT_TRUE(WriteClasses(folder, {}).ok()) << "of a job whose data has no names";
  EXPECT_FALSE(std::filesystem::exists(folder + "/classes.txt"));
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(WriteClasses(folder, {}).ok());
  EXPECT_FALSE(std::filesystem::exists(folder + "/classes.txt"));
}

}  // namespace
}  // namespace tern::client
