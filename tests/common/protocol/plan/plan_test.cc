// Tests of ExchangePlan: how a model is cut into buckets (whole tensors) and chunks (ranges of a
// bucket that are encoded separately), and which shard and lane (socket of a shard) each chunk
// belongs to.
#include "common/protocol/plan/plan.h"

#include <gmock/gmock.h>

#include <map>

#include "common/base/hash.h"

namespace tern::protocol {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

pb::Job JobOf(uint32_t workers, const std::vector<uint32_t>& data_sockets, uint32_t bucket_kib,
              uint32_t chunk_kib) {
  pb::Job job;
  job.mutable_workers()->set_count(workers);
  for (uint32_t sockets : data_sockets) job.add_servers()->set_data_sockets(sockets);
  job.mutable_exchange()->set_bucket_kib(bucket_kib);
  job.mutable_exchange()->set_chunk_kib(chunk_kib);
  return job;
}

// The tests' buckets and chunks are given in KiB; 1 KiB is 256 elements.
const std::vector<TensorInfo> kTensors = {
    {"conv.weight", 300}, {"conv.bias", 7}, {"ip.weight", 1001}, {"ip.bias", 10}};

TEST(Plan, PutsWholeTensorsIntoBucketsFromTheLast) {
  const auto plan = ExchangePlan::Make(JobOf(2, {1}, 2, 1), kTensors);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->parameters(), 1318u);
  ASSERT_EQ(plan->buckets.size(), 3u);
  // Bucket 0 has only ip.bias, because ip.weight fills a bucket of its own.
  EXPECT_EQ(plan->buckets[0].begin, 1308u);
  EXPECT_EQ(plan->buckets[0].count, 10u);
  EXPECT_EQ(plan->buckets[1].count, 1001u);
  EXPECT_EQ(plan->buckets[1].first_tensor, 2u);
  EXPECT_EQ(plan->buckets[2].begin, 0u);
  EXPECT_EQ(plan->buckets[2].count, 307u);
  EXPECT_EQ(plan->buckets[2].tensors, 2u);
  EXPECT_THAT(plan->buckets[2].shared_parts, ElementsAre(0, 1));
}

TEST(Plan, CutsABucketIntoEqualChunksThatCoverIt) {
  const auto plan = ExchangePlan::Make(JobOf(2, {1}, 2, 1), kTensors);
  ASSERT_TRUE(plan.ok());
  const Bucket& bucket = plan->buckets[1];
  ASSERT_EQ(bucket.chunks.size(), 4u);
  uint64_t next_begin = bucket.begin;
  for (const Chunk& chunk : bucket.chunks) {
    EXPECT_EQ(chunk.begin, next_begin);
    EXPECT_LE(chunk.count, 256u);
    next_begin += chunk.count;
  }
  EXPECT_EQ(next_begin, bucket.begin + bucket.count);
  EXPECT_EQ(bucket.chunks[0].count, 251u);
  EXPECT_EQ(bucket.chunks[3].count, 248u);
}

// The bytes of the largest payload of a job with these keys and one tensor of 256 Mi elements.
uint64_t LargestPayloadOf(const std::string& codec, pb::Job::Security security,
                          pb::Train::Parameters parameters = pb::Train::localized) {
  pb::Job job = JobOf(3, {1}, 65536, 65536);
  job.set_security(security);
  job.mutable_exchange()->set_codec(codec);
  job.mutable_train()->set_parameters(parameters);
  if (parameters == pb::Train::central)
    job.mutable_exchange()->set_scaler(pb::Exchange::per_worker);
  const auto plan = ExchangePlan::Make(job, {{"ip.weight", 256 << 20, 4096}});
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  uint64_t num_elements = 0;
  for (const Chunk& chunk : plan->buckets[0].chunks) num_elements += chunk.count;
  EXPECT_EQ(num_elements, plan->parameters());
  return CountRoundBytes(*plan).largest_payload;
}

TEST(Plan, LimitsPayloadsThatAreEncrypted) {
  for (const std::string codec : {"fp32", "fp16", "ternary", "qsgd", "onebit", "topk"}) {
    EXPECT_GT(LargestPayloadOf(codec, pb::Job::none), kMaxEncryptedPayload) << codec;
    EXPECT_LE(LargestPayloadOf(codec, pb::Job::curve), kMaxEncryptedPayload) << codec;
    // More than an eighth of the limit, because chunks are halved only as often as needed.
    EXPECT_GT(LargestPayloadOf(codec, pb::Job::curve), kMaxEncryptedPayload / 8) << codec;
    EXPECT_LE(LargestPayloadOf(codec, pb::Job::curve, pb::Train::central), kMaxEncryptedPayload)
        << codec;
  }
  EXPECT_EQ(LargestPayloadOf("fp32", pb::Job::curve), kMaxEncryptedPayload);
}

