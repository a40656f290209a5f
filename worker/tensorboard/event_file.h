// A file of TensorBoard's events. The file is a sequence of TFRecords, little-endian:
//
//   u64    length of the event
//   u32    masked CRC-32C of the length
//   bytes  the event
//   u32    masked CRC-32C of the event
//
// The masked form of a CRC is ((crc >> 15) | (crc << 17)) + 0xA282EAD8. An EventFile belongs to one
// thread.
#pragma once

#include <string>

#include "common/base/status.h"
#include "proto/event.pb.h"

namespace tern::tensorboard {

class EventFile {
 public:
  // Creates the folder, if needed, and in it events.out.tfevents.SECONDS.tern, with the first
  // event, which states the format's version. SECONDS is the time in seconds since 1970, increased
  // until no such file exists. kCannotWrite if the folder or the file cannot be created.
  static Result<EventFile> Make(const std::string& folder);
  ~EventFile() { Close(); }
  EventFile(EventFile&& other) noexcept;
  EventFile& operator=(EventFile&&) = delete;

  const std::string& path() const { return path_; }
  bool is_open() const { return fd_ >= 0; }
  // Serializes the event, which the next Flush will write.
  void Add(const pb::Event& event);
  // Writes the events that were added since the last Flush, as whole records, so that a killed
  // process leaves a readable file. kCannotWrite if that fails; then the file is closed, and later
  // events are dropped.
  Status Flush();

 private:
  EventFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  void Close();

  std::string path_;
  int fd_;
  std::string records_;  // Serialized records that are not yet in the file.
};

// Returns the current time in seconds since 1970, the unit of time in events.
double WallTime();

}  // namespace tern::tensorboard
