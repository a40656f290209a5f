#include "worker/engine/cuda/cudnn/shared_library.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace tern::engine {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr const char* kMathLibrary = "libm.so.6";  // the loader finds it

TEST(SharedLibrary, FindsFunctionsOfALibraryOnTheLoadersPath) {
  const auto library = SharedLibrary::Open(kMathLibrary, {});
  ASSERT_TRUE(library.ok()) << library.status().message();
  double (*absolute)(double) = nullptr;
  ASSERT_TRUE(library->Find("fabs", &absolute).ok());
  EXPECT_EQ(absolute(-3), 3);
  EXPECT_TRUE(std::filesystem::exists(library->Folder() + "/" + kMathLibrary));
}

// Returns an empty folder.
std::string MakeFolder(const std::string& name) {
  const std::string path = testing::TempDir() + "shared_library_test_" + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

TEST(SharedLibrary, LooksInTheFolders) {
  const std::string folder = MakeFolder("library");
  const char* name = "libtern_in_a_folder.so.1";
  const std::vector<std::string> folders = {folder + "/nowhere", folder};
  EXPECT_FALSE(SharedLibrary::Open(name, folders).ok());
  std::filesystem::path real_path;
  for (const char* place : {"/lib/x86_64-linux-gnu", "/usr/lib64", "/lib/aarch64-linux-gnu"}) {
    const auto path = std::filesystem::path(place) / kMathLibrary;
    if (std::filesystem::exists(path)) real_path = path;
  }
  std::filesystem::create_symlink(real_path, folder + "/" + name);
  EXPECT_TRUE(SharedLibrary::Open(name, folders).ok());
}

TEST(SharedLibrary, NamesWhatIsMissing) {
  const auto library = SharedLibrary::Open("libtern_nobody_has.so.1", {"/"});
  EXPECT_THAT(library.status().message(), HasSubstr("libtern_nobody_has.so.1"));
  void (*nothing)() = nullptr;
  const Status status = SharedLibrary::Open(kMathLibrary, {})->Find("tern_no_function", &nothing);
  EXPECT_EQ(status.code(), Code::kBadJob);
  EXPECT_THAT(status.message(), HasSubstr("tern_no_function"));
}

TEST(NvidiaFolders, AreThoseOfTheToolkitAndOfWheelsInTheEnvironment) {
  const std::string toolkit = MakeFolder("toolkit"), wheels = MakeFolder("environment");
  const std::string in_toolkit = toolkit + "/lib64",
                    in_wheel = wheels + "/lib/python3.11/site-packages/nvidia/cudnn/lib";
  std::filesystem::create_directories(in_toolkit);
  std::filesystem::create_directories(in_wheel);
  setenv("CUDA_HOME", toolkit.c_str(), 1);
  setenv("VIRTUAL_ENV", wheels.c_str(), 1);
  const std::vector<std::string> folders = NvidiaFolders();
  unsetenv("CUDA_HOME");
  unsetenv("VIRTUAL_ENV");
  EXPECT_THAT(folders, Contains(in_toolkit));
  EXPECT_THAT(folders, Contains(in_wheel));
}

}  // namespace
}  // namespace tern::engine
