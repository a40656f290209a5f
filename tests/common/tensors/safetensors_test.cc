// Tests of reading and writing safetensors files.
#include "common/tensors/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/limited_memory.h"

namespace tern::tensors {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<float> kWeight = {1, -2.5f, 0x1p-149f, -0.f, 3.4e38f, 6};
const std::vector<float> kBias = {7, 8};

std::vector<TensorView> TestTensors() {
  return {{"fc.weight", {2, 3}, kWeight}, {"fc.bias", {2}, kBias}, {"none", {0, 4}, {}}};
}

std::string EncodeTestTensors() {
  return EncodeSafetensors(TestTensors(), {{"round", "17"}, {"job", "a \"b\"\n"}});
}

// A file with that header text and `data_bytes` zero bytes.
std::string FileWithHeader(const std::string& header, size_t data_bytes) {
  std::string bytes(8, '\0');
  const uint64_t header_length = header.size();
  std::memcpy(bytes.data(), &header_length, 8);
  return bytes + header + std::string(data_bytes, '\0');
}

// The error with which the file is refused, or "accepted".
std::string RefusalOrAccepted(const std::string& bytes) {
  const auto file = DecodeSafetensors(bytes);
  if (file.ok()) return "accepted";
  EXPECT_EQ(file.status().code(), Code::kBadData);
  return file.status().message();
}

TEST(Safetensors, SurvivesEncodingAndDecoding) {
  const auto file = DecodeSafetensors(EncodeTestTensors());
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors.size(), 3u);
  EXPECT_EQ(file->tensors[0].name, "fc.weight");
  EXPECT_THAT(file->tensors[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(std::memcmp(file->tensors[0].values.data(), kWeight.data(), 24), 0);
  EXPECT_EQ(file->tensors[1].name, "fc.bias");
  EXPECT_EQ(file->tensors[1].values, kBias);
  EXPECT_THAT(file->tensors[2].shape, ElementsAre(0, 4));
  EXPECT_EQ(file->metadata.at("round"), "17");
  EXPECT_EQ(file->metadata.at("job"), "a \"b\"\n");
}

TEST(Safetensors, EncodesToTheseBytes) {
  const std::string bytes = EncodeSafetensors({{"b", {2}, kBias}}, {{"k", "v"}});
  const std::string header =
      R"({"__metadata__":{"k":"v"},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string padded_header = header + std::string((8 - header.size() % 8) % 8, ' ');
  std::string expected = FileWithHeader(padded_header, 8);
  std::memcpy(expected.data() + expected.size() - 8, kBias.data(), 8);
  EXPECT_EQ(bytes, expected);
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string bytes = EncodeTestTensors();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(RefusalOrAccepted(bytes.substr(0, size)), "accepted") << size;
  }
  EXPECT_THAT(RefusalOrAccepted(bytes.substr(0, 5)), HasSubstr("it has 5 bytes"));
  EXPECT_THAT(RefusalOrAccepted(bytes.substr(0, bytes.size() - 1)),
              HasSubstr("truncated or damaged"));
  EXPECT_THAT(RefusalOrAccepted(bytes + "x"), HasSubstr("truncated or damaged"));
}

TEST(Safetensors, SurvivesEveryChangedHeaderByte) {
  const std::string bytes = EncodeTestTensors();
  const size_t data_bytes = 4 * (kWeight.size() + kBias.size());
  for (size_t at = 0; at < bytes.size() - data_bytes; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged_bytes = bytes;
      damaged_bytes[at] = static_cast<char>(damaged_bytes[at] ^ (1 << bit));
      // This must neither crash nor read past the end.
      const auto file = DecodeSafetensors(damaged_bytes);
      EXPECT_EQ(file.ok(), file.status().message().empty());
    }
  }
}

