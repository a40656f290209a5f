// A file of TensorBoard's events: TFRecords, each
//
//   uint64 length, uint32 masked CRC-32C of it, the event, uint32 masked CRC-32C of that
//
// little-endian; masked: ((crc >> 15) | (crc << 17)) + 0xA282EAD8. One thread.
#pragma once

#include <string>

#include "common/base/status.h"
#include "proto/event.pb.h"

namespace tern::tensorboard {

class EventFile {
 public:
  // FOLDER/events.out.tfevents.SECONDS.tern, with seconds since 1970 that no file there has yet,
  // and its first event. Makes the folder. kCannotWrite where that cannot be.
  static Result<EventFile> Make(const std::string& folder);
  ~EventFile() { Close(); }
  EventFile(EventFile&& other) noexcept;
  EventFile& operator=(EventFile&&) = delete;

  const std::string& path() const { return path_; }
  bool is_open() const { return fd_ >= 0; }
  // To be written by the next Flush.
  void Add(const pb::Event& event);
  // Writes what was added, whole records at a time: who is killed leaves a file that can be read.
  // kCannotWrite where that fails; then the file is closed, and what is added later goes nowhere.
  Status Flush();

 private:
  EventFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  void Close();

  std::string path_;
  int fd_;
  std::string records_;
};

// Seconds since 1970, as events have them.
double WallTime();

}  // namespace tern::tensorboard
