// The file system as far as durable state needs it. Daemons use Disk(); tests play one in memory
// that loses, tears and refuses writes (tests/common/base/memory_storage.h).
//
// What is durable, that is, survives a loss of power:
//
//   bytes of a file   once Write returns
//   a name            (created, renamed, removed) once its folder is flushed; a rename is whole or
//                     has not happened
//   a folder          once CreateFolders returns
//
// A process that dies loses nothing that has returned.
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

  // Creates `path` or replaces its bytes, and flushes them. kCannotWrite with the system's message;
  // the file may then have any part of them.
  virtual Status Write(const std::string& path, std::string_view bytes) = 0;
  // Renames a file, or a folder with all that is in it. A file at `to` is replaced.
  virtual std::error_code Rename(const std::string& from, const std::string& to) = 0;
  // Removes a file, if it exists.
  virtual void Remove(const std::string& path) = 0;
  virtual std::error_code CreateFolders(const std::string& folder) = 0;
  // Does nothing on file systems that cannot flush folders.
  virtual void FlushFolder(const std::string& folder) = 0;

  // A whole regular file of at most `max_bytes` bytes. kBadData if it is not a regular file, is
  // longer, or cannot be read.
  virtual Result<std::string> Read(const std::string& path, uint64_t max_bytes) const = 0;
  // The names in a folder, in any order; those found before an error, if there is one. A folder
  // that does not exist has none.
  virtual std::error_code List(const std::string& folder,
                               std::vector<std::string>* names) const = 0;
  virtual bool Exists(const std::string& path) const = 0;
  // In bytes; 0 if it does not exist.
  virtual uint64_t SizeOf(const std::string& path) const = 0;
};

// The machine's own. From any thread.
Storage& Disk();

}  // namespace tern
