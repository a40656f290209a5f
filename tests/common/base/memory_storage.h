// A file system in memory, for tests. It simulates a process or machine that stops in the middle of
// a change, lost and torn (partial) writes, and a full disk. After a loss of power, the changes
// that storage.h calls durable are still there; each other change may be there or not.
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
using Chooser = std::function<uint64_t(uint64_t n)>;

class MemoryStorage : public Storage {
 public:
  // --- Faults. A "change" is a call of one of the five methods of Storage that are not const; the
  // removal of a missing file or the creation of an existing folder is none.

  // After `changes` more changes, the process or its machine dies in the next one. That change has
  // no effect; but a Write may have written some or all of its bytes without flushing them.
  void StopAfter(uint64_t changes, Chooser chooser);
  // After `changes` more changes, the disk is full for the next `count` changes: Write, Rename and
  // CreateFolders fail. A Write leaves some of its bytes.
  void RefuseAfter(uint64_t changes, uint64_t count);
  // Whether the process has died as StopAfter says. From then on no change has an effect.
  bool stopped() const { return is_stopped_; }
  // The process starts again, and finds everything that it had done. Cancels StopAfter and
  // RefuseAfter.
  void RestartProcess();
  // The machine starts again after a loss of power. Each change that was not flushed is there or
  // not. Of a file's bytes that were not flushed, all, half or none are there, or all are zeros.
  void RestartMachine(const Chooser& chooser);
  // Damages the file that was written last (`age` 0) or the one before it (`age` 1): cuts off its
  // second half, although it was flushed.
  void TearRecentFile(size_t age);
  // How many changes were requested so far, whatever became of them.
  uint64_t num_changes() const { return num_changes_; }

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
    bool is_flushed = false;
  };
  using FilePtr = std::shared_ptr<File>;
  struct Tree {
    std::map<std::string, FilePtr> files;  // The keys are paths.
    std::set<std::string> folders;
  };
  // A change of names (not of a file's bytes) that may not be durable yet.
  struct Change {
    enum class Type { kCreate, kRemove, kRename, kRenameFolder };
    Type type;
    std::string from, to;  // paths; kCreate has only `to`, kRemove only `from`
    FilePtr file;          // only for kCreate and kRename
  };
  // What becomes of a change: it is made, fails because the disk is full, or has no effect because
  // the process has died.
  enum class Fate { kDone, kRefused, kLost };

  // Counts one more change, and returns its fate.
  Fate CountChange();
  // Applies a change to current_tree_. The change becomes durable when the folder whose names it
  // changes is flushed.
  void RecordChange(const Change& change);
  static void ApplyChange(const Change& change, Tree* tree);
  static void RenameFolder(const std::string& from, const std::string& to, Tree* tree);
  // Whether the change adds or removes a name in the folder.
  static bool ChangesNameIn(const Change& change, const std::string& folder);
  // Whether the folder that contains `path` exists.
  bool HasFolderOf(const std::string& path) const;

  Tree current_tree_, durable_tree_;
  std::vector<Change> pending_changes_;  // applied to current_tree_, but not to durable_tree_
  std::array<FilePtr, 2> recent_files_;  // the files written last, newest first
  uint64_t num_changes_ = 0;
  // The process stops at change number stop_at_change_, counted from 0. The changes from
  // refuse_from_change_ up to refuse_until_change_ (exclusive) fail.
  uint64_t stop_at_change_ = UINT64_MAX, refuse_from_change_ = UINT64_MAX, refuse_until_change_ = 0;
  Chooser chooser_;
  bool is_stopped_ = false;
};

}  // namespace tern
