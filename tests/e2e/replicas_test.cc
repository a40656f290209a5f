// If the workers' replicas of the weights differ, the job goes back to a checkpoint, or ends. No
// setting makes replicas differ, so the tests flip a bit of the weights in one worker's memory, as
// happens on machines without ECC.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "setup/setup.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using ::testing::ContainsRegex;

// The bytes of the first 64 initial weights of the job, as they are in its workers' memory.
std::string FirstWeightBytes(const std::string& job_file) {
  auto setup = setup::MakeSetup(job_file, {});
  EXPECT_TRUE(setup.ok()) << setup.status().message();
  std::vector<float> parameters((*setup)->table.total);
  models::InitParameters((*setup)->table, (*setup)->job.seed(), parameters.data());
  return std::string(reinterpret_cast<const char*>(parameters.data()), 64 * sizeof(float));
}

// Finds every occurrence of `pattern` in the process's memory and flips the lowest bit of its first
// byte. Returns the number of flipped bits; -1 if the system does not give access to the memory.
int FlipBitOfEveryMatch(pid_t pid, std::string_view pattern) {
  const std::string proc_folder = "/proc/" + std::to_string(pid);
  const int memory_fd = open((proc_folder + "/mem").c_str(), O_RDWR | O_CLOEXEC);
  if (memory_fd < 0) return -1;
  int flipped_bits = 0;
  std::ifstream maps(proc_folder + "/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    uint64_t begin = 0, end = 0;
    char dash = 0;
    std::string access, offset, device, inode;
    fields >> std::hex >> begin >> dash >> end >> access >> offset >> device >> inode;
    constexpr uint64_t kMaxBytes = 256 << 20;  // larger memory regions are those of sanitizers
    if (access != "rw-p" || inode != "0" || end - begin > kMaxBytes) continue;
    std::string bytes(end - begin, '\0');
    const ssize_t read_bytes =
        pread(memory_fd, bytes.data(), bytes.size(), static_cast<off_t>(begin));
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(0, read_bytes)));
    for (size_t position = bytes.find(pattern); position != std::string::npos;
         position = bytes.find(pattern, position + 1)) {
      const char flipped_byte = static_cast<char>(pattern[0] ^ 1);
      if (pwrite(memory_fd, &flipped_byte, 1, static_cast<off_t>(begin + position)) == 1)
        ++flipped_bits;
    }
  }
  close(memory_fd);
  return flipped_bits;
}

// At this learning rate an update does not change a weight that is not 0, so the initial weights
// are found at any time.
TEST(Replicas, ThatDifferGoBackToACheckpointAtWhichTheyAgreed) {
  const std::vector<std::string> arguments = {"--set", "train.schedule.learning_rate=1e-30"};
  TestJob job(EndlessJobOptions(
      "faults: {compare_every_steps: 5}\ncheckpoints: {every_steps: 50, keep: 3}\n"));
  job.StartAll(arguments);
  // The next checkpoint is far: its bytes in memory must not be flipped, too.
  ASSERT_TRUE(job.WaitForLog("worker", 1, "wrote the checkpoint of step 100"));
  const std::string weight_bytes = FirstWeightBytes(job.job_file());
  const int flipped_bits = FlipBitOfEveryMatch(job.worker(1).pid(), weight_bytes);
  if (flipped_bits < 0) GTEST_SKIP() << "no access to a child's memory: " << std::strerror(errno);
  ASSERT_GE(flipped_bits, 1) << "the weights were not found";
  for (const uint32_t rank : {0, 1}) {
    ASSERT_TRUE(job.WaitForLog("worker", rank, "goes on from the checkpoint of step"));
    EXPECT_THAT(job.Log("worker", rank),
                ContainsRegex("the replicas differ after round [0-9]+: worker 0 has hash "
                              "[0-9a-f]+, worker 1 has [0-9a-f]+"));
  }
  job.server(0).Signal(SIGTERM);
  job.ExpectAllEnd(143);
  EXPECT_NE(job.OutputBytes("weights.safetensors").find(weight_bytes), std::string::npos);
}

TEST(Replicas, ThatDifferEndAJobWithoutCheckpointsWhichNamesBothHashes) {
  TestJob job({.steps = 1000000, .yaml = "faults: {compare_every_steps: 5}\n"});
  job.StartWorker(1);
  ASSERT_TRUE(job.WaitForLog("worker", 1, "worker 1 of 2"));
  const int flipped_bits =
      FlipBitOfEveryMatch(job.worker(1).pid(), FirstWeightBytes(job.job_file()));
  if (flipped_bits < 0) GTEST_SKIP() << "no access to a child's memory: " << std::strerror(errno);
  ASSERT_GE(flipped_bits, 1) << "the weights were not found";
  job.StartServer(0);
  job.StartWorker(0);
  const char* difference_pattern =
      "the replicas differ after round 5: worker 0 has hash [0-9a-f]+, worker 1 has [0-9a-f]+";
  for (const uint32_t rank : {0, 1}) {
    EXPECT_EQ(job.worker(rank).Wait(), 76);
    EXPECT_THAT(job.worker(rank).err(), ContainsRegex(difference_pattern));
  }
  EXPECT_EQ(job.server(0).Wait(), 76);
  EXPECT_THAT(job.server(0).err(), ContainsRegex(difference_pattern));
  EXPECT_EQ(job.OutputBytes("weights.safetensors"), "") << "nobody may take them for good";
}

}  // namespace
}  // namespace tern::e2e
