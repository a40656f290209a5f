// Tests of the digests by which processes find the keys in which their jobs differ.
#include "common/config/key_digests.h"

#include <gmock/gmock.h>

#include "common/config/job.h"
#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

pb::Job JobWith(const std::vector<std::string>& overrides) {
  const auto job = Parse(SmallJob(), overrides);
  EXPECT_TRUE(job.ok()) << job.status().message();
  return job.ok() ? *job : pb::Job();
}

std::vector<std::string> DifferentKeys(const std::vector<std::string>& overrides) {
  const std::vector<uint32_t> digests = KeyDigests(JobWith({})),
                              other_digests = KeyDigests(JobWith(overrides));
  EXPECT_EQ(digests.size(), SharedKeys().size());
  std::vector<std::string> keys;
  for (size_t i = 0; i < digests.size(); ++i) {
    if (digests[i] != other_digests[i]) keys.push_back(SharedKeys()[i]);
  }
  return keys;
}

TEST(KeyDigests, FindTheKeysThatDiffer) {
  EXPECT_THAT(DifferentKeys({}), IsEmpty());
  EXPECT_THAT(DifferentKeys({"seed=7"}), ElementsAre("seed"));
  EXPECT_THAT(DifferentKeys({"train.batch_total=512", "exchange.clip_sigma=3"}),
              ElementsAre("train.batch_total", "exchange.clip_sigma"));
  EXPECT_THAT(DifferentKeys({"exchange.clip_sigma=2.5"}), IsEmpty()) << "this is the default";
  EXPECT_THAT(DifferentKeys({"output_dir=elsewhere"}), IsEmpty()) << "this may differ";
}

TEST(KeyDigests, AreOfKeysThatMustNotDiffer) {
  EXPECT_THAT(SharedKeys(), Contains("train.schedule.learning_rate"));
  EXPECT_THAT(SharedKeys(), Contains("servers"));
  EXPECT_THAT(SharedKeys(), Not(Contains("output_dir")));
  EXPECT_LT(SharedKeys().size(), 400u) << "each hello has 4 bytes for each of them";
}

}  // namespace
}  // namespace tern::config
