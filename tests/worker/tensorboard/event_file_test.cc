#include "worker/tensorboard/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/worker/tensorboard/read_events.h"
#include "worker/tensorboard/writer.h"

namespace tern::tensorboard {
namespace {

using ::testing::HasSubstr;

class EventFileTest : public testing::Test {
 protected:
  EventFileTest() : folder_(testing::TempDir() + "tern_events_XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~EventFileTest() override { std::filesystem::remove_all(folder_); }

  static pb::Event EventOf(int64_t step) {
    pb::Event event;
    event.set_step(step);
    pb::Summary::Value* value = event.mutable_summary()->add_value();
    value->set_tag("train/loss");
    value->set_simple_value(static_cast<float>(step) / 2);
    return event;
  }
  std::string PathOfOnlyFile() const {
    const auto files = EventFiles(folder_);
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? "" : files.front();
  }

  std::string folder_;
};

TEST_F(EventFileTest, BeginsWithItsVersionAndContainsAddedEvents) {
  auto file = EventFile::Make(folder_ + "/a/b");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_THAT(file->path(), HasSubstr("/a/b/events.out.tfevents."));
  file->Add(EventOf(1));
  file->Add(EventOf(2));
  EXPECT_EQ(ReadEvents(file->path()).size(), 1u);
  ASSERT_TRUE(file->Flush().ok());
  const auto events = ReadEvents(file->path());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_GT(events[0].wall_time(), 1.6e9);
  EXPECT_EQ(events[2].step(), 2);
  EXPECT_EQ(events[2].summary().value(0).simple_value(), 1);
}

// The expected bytes were written by hand from the layout in event_file.h and protobuf's wire
// format; the checksums were computed by a bitwise CRC-32C in Python.
TEST_F(EventFileTest, HasTheGoldenBytes) {
  auto file = EventFile::Make(folder_);
  ASSERT_TRUE(file.ok());
  const auto file_begin = std::filesystem::file_size(file->path());
  file->Add(EventOf(3));
  ASSERT_TRUE(file->Flush().ok());
  std::ifstream file_stream(file->path(), std::ios::binary);
  file_stream.seekg(static_cast<std::streamoff>(file_begin));
  std::ostringstream added_bytes;
  added_bytes << file_stream.rdbuf();
  EXPECT_EQ(added_bytes.str(),
            std::string("\x17\x00\x00\x00\x00\x00\x00\x00"  // length
                        "\xe7\xce\xf8\x1e"                  // its checksum
                        "\x10\x03*\x13\x0a\x11\x0a\x0atrain/loss\x15\x00\x00\xc0\x3f"
                        "\x05\xc4\x0c\xa7",
                        39));
}

TEST_F(EventFileTest, NeverWritesToAnExistingFile) {
  auto first_file = EventFile::Make(folder_), second_file = EventFile::Make(folder_);
  ASSERT_TRUE(first_file.ok() && second_file.ok());
  EXPECT_NE(first_file->path(), second_file->path());
}

TEST_F(EventFileTest, NamesAnUnwritableFolder) {
  std::ofstream(folder_ + "/taken") << "no folder";
  const auto file = EventFile::Make(folder_ + "/taken/events");
  EXPECT_EQ(file.status().code(), Code::kCannotWrite);
  EXPECT_THAT(file.status().message(), HasSubstr("cannot write " + folder_ + "/taken/events: "));
}

TEST_F(EventFileTest, IsReadableUpToATruncation) {
  auto file = EventFile::Make(folder_);
  ASSERT_TRUE(file.ok());
  file->Add(EventOf(1));
  file->Add(EventOf(2));
  ASSERT_TRUE(file->Flush().ok());
  std::filesystem::resize_file(file->path(), std::filesystem::file_size(file->path()) - 5);
  EXPECT_EQ(ReadEvents(file->path()).size(), 2u);
}

TEST_F(EventFileTest, WriterThreadFlushesEverythingAtTheEnd) {
  auto file = EventFile::Make(folder_);
  ASSERT_TRUE(file.ok());
  {
    Writer writer(std::move(*file), 1);
    for (int64_t step = 1; step <= 100; ++step) {
      writer.Add(EventOf(step));
      if (step % 10 == 0) writer.AddLater([step](pb::Event* e) { *e = EventOf(1000 + step); });
    }
  }
  const auto values_by_step = ValuesOf(ReadEvents(PathOfOnlyFile())).at("train/loss");
  EXPECT_EQ(values_by_step.size(), 110u);
  EXPECT_EQ(values_by_step.at(100).simple_value(), 50);
  EXPECT_EQ(values_by_step.at(1100).simple_value(), 550);
}

}  // namespace
}  // namespace tern::tensorboard
