// A file system in memory, for tests. It simulates a process or machine that dies in the middle of
// a change, lost and torn writes, and a full disk. After a loss of power it keeps what storage.h
// calls durable; other changes may or may not be there.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/storage.h"

namespace tern {

// Chooses one of n possibilities, as a number in [0, n). REQUIRES n > 0.
using Choose = std::function<uint64_t(uint64_t n)>;

class MemoryStorage : public Storage {
 public:
  // --- Faults. A "change" is a call of one of the five methods that are not const.

  // After `changes` more changes, the process or its machine dies in the next one. That change has
  // no effect; but a Write may have written some or all of its bytes without flushing them.
  void StopAfter(uint64_t changes, Choose choose);
  // After `changes` more changes, the disk is full for the next `count`: Write, Rename and
  // CreateFolders fail. A Write leaves some of its bytes.
  void RefuseAfter(uint64_t changes, uint64_t count);
  // Whether the process has died as StopAfter says. From then on no change has an effect.
  bool stopped() const { return stopped_; }
  // The process starts again, and finds everything that it had done. Cancels StopAfter and
  // RefuseAfter.
  void RestartProcess();
  // The machine starts again after a loss of power. Each change that was not flushed is there or
  // not; bytes that were not flushed are there, or some of them, or zeros.
  void RestartMachine(const Choose& choose);
  // Damages the file that was written last (`back` 0) or the one before (`back` 1): cuts off its
  // second half, although it was flushed.
  void Tear(size_t back);
  uint64_t changes() const { return changes_; }  // how many were requested so far

  Status Write(const std::string& path, std::string_view bytes) override;
  std::error_code Rename(const std::string& from, const std::string& to) override;
  void Remove(const std::string& path) override;
  std::error_code CreateFolders(const std::string& folder) override;
  void FlushFolder(const std::string& folder) override;
  Result<std::string> Read(const std::string& path, uint64_t max_bytes) const override;
  std::error_code List(const std::string& folder, std::vector<std::string>* names) const override;
  bool Exists(const std::string& path) const override;
  uint64_t SizeOf(const std::string& path) const override;

 private:
  struct File {
    std::string bytes;
    bool flushed = false;
  };
  using FilePtr = std::shared_ptr<File>;
  struct Names {
    std::map<std::string, FilePtr> files;  // by path
    std::set<std::string> folders;
  };
  // A change of names (not of a file's bytes) that may not be durable yet.
  struct Change {
    enum class Type { kCreate, kRemove, kRename, kRenameFolder };
    Type type;
    std::string from, to;  // kCreate: to; kRemove: from
    FilePtr file;          // kCreate, kRename
  };
  enum class Fate { kDone, kRefused, kLost };

  // Counts one more change, and says what becomes of it.
  Fate Next();
  // Applies a change now; it becomes durable when its folder is flushed.
  void Record(const Change& change);
  static void Apply(const Change& change, Names* names);
  static void RenameFolder(const std::string& from, const std::string& to, Names* names);
  static bool Touches(const Change& change, const std::string& folder);
  bool HasFolderOf(const std::string& path) const;

  Names now_, durable_;
  std::vector<Change> pending_;
  std::array<FilePtr, 2> newest_;  // the files written last, newest first
  uint64_t changes_ = 0;
  uint64_t stop_at_ = UINT64_MAX, refuse_from_ = UINT64_MAX, refuse_to_ = 0;  // values of changes_
  Choose choose_;
  bool stopped_ = false;
};

}  // namespace tern