TEST(Plan, CutsChunksIntoSegmentsByTensor) {
  const auto plan = ExchangePlan::Make(JobOf(3, {1}, 2, 1), kTensors);
  ASSERT_TRUE(plan.ok());
  // The bucket has conv.weight and conv.bias, in chunks of 154 and 153 elements.
  const Bucket& bucket = plan->buckets[2];
  ASSERT_EQ(bucket.chunks.size(), 2u);
  ASSERT_EQ(bucket.chunks[0].segments.size(), 1u);
  ASSERT_EQ(bucket.chunks[1].segments.size(), 2u);
  EXPECT_EQ(bucket.chunks[1].segments[0].tensor, 0u);
  EXPECT_EQ(bucket.chunks[1].segments[0].begin, 154u);
  EXPECT_EQ(bucket.chunks[1].segments[0].count, 146u);
  EXPECT_EQ(bucket.chunks[1].segments[1].tensor, 1u);
  EXPECT_EQ(bucket.chunks[1].segments[1].count, 7u);
  const codec::Codec& codec = *plan->codec_of[0];
  EXPECT_EQ(bucket.chunks[1].max_sum_bytes,
            codec.MaxSumSize({0, 0, 146}, 3) + codec.MaxSumSize({0, 0, 7}, 3));
  EXPECT_EQ(bucket.chunks[1].max_push_bytes,
            codec.MaxEncodedSize({0, 0, 146}) + codec.MaxEncodedSize({0, 0, 7}));
}

TEST(Plan, CutsChunksOnlyBetweenGroupsOfTheCodec) {
  for (uint64_t group : {100, 700, 0}) {  // 0 means one group per tensor
    pb::Job job = JobOf(2, {1}, 4, 1);
    job.mutable_exchange()->set_codec("qsgd");
    job.mutable_exchange()->mutable_qsgd()->set_bucket_elements(group);
    const auto plan = ExchangePlan::Make(job, kTensors);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    for (const Bucket& bucket : plan->buckets) {
      uint64_t next_begin = bucket.begin;
      for (const Chunk& chunk : bucket.chunks) {
        EXPECT_EQ(chunk.begin, next_begin);
        next_begin += chunk.count;
        EXPECT_LE(chunk.count, group == 0 ? 1001 : std::max<uint64_t>(256, group));
        for (const codec::Segment& segment : chunk.segments)
          EXPECT_EQ(segment.begin % (group == 0 ? 1001 : group), 0u);
      }
      EXPECT_EQ(next_begin, bucket.begin + bucket.count);
    }
  }
}

TEST(Plan, DealsChunksToShardsAndTheirLanesInTurn) {
  const auto plan = ExchangePlan::Make(JobOf(2, {2, 1}, 2, 1), kTensors);
  ASSERT_TRUE(plan.ok());
  std::vector<std::pair<uint32_t, uint32_t>> shard_lanes;
  for (const Bucket& bucket : plan->buckets) {
    EXPECT_EQ(bucket.home_shard, bucket.chunks[0].shard);
    for (const Chunk& chunk : bucket.chunks) shard_lanes.emplace_back(chunk.shard, chunk.lane);
  }
  using ShardLane = std::pair<uint32_t, uint32_t>;
  EXPECT_THAT(shard_lanes,
              ElementsAre(ShardLane{0, 1}, ShardLane{1, 1}, ShardLane{0, 2}, ShardLane{1, 1},
                          ShardLane{0, 1}, ShardLane{1, 1}, ShardLane{0, 2}));
}

// The elements that each shard gets. `job`: one with buckets and chunks of up to 4 MiB.
std::vector<uint64_t> ElementsOfShards(const pb::Job& job, const std::vector<TensorInfo>& tensors) {
  const auto plan = ExchangePlan::Make(job, tensors);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  std::vector<uint64_t> elements(job.servers_size());
  for (const Bucket& bucket : plan->buckets) {
    for (const Chunk& chunk : bucket.chunks) elements[chunk.shard] += chunk.count;
  }
  return elements;
}

const std::vector<TensorInfo> kLenet = {
    {"conv1.weight", 500},  {"conv1.bias", 20}, {"conv2.weight", 25000}, {"conv2.bias", 50},
    {"ip1.weight", 400000}, {"ip1.bias", 500},  {"ip2.weight", 5000},    {"ip2.bias", 10}};