TEST(Safetensors, RefusesAWrongHeaderLength) {
  std::string bytes = EncodeTestTensors();
  const auto refusal_with_length = [&](uint64_t length) {
    std::memcpy(bytes.data(), &length, 8);
    return RefusalOrAccepted(bytes);
  };
  EXPECT_THAT(refusal_with_length(~uint64_t{0}), HasSubstr("at most 16777216"));
  EXPECT_THAT(refusal_with_length((16 << 20) + 1), HasSubstr("at most 16777216"));
  EXPECT_THAT(refusal_with_length(16 << 20), HasSubstr("the file is truncated"));
  EXPECT_THAT(refusal_with_length(0), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal_with_length(7), HasSubstr("not a JSON object"));
}

TEST(Safetensors, RefusesInconsistentHeaders) {
  const auto decode_entry = [](const std::string& fields) {
    return RefusalOrAccepted(FileWithHeader("{\"a\":{" + fields + "}}", 8));
  };
  EXPECT_EQ(decode_entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), "accepted");
  EXPECT_EQ(decode_entry(R"("dtype":"F16","shape":[4],"data_offsets":[0,8])"), "accepted");
  EXPECT_THAT(decode_entry(R"("dtype":"F16","shape":[2],"data_offsets":[0,8])"),
              HasSubstr("data_offsets span 8 bytes, its shape needs 4"));
  EXPECT_THAT(decode_entry(R"("shape":[2],"data_offsets":[0,8])"), HasSubstr("has no dtype"));
  EXPECT_THAT(decode_entry(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
              HasSubstr("data_offsets span 8 bytes, its shape needs 12"));
  EXPECT_THAT(decode_entry(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"),
              HasSubstr("shape must"));
  EXPECT_THAT(decode_entry(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"),
              HasSubstr("shape must"));
  EXPECT_THAT(decode_entry(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"),
              HasSubstr("shape must"));
  EXPECT_THAT(decode_entry(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8])"),
              HasSubstr("at most 8"));
  EXPECT_THAT(decode_entry(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
              HasSubstr("data_offsets must"));
  EXPECT_THAT(decode_entry(R"("dtype":"F32","shape":[2],"data_offsets":[0])"),
              HasSubstr("data_offsets must"));
  EXPECT_THAT(decode_entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"),
              HasSubstr("begins at byte 4, but the tensor before it ends at 0"));
  EXPECT_THAT(decode_entry(R"("dtype":"F32","shape":[3],"data_offsets":[0,12])"),
              HasSubstr("need 12 bytes, but 8 follow"));
  // 2^62 * 2^62 * 4 bytes wraps to 0 in 64 bits.
  EXPECT_THAT(decode_entry(R"("dtype":"F32","shape":[4611686018427387904,4611686018427387904],)"
                           R"("data_offsets":[0,0])"),
              HasSubstr("more than 2^63"));
  EXPECT_THAT(decode_entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"dtype":"F32")"),
              HasSubstr("\"dtype\" twice"));
}

// A file with one tensor of that type, which these values, as they are in memory, make up.
template <typename Stored>
std::string FileOfType(const std::string& dtype, const std::vector<Stored>& stored) {
  const size_t num_bytes = stored.size() * sizeof(Stored);
  const std::string count = std::to_string(stored.size());
  std::string bytes =
      FileWithHeader("{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + count +
                         "],\"data_offsets\":[0," + std::to_string(num_bytes) + "]}}",
                     num_bytes);
  std::memcpy(bytes.data() + bytes.size() - num_bytes, stored.data(), num_bytes);
  return bytes;
}

template <typename Stored>
std::vector<float> ReadAs(const std::string& dtype, const std::vector<Stored>& stored) {
  const auto file = DecodeSafetensors(FileOfType(dtype, stored));
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file->tensors.at(0).values;
}

TEST(Safetensors, ReadsOtherFloatsAsFloat32) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(ReadAs<uint16_t>("F16", {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0xc100,
                                       0x7bff, 0x7c00, 0xfc00}),
              ElementsAre(0.f, -0.f, 0x1p-24f, -1023 * 0x1p-24f, 0x1p-14f, 1.f, -2.5f, 65504.f,
                          infinity, -infinity));
  EXPECT_TRUE(std::signbit(ReadAs<uint16_t>("F16", {0x8000})[0]));
  EXPECT_TRUE(std::isnan(ReadAs<uint16_t>("F16", {0x7c01})[0]));
  EXPECT_THAT(ReadAs<uint16_t>("BF16", {0x3f80, 0xc020, 0x0001, 0xff80}),
              ElementsAre(1.f, -2.5f, 0x1p-133f, -infinity));
  // The last two are the largest that are rounded down, and the smallest that are not.
  EXPECT_THAT(
      ReadAs<double>("F64", {1.0 / 3, -2.5, 1e300, -1e300, 0x1.fffffefffffffp127, 0x1.ffffffp127}),
      ElementsAre(1.f / 3, -2.5f, infinity, -infinity, 0x1.fffffep127f, infinity));
  EXPECT_TRUE(std::isnan(ReadAs<double>("F64", {std::nan("")})[0]));
}

TEST(Safetensors, KeepsTheNamesOfTensorsOfOtherTypes) {
  const std::string header = R"({"n":{"dtype":"I64","shape":[],"data_offsets":[8,16]},)"
                             R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("new":{"dtype":"F4\u001b","shape":[3],"data_offsets":[16,18]}})";
  const auto file = DecodeSafetensors(FileWithHeader(header, 18));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors.size(), 1u);
  EXPECT_EQ(file->tensors[0].name, "w");
  EXPECT_EQ(file->WhyMissing("n"),
            "has dtype I64, expected F32, F16, BF16 or F64: save it as one of these");
  EXPECT_THAT(file->WhyMissing("new"), HasSubstr("has dtype F4\\x1b, expected"));
  EXPECT_EQ(file->WhyMissing("x"), "is missing");
  EXPECT_THAT(RefusalOrAccepted(FileWithHeader(header, 17)), HasSubstr("truncated or damaged"));
}

