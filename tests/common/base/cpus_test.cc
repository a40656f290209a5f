#include "common/base/cpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "common/base/threads.h"

namespace tern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Cpus, ParsesNumbersAndRanges) {
  EXPECT_THAT(*ParseCpus("0-3,8"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(*ParseCpus("7"), ElementsAre(7));
  EXPECT_THAT(*ParseCpus("5,2-3,3,1023"), ElementsAre(2, 3, 5, 1023));
}

TEST(Cpus, RefusesInvalidLists) {
  for (const char* text : {"", ",", "0,", ",1", "0-", "-1", "3-1", "a", "0-b", "1 2", "0,,1",
                           "1024", "0-4000000000", "1-2-3", "+1", "99999999999999999999"}) {
    EXPECT_FALSE(ParseCpus(text).has_value()) << text;
  }
}

TEST(Cpus, PrintsTheShortestList) {
  EXPECT_EQ(CpusText({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(CpusText({2, 4, 5}), "2,4-5");
  EXPECT_EQ(CpusText({}), "");
}

TEST(Cpus, BindsThreadsAndTheirChildrenExceptTernThreads) {
  const auto allowed_cpus = CpusOfThisThread();
  ASSERT_TRUE(allowed_cpus.ok()) << allowed_cpus.status().message();
  std::vector<uint32_t> cpus_of_bound_thread, cpus_of_its_child, cpus_of_tern_thread;
  std::thread([&] {
    const Status status = BindThreadToCpus({allowed_cpus->back()});
    ASSERT_TRUE(status.ok()) << status.message();
    cpus_of_bound_thread = *CpusOfThisThread();
    std::thread([&] { cpus_of_its_child = *CpusOfThisThread(); }).join();
    Thread("ours", [&] { cpus_of_tern_thread = *CpusOfThisThread(); }).Join();
  }).join();
  EXPECT_THAT(cpus_of_bound_thread, ElementsAre(allowed_cpus->back()));
  EXPECT_THAT(cpus_of_its_child, ElementsAre(allowed_cpus->back()));
  EXPECT_EQ(cpus_of_tern_thread, *allowed_cpus);
  EXPECT_EQ(*CpusOfThisThread(), *allowed_cpus);
}

TEST(Cpus, ReportsTheAllowedCpus) {
  const auto allowed_cpus = CpusOfThisThread();
  ASSERT_TRUE(allowed_cpus.ok()) << allowed_cpus.status().message();
  uint32_t missing_cpu = 0;
  while (missing_cpu < allowed_cpus->size() && (*allowed_cpus)[missing_cpu] == missing_cpu)
    ++missing_cpu;
  const Status status = BindThreadToCpus({allowed_cpus->front(), missing_cpu});
  EXPECT_EQ(status.code(), Code::kBadJob);
  EXPECT_THAT(status.message(), HasSubstr("saw CPU " + std::to_string(missing_cpu)));
  EXPECT_THAT(status.message(), HasSubstr("allowed here: " + CpusText(*allowed_cpus)));
  EXPECT_EQ(*CpusOfThisThread(), *allowed_cpus);
}

}  // namespace
}  // namespace tern