TEST(Plan, CutsASmallModelSoThatEachLaneHasFourChunks) {
  for (const std::vector<uint32_t>& lanes : std::vector<std::vector<uint32_t>>{{1}, {2}, {1, 1}}) {
    const auto plan = ExchangePlan::Make(JobOf(2, lanes, 4096, 4096), kLenet);
    ASSERT_TRUE(plan.ok());
    ASSERT_EQ(plan->buckets.size(), 1u);
    std::map<std::pair<uint32_t, uint32_t>, int> num_chunks;
    for (const Chunk& chunk : plan->buckets[0].chunks) ++num_chunks[{chunk.shard, chunk.lane}];
    EXPECT_EQ(num_chunks.size(), lanes.size() * lanes[0]);
    for (const auto& [lane, count] : num_chunks) EXPECT_EQ(count, 4);
  }
}

TEST(Plan, GivesAllShardsAboutAsMuch) {
  EXPECT_THAT(ElementsOfShards(JobOf(4, {1, 1, 1, 1}, 4096, 4096), kLenet),
              testing::Each(testing::AllOf(testing::Ge(106000u), testing::Le(110000u))));
  // Tensors of very different sizes: in turn, shard 0 would get all that are large.
  std::vector<TensorInfo> tensors;
  for (int i = 0; i < 10; ++i) {
    tensors.push_back({"large" + std::to_string(i), 900000});
    tensors.push_back({"small" + std::to_string(i), 200000});
  }
  EXPECT_THAT(ElementsOfShards(JobOf(2, {1, 1}, 4096, 4096), tensors),
              testing::Each(testing::AllOf(testing::Ge(5400000u), testing::Le(5600000u))));
}

TEST(Plan, LeavesATinyModelToOneShard) {
  EXPECT_THAT(ElementsOfShards(JobOf(2, {1, 1, 1}, 4096, 4096), kTensors), ElementsAre(1318, 0, 0));
}

TEST(Plan, CutsNoTensorThatAServerUpdatesWhole) {
  pb::Job job = JobOf(2, {1, 1}, 4096, 4096);
  job.mutable_train()->set_parameters(pb::Train::central);
  job.mutable_train()->mutable_optimizer()->set_name("lars");
  job.mutable_exchange()->set_scaler(pb::Exchange::per_worker);
  EXPECT_THAT(ElementsOfShards(job, kLenet), ElementsAre(431080, 0));
}

TEST(Plan, ChoosesACodecByTheFirstRuleThatMatches) {
  pb::Job job = JobOf(2, {1}, 4096, 4096);
  pb::CodecRule* rule = job.mutable_exchange()->add_rules();
  rule->set_tensors("*.bias");
  rule->set_codec("fp32");
  rule = job.mutable_exchange()->add_rules();
  rule->set_tensors("*");
  rule->set_max_elements(300);
  rule->set_codec("fp16");
  const auto plan = ExchangePlan::Make(job, kTensors);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->codec_of[0]->name(), "fp16");
  EXPECT_EQ(plan->codec_of[1]->name(), "fp32");
  EXPECT_EQ(plan->codec_of[2]->name(), "ternary");
  EXPECT_EQ(plan->codec_of[3]->name(), "fp32");
  EXPECT_THAT(plan->buckets[0].shared_parts, ElementsAre(2));
}

// A job of pqasgd that exchanges the model in fragments.
pb::Job JobWithFragments(uint32_t fragments, const std::string& codec) {
  pb::Job job = JobOf(2, {1}, 2, 1);
  job.mutable_train()->set_algorithm("pqasgd");
  job.mutable_train()->mutable_pqasgd()->set_fragments(fragments);
  job.mutable_exchange()->set_codec(codec);
  return job;
}

// What a fragment has of a tensor has a scaler of its own, because it is exchanged by itself.
TEST(Plan, CutsFragmentsOfEqualSizeAndTensorsIntoTheirParts) {
  const auto plan = ExchangePlan::Make(JobWithFragments(4, "ternary"), kTensors);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->buckets.size(), 4u);
  std::vector<uint64_t> begins, counts, part_begins;
  std::vector<std::vector<uint32_t>> shared_parts;
  for (const Bucket& bucket : plan->buckets) {
    begins.push_back(bucket.begin);
    counts.push_back(bucket.count);
    shared_parts.push_back(bucket.shared_parts);
  }
  for (const Part& part : plan->parts) part_begins.push_back(part.begin);
  EXPECT_THAT(begins, ElementsAre(0, 329, 659, 988));
  EXPECT_THAT(counts, ElementsAre(329, 330, 329, 330));
  EXPECT_THAT(plan->first_part, ElementsAre(0, 1, 2, 6, 7));
  EXPECT_THAT(part_begins, ElementsAre(0, 0, 0, 22, 352, 681, 0));
  EXPECT_THAT(shared_parts,
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3), ElementsAre(4), ElementsAre(5, 6)));
  EXPECT_THAT(plan->buckets[1].chunks[0].part_of_segment, ElementsAre(3));
}

