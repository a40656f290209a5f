// The file operations that checkpoints need, as an interface. Daemons use Disk(). Tests use a file
// system in memory, which simulates lost, incomplete and failed writes
// (tests/common/base/memory_storage.h).
//
// When each change becomes durable, that is, survives a loss of power:
//
//   the bytes of a file               when Write has returned
//   a file's creation or removal      when its folder has been flushed
//   a rename                          when its folder has been flushed; after a loss of power
//                                     the file has either its old or its new name
//   a folder's creation               when CreateFolders has returned
//
// If only the process dies, every call that has returned keeps its effect.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/base/status.h"

namespace tern {

class Storage {
 public:
  virtual ~Storage() = default;

  // Creates or replaces the file (or symbolic link), and flushes its bytes to the disk. On failure,
  // returns kCannotWrite with the system's message; the file may have any part of the new bytes.
  virtual Status Write(const std::string& path, std::string_view bytes) = 0;
  // Renames a file, or a folder with its contents. If a file `to` exists, it is replaced.
  virtual std::error_code Rename(const std::string& from, const std::string& to) = 0;
  // Removes a file, if it exists.
  virtual void Remove(const std::string& path) = 0;
  // Creates the folder and the folders above it that do not exist, with mode 0750.
  virtual std::error_code CreateFolders(const std::string& folder) = 0;
  // Makes creations, renames and removals in a folder durable. Does nothing on file systems that
  // cannot flush folders.
  virtual void FlushFolder(const std::string& folder) = 0;

  // Reads all bytes of a file. kBadData if it is not a regular file, is longer than `max_bytes`, or
  // cannot be read.
  virtual Result<std::string> Read(const std::string& path, uint64_t max_bytes) const = 0;
  // Appends the names of the files and folders in `folder` to *names, in any order. After an error,
  // *names has the names that were found before the error. A folder that does not exist has no
  // names.
  virtual std::error_code List(const std::string& folder,
                               std::vector<std::string>* names) const = 0;
  virtual bool Exists(const std::string& path) const = 0;
  // The size of a file in bytes; 0 if it does not exist.
  virtual uint64_t SizeOf(const std::string& path) const = 0;
};

// The file system of this machine. Any thread may use it.
Storage& Disk();

}  // namespace tern
