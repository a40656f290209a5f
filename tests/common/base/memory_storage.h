// A file system in memory, for tests: it stops in the middle of a change, forgets what was not
// flushed, tears what was written last, and refuses writes. Holds exactly what storage.h says is
// durable, and no more.
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

// Of [0, n): what happens where several things may. REQUIRES n > 0.
using Choose = std::function<uint64_t(uint64_t n)>;

class MemoryStorage : public Storage {
 public:
  // --- What the machine goes through. A change is a call of one of the five that change something.

  // The process, or its machine, dies in the change that comes after `changes` more. It has no
  // effect; but a write may have written a part of its bytes, or all, without flushing them.
  void StopAfter(uint64_t changes, Choose choose);
  // After `changes` more, the disk is full for `count` changes: no write, rename or folder. A write
  // leaves some of its bytes.
  void RefuseAfter(uint64_t changes, uint64_t count);
  // Since StopAfter came true, no change has an effect.
  bool stopped() const { return stopped_; }
  // The process starts again, and finds all that it had done. Nothing is planned any more.
  void RestartProcess();
  // The machine does: of what was not flushed each change is there or not, and bytes are there, or
  // some of them, or zeros.
  void RestartMachine(const Choose& choose);
  // The file that was written last (1: the one before) has lost its second half, although it was
  // flushed.
  void Tear(size_t back);
  uint64_t changes() const { return changes_; }  // that were asked for

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
  // A change of names that is not durable yet.
  struct Change {
    enum class Type { kCreate, kRemove, kRename, kRenameFolder };
    Type type;
    std::string from, to;  // kCreate: to; kRemove: from
    FilePtr file;          // kCreate, kRename
  };
  enum class Fate { kDone, kRefused, kLost };

  Fate Next();
  void Do(const Change& change);
  static void Apply(const Change& change, Names* names);
  static void RenameFolder(const std::string& from, const std::string& to, Names* names);
  static bool Touches(const Change& change, const std::string& folder);
  bool HasFolderOf(const std::string& path) const;

  Names now_, durable_;
  std::vector<Change> pending_;
  std::array<FilePtr, 2> newest_;  // that were written
  uint64_t changes_ = 0;
  uint64_t stop_at_ = UINT64_MAX, refuse_from_ = UINT64_MAX, refuse_to_ = 0;  // of changes_
  Choose choose_;
  bool stopped_ = false;
};

}  // namespace tern
