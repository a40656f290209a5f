#include "worker/gpu_choice.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tern::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

setup::Environment EnvironmentWith(const char* visible) {
  return [visible](const char* name) -> const char* {
    return std::string(name) == "CUDA_VISIBLE_DEVICES" ? visible : nullptr;
  };
}

TEST(Gpus, AreThoseOfTheVariable) {
  EXPECT_THAT(GpusOf(EnvironmentWith("3,GPU-5a")), ElementsAre("3", "GPU-5a"));
  EXPECT_THAT(GpusOf(EnvironmentWith("")), IsEmpty());
}

TEST(Gpus, AreThoseOfTheDeviceFilesWithoutTheVariable) {
  const std::string folder = testing::TempDir() + "gpu_choice_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  EXPECT_THAT(GpusOf(EnvironmentWith(nullptr), folder), IsEmpty());
  for (const char* file : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"})
    std::ofstream(folder + "/" + file);
  EXPECT_THAT(GpusOf(EnvironmentWith(nullptr), folder), ElementsAre("0", "1"));
  // A container that has been given some of the host's GPUs.
  std::filesystem::remove(folder + "/nvidia0");
  std::ofstream(folder + "/nvidia13");
  EXPECT_THAT(GpusOf(EnvironmentWith(nullptr), folder), ElementsAre("0", "1"));
  EXPECT_THAT(GpusOf(EnvironmentWith(nullptr), folder + "/none"), IsEmpty());
}

TEST(ChooseGpu, SharesThemOut) {
  const std::vector<std::string> gpus = {"4", "6"};
  EXPECT_EQ(*ChooseGpu(gpus, std::nullopt, 0), "4");
  EXPECT_EQ(*ChooseGpu(gpus, std::nullopt, 1), "6");
  EXPECT_EQ(*ChooseGpu(gpus, std::nullopt, 2), "4");
  EXPECT_EQ(*ChooseGpu({}, std::nullopt, 2), "");  // CUDA says what is there
}

TEST(ChooseGpu, TakesTheOneThatIsWanted) {
  EXPECT_EQ(*ChooseGpu({"4", "6"}, 1, 0), "6");
  EXPECT_EQ(*ChooseGpu({}, 3, 0), "3");
  const auto none = ChooseGpu({"0", "1"}, 2, 0);
  EXPECT_EQ(none.status().code(), Code::kBadJob);
  EXPECT_THAT(
      none.status().message(),
      HasSubstr("workers.gpu is 2, but this host has 2 GPUs; expected a number from 0 to 1"));
}

TEST(TakeGpu, LeavesOneGpuToCuda) {
  setenv("CUDA_VISIBLE_DEVICES", "5,7", 1);
  unsetenv("CUDA_DEVICE_ORDER");
  pb::Job job;
  ASSERT_TRUE(TakeGpu(job, 1).ok());  // computes on a CPU
  EXPECT_STREQ(std::getenv("CUDA_VISIBLE_DEVICES"), "5,7");
  job.mutable_workers()->set_device(pb::Workers::cuda);
  setenv("TERN_LOCAL_RANK", "1", 1);
  ASSERT_TRUE(TakeGpu(job, 4).ok());
  EXPECT_STREQ(std::getenv("CUDA_VISIBLE_DEVICES"), "7");
  EXPECT_EQ(std::getenv("CUDA_DEVICE_ORDER"), nullptr) << "the user's numbers keep their meaning";
  unsetenv("TERN_LOCAL_RANK");
  unsetenv("CUDA_VISIBLE_DEVICES");
}

}  // namespace
}  // namespace tern::worker