TEST(Safetensors, RefusesOverlapsDuplicatesAndInvalidJson) {
  const std::string entry_a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::string entry_b = R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]})";
  EXPECT_THAT(RefusalOrAccepted(FileWithHeader("{" + entry_a + "," + entry_b + "}", 8)),
              HasSubstr("begins at byte 4"));
  EXPECT_THAT(RefusalOrAccepted(FileWithHeader("{" + entry_a + "," + entry_a + "}", 8)),
              HasSubstr("\"a\" twice"));
  EXPECT_THAT(RefusalOrAccepted(FileWithHeader("[" + std::string(100'000, '['), 0)),
              HasSubstr("JSON object"));
  EXPECT_THAT(RefusalOrAccepted(FileWithHeader("{\"a\":3}", 0)),
              HasSubstr("not described by a JSON object"));
  EXPECT_THAT(RefusalOrAccepted(FileWithHeader("{\"__metadata__\":{\"k\":3}}", 0)),
              HasSubstr("strings only"));
  EXPECT_THAT(RefusalOrAccepted(FileWithHeader("{\"\xff\":{}}", 0)), HasSubstr("JSON object"));
}

// The tensor `name` without elements, as an entry of the header.
std::string EmptyEntry(const std::string& name) {
  return "\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}";
}

TEST(Safetensors, LimitsTheNumberOfTensors) {
  std::string header = "{\"__metadata__\":{\"k\":\"v\"}";
  for (int i = 0; i < 131'073; ++i) header += "," + EmptyEntry(std::to_string(i));
  EXPECT_EQ(RefusalOrAccepted(FileWithHeader(header + "}", 0)),
            "the header has more than 131072 tensors, the most allowed");
}

TEST(Safetensors, LimitsTheKeysOfATensorAndOfTheMetadata) {
  std::string keys;
  for (int i = 0; i < 70'000; ++i) keys += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"\"";
  EXPECT_EQ(RefusalOrAccepted(FileWithHeader("{\"a\":{" + keys + "}}", 0)),
            "tensor \"a\" has more than 16 keys, the most allowed");
  EXPECT_EQ(RefusalOrAccepted(FileWithHeader("{\"__metadata__\":{" + keys + "}}", 0)),
            "__metadata__ has more than 65536 entries, the most allowed");
}

TEST(Safetensors, LimitsTheDepth) {
  const auto refusal_with = [](const std::string& value) {
    return RefusalOrAccepted(FileWithHeader(
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":)" + value + "}}", 8));
  };
  EXPECT_EQ(refusal_with(R"([1,-1,1.5,"y",null,true])"), "accepted");
  EXPECT_EQ(refusal_with(R"({"y":1,"z":2})"), "accepted");
  for (const char* value : {"[[]]", "[{}]", R"({"y":[]})", R"({"y":{}})"}) {
    EXPECT_EQ(refusal_with(value), "tensor \"a\": the header nests more than three deep") << value;
  }
}

TEST(Safetensors, EscapesNamesInMessages) {
  EXPECT_EQ(RefusalOrAccepted(FileWithHeader(R"({"\u001b[2J":3})", 0)),
            "tensor \"\\x1b[2J\" is not described by a JSON object");
}

// However long a header is, it is refused at its first fault, and little memory is used.
TEST(Safetensors, RefusesAHostileHeaderWithLittleMemory) {
  constexpr size_t kHeaderBytes = 2 << 20;
  const auto repeat = [](const std::string& text, size_t num_bytes) {
    std::string repeated;
    while (repeated.size() < num_bytes) repeated += text;
    return repeated;
  };
  for (const std::string& header :
       {std::string(kHeaderBytes, '['), R"({"a":)" + std::string(kHeaderBytes, '['),
        R"({"a":{"shape":[0)" + repeat(",0", kHeaderBytes),
        R"({"a":{"x":[0)" + repeat(",0", kHeaderBytes),
        R"({"a":{"x":{"y":)" + std::string(kHeaderBytes, '[')}) {
    const std::string file = FileWithHeader(header, 0);
    TERN_EXPECT_WITHIN_MEMORY(1 << 20, !DecodeSafetensors(file).ok()) << header.substr(0, 20);
  }
}

class SafetensorsFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/safetensors_" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    path_ = folder_ + "/weights.safetensors";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_, path_;
};

TEST_F(SafetensorsFile, IsWrittenAtomicallyAndReadBack) {
  ASSERT_TRUE(WriteSafetensors(path_, {{"old", {2}, kBias}}, {}).ok());
  const Status write_status = WriteSafetensors(path_, TestTensors(), {{"round", "17"}});
  ASSERT_TRUE(write_status.ok()) << write_status.message();
  std::ifstream in(path_, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(bytes, EncodeSafetensors(TestTensors(), {{"round", "17"}}));
  const auto file = ReadSafetensors(path_);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->tensors[1].values, kBias);
  // No temporary file is left.
  const auto entries = std::filesystem::directory_iterator(folder_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(SafetensorsFile, ReportsErrorsOfTheSystem) {
  const Status write_status = WriteSafetensors(folder_ + "/no/such", TestTensors(), {});
  EXPECT_EQ(write_status.code(), Code::kCannotWrite);
  EXPECT_THAT(write_status.message(), HasSubstr("No such file"));
  EXPECT_THAT(ReadSafetensors(path_).status().message(), HasSubstr("cannot open"));
  EXPECT_THAT(ReadSafetensors(folder_).status().message(), HasSubstr("not a regular file"));
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(ReadSafetensors(path_).status().message(), HasSubstr("not a regular file"));
}

TEST_F(SafetensorsFile, NamesADamagedFile) {
  std::ofstream(path_, std::ios::binary) << EncodeTestTensors().substr(0, 40);
  EXPECT_THAT(ReadSafetensors(path_).status().message(),
              HasSubstr("weights.safetensors: the header"));
}

}  // namespace
}  // namespace tern::tensors