TEST(Plan, CutsFragmentsBetweenElementsThatAreCodedTogether) {
  const auto plan = ExchangePlan::Make(JobWithFragments(2, "qsgd"), kTensors);
  ASSERT_TRUE(plan.ok());
  // Half of the model is inside the first 512 elements of ip.weight, which have one norm.
  EXPECT_EQ(plan->buckets[1].begin, 307u);
  EXPECT_EQ(plan->parts.size(), 4u);
  EXPECT_THAT(
      ExchangePlan::Make(JobWithFragments(4, "qsgd"), kTensors).status().message(),
      HasSubstr("train.pqasgd.fragments is 4, expected less: part 1 would be empty, because "
                "its elements are coded together with others"));
}

TEST(Plan, CutsTensorsIntoPartsOfScalerElements) {
  pb::Job job = JobOf(2, {1}, 2, 1);
  job.mutable_exchange()->set_scaler_elements(400);
  const auto plan = ExchangePlan::Make(job, kTensors);
  ASSERT_TRUE(plan.ok());
  // A part of a tensor has one scaler. conv.weight, conv.bias and ip.bias are one part each,
  // ip.weight is cut into three.
  EXPECT_THAT(plan->first_part, ElementsAre(0, 1, 2, 5, 6));
  EXPECT_EQ(plan->parts[4].begin, 800u);
  EXPECT_EQ(plan->parts[4].count, 201u);
  EXPECT_THAT(plan->buckets[1].shared_parts, ElementsAre(2, 3, 4));
  // Chunk 0 has 251 elements. So chunk 1 has elements of two parts, and a segment in each.
  const std::vector<Chunk>& chunks = plan->buckets[1].chunks;
  EXPECT_THAT(chunks[0].part_of_segment, ElementsAre(2));
  EXPECT_THAT(chunks[1].part_of_segment, ElementsAre(2, 3));
  EXPECT_EQ(chunks[1].segments[0].count, 149u);
  EXPECT_EQ(chunks[1].segments[1].begin, 400u);
  EXPECT_NE(plan->digest, ExchangePlan::Make(JobOf(2, {1}, 2, 1), kTensors)->digest);
}

// conv.weight has 2 blocks and a rest, ip.weight 7 and a rest; the biases are smaller than a block.
TEST(Plan, CutsChunksBetweenRotatedBlocks) {
  pb::Job job = JobOf(2, {1}, 2, 1);
  job.mutable_exchange()->set_rotate(128);
  const auto plan = ExchangePlan::Make(job, kTensors);
  ASSERT_TRUE(plan.ok());
  size_t num_chunks = 0;
  for (const Bucket& bucket : plan->buckets) {
    for (const Chunk& chunk : bucket.chunks) {
      ++num_chunks;
      for (const codec::Segment& segment : chunk.segments) {
        const uint64_t end = segment.begin + segment.count;
        EXPECT_EQ(segment.begin % 128, 0u) << segment.tensor;
        EXPECT_TRUE(end % 128 == 0 || end == plan->tensor_count[segment.tensor]) << end;
      }
    }
  }
  EXPECT_GT(num_chunks, plan->buckets.size());
  EXPECT_NE(plan->digest, ExchangePlan::Make(JobOf(2, {1}, 2, 1), kTensors)->digest);
  job.mutable_exchange()->set_rotate(0);
  EXPECT_EQ(ExchangePlan::Make(job, kTensors)->digest,
            ExchangePlan::Make(JobOf(2, {1}, 2, 1), kTensors)->digest);
  job.mutable_exchange()->set_rotate(100);
  EXPECT_THAT(ExchangePlan::Make(job, kTensors).status().message(),
              HasSubstr("exchange.rotate is 100, expected 0 or a power of two from 64 to 65536"));
}

