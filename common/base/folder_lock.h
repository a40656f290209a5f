// A lock file that lets only one process at a time write into a folder. The file names its holder,
// for the error message of the others.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tern {

// The kernel releases the lock when the process ends, however it ends; the file remains. Child
// processes do not inherit the lock. Belongs to one thread.
class FolderLock {
 public:
  // Locks FOLDER/NAME, creates the folder if necessary, and writes pid, host, `job` and time into
  // the file. kAddress, with the folder and the holder, if another process or another FolderLock of
  // this one holds the lock. If the system cannot lock (no locks on the file system, no write
  // permission), that is no error: held() is false and warning() says why.
  static Result<FolderLock> Take(const std::string& folder, const std::string& name,
                                 const std::string& job);
  // Fails with kAddress, as Take does, if FOLDER/NAME is locked now. Writes nothing.
  static Status CheckFree(const std::string& folder, const std::string& name);

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

  bool held() const { return fd_ >= 0; }
  // Empty if the lock is held.
  const std::string& warning() const { return warning_; }

 private:
  FolderLock(int fd, std::string warning) : fd_(fd), warning_(std::move(warning)) {}

  int fd_;
  std::string warning_;
};

}  // namespace tern
