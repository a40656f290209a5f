// A file in a folder that one process at a time holds locked, so that two of a kind never write
// into the folder together. The file names its holder, for the sentence that the other one gets.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tern {

// The kernel lets go of the lock when the process ends, however it ends; the file stays. Children
// do not inherit it. Belongs to one thread.
class FolderLock {
 public:
  // Takes FOLDER/NAME, makes the folder where there is none, and writes this process, host, `job`
  // and the time into the file. kAddress where another process, or another FolderLock of this one,
  // holds it: names the folder and the holder. Where the system cannot lock (a file system without
  // locks, a folder that may not be written), it is no error: held() is false and warning() says
  // why.
  static Result<FolderLock> Take(const std::string& folder, const std::string& name,
                                 const std::string& job);
  // The same error where somebody holds FOLDER/NAME now; writes nothing.
  static Status CheckFree(const std::string& folder, const std::string& name);

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

  bool held() const { return fd_ >= 0; }
  // Empty where it is held.
  const std::string& warning() const { return warning_; }

 private:
  FolderLock(int fd, std::string warning) : fd_(fd), warning_(std::move(warning)) {}

  int fd_;
  std::string warning_;
};

}  // namespace tern