TEST(Plan, ReservesBytesForScalersThatTravelWithPushes) {
  pb::Job job = JobOf(2, {1}, 2, 1);
  const auto plan_with_shared_scalers = ExchangePlan::Make(job, kTensors);
  job.mutable_train()->set_algorithm("odsgd");
  job.mutable_exchange()->set_scaler(pb::Exchange::previous);
  const auto plan = ExchangePlan::Make(job, kTensors);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->scaler_age_rounds, 2u);  // The algorithm odsgd has two open rounds at a time.
  EXPECT_TRUE(plan->shares_before(2));
  EXPECT_FALSE(plan->shares_before(3));
  EXPECT_EQ(plan->buckets[2].chunks[0].num_scalers, 2u);
  EXPECT_EQ(plan->buckets[2].chunks[1].num_scalers, 0u);
  EXPECT_EQ(plan->buckets[2].chunks[0].max_push_bytes,
            plan_with_shared_scalers->buckets[2].chunks[0].max_push_bytes + 2 * sizeof(float));
  EXPECT_NE(plan->digest, plan_with_shared_scalers->digest);
}

TEST(Plan, SharesNoScalerThatEveryWorkerHasForItself) {
  pb::Job job = JobOf(2, {1}, 4096, 4096);
  job.mutable_exchange()->set_scaler(pb::Exchange::per_worker);
  const auto plan = ExchangePlan::Make(job, kTensors);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->buckets[0].shared_parts.empty());
}

TEST(Plan, RefusesInvalidJobs) {
  pb::Job job = JobOf(2, {1}, 4, 4);
  EXPECT_EQ(ExchangePlan::Make(job, {}).status().code(), Code::kBadJob);
  EXPECT_THAT(ExchangePlan::Make(job, {{"hollow", 0}}).status().message(), HasSubstr("hollow"));
  job.mutable_exchange()->set_codec("tertiary");
  const Status plan_status = ExchangePlan::Make(job, kTensors).status();
  EXPECT_EQ(plan_status.code(), Code::kBadJob);
  EXPECT_THAT(plan_status.message(), testing::AllOf(HasSubstr("tertiary"), HasSubstr("ternary")));
}

TEST(Plan, RefusesMorePartsOrChunksThanItCanPlan) {
  const std::vector<TensorInfo> tensors = {{"w", uint64_t{1} << 30}};
  pb::Job job = JobOf(2, {1}, 4096, 4096);
  job.mutable_exchange()->set_scaler_elements(255);
  EXPECT_EQ(ExchangePlan::Make(job, tensors).status().message(),
            "exchange.scaler_elements: the model would have 4210753 scalers, expected at most "
            "4194304; give a larger number");
  job = JobOf(2, {1}, 4096, 1);
  EXPECT_EQ(ExchangePlan::Make(job, tensors).status().message(),
            "exchange.chunk_kib: the model would have 4194304 chunks, expected at most 1048576; "
            "give a larger number");
}

TEST(Plan, HasADigestThatTellsPlansApart) {
  const auto digest = [](const pb::Job& job) { return ExchangePlan::Make(job, kTensors)->digest; };
  const uint64_t base_digest = digest(JobOf(2, {1}, 2, 1));
  EXPECT_EQ(digest(JobOf(2, {1}, 2, 1)), base_digest);
  EXPECT_NE(digest(JobOf(3, {1}, 2, 1)), base_digest);
  EXPECT_NE(digest(JobOf(2, {2}, 2, 1)), base_digest);
  EXPECT_NE(digest(JobOf(2, {1, 1}, 2, 1)), base_digest);
  EXPECT_NE(digest(JobOf(2, {1}, 4, 1)), base_digest);
  EXPECT_NE(digest(JobOf(2, {1}, 2, 2)), base_digest);
  // This value must never change: peers of different builds compare their digests.
  EXPECT_EQ(Hex(base_digest), "67e1b2b3b13afa4b");
}

TEST(Plan, CountsTheBytesOfARound) {
  pb::Job job = JobOf(2, {1}, 4096, 4096);
  job.mutable_exchange()->set_codec("fp32");
  const auto plan = ExchangePlan::Make(job, kTensors);
  ASSERT_TRUE(plan.ok());
  const RoundBytes round_bytes = CountRoundBytes(*plan);
  EXPECT_EQ(round_bytes.push, 4u * 1318);
  EXPECT_EQ(round_bytes.sum, 4u * 1318);
  EXPECT_EQ(round_bytes.scalers, 0u);
  EXPECT_EQ(round_bytes.largest_payload, 4u * 1318);
}

}  // namespace
}  // namespace tern::protocol
