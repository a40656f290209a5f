// A lock file that lets only one process at a time write into a folder. The file says which process
// holds the lock, for the error messages of other processes.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tern {

// The kernel releases the lock when the process ends, however it ends; the file remains. Child
// processes do not inherit the lock. Belongs to one thread.
class FolderLock {
 public:
  // Locks FOLDER/NAME, creates the folder if necessary, and writes pid, host, `job` and time into
  // the file. Fails with kAddress, and names the folder and the holder, if another process or
  // another FolderLock of this process holds the lock. If the system cannot lock (the file system
  // has no locks, or there is no write permission), that is no error: is_held() is false and
  // warning() says why.
  static Result<FolderLock> TryLock(const std::string& folder, const std::string& name,
                                    const std::string& job);
  // Fails with kAddress if FOLDER/NAME is locked now. Keeps no lock and writes nothing.
  static Status CheckFree(const std::string& folder, const std::string& name);

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

  bool is_held() const { return fd_ >= 0; }
  // Why the folder could not be locked. Empty if the lock is held.
  const std::string& warning() const { return warning_; }

 private:
  FolderLock(int fd, std::string warning) : fd_(fd), warning_(std::move(warning)) {}

  int fd_;
  std::string warning_;
};

}  // namespace tern
