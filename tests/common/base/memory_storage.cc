#include "tests/common/base/memory_storage.h"

#include <algorithm>
#include <utility>

#include "common/base/text.h"

namespace tern {

namespace {

// The number of possible results of an interrupted write: none, half or all of the bytes are there;
// or the file is unchanged (if the process stopped) or has only zeros (if the machine stopped).
constexpr uint64_t kNumPartialResults = 4;

std::string WithoutSlash(const std::string& folder) {
  return folder.ends_with('/') ? folder.substr(0, folder.size() - 1) : folder;
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

bool IsInFolder(const std::string& path, const std::string& folder) {
  return path.starts_with(folder + "/");
}

std::error_code NoSuchFile() { return std::make_error_code(std::errc::no_such_file_or_directory); }
std::error_code NoSpace() { return std::make_error_code(std::errc::no_space_on_device); }
std::error_code IsAFolder() { return std::make_error_code(std::errc::is_a_directory); }
std::error_code NotAFolder() { return std::make_error_code(std::errc::not_a_directory); }

}  // namespace

void MemoryStorage::StopAfter(uint64_t changes, Chooser chooser) {
  stop_at_change_ = num_changes_ + changes;
  chooser_ = std::move(chooser);
}

void MemoryStorage::RefuseAfter(uint64_t changes, uint64_t count) {
  refuse_from_change_ = num_changes_ + changes;
  refuse_until_change_ = refuse_from_change_ + std::min(count, UINT64_MAX - refuse_from_change_);
}

void MemoryStorage::RestartProcess() {
  is_stopped_ = false;
  stop_at_change_ = refuse_from_change_ = UINT64_MAX;
  refuse_until_change_ = 0;
  chooser_ = nullptr;
}

void MemoryStorage::RestartMachine(const Chooser& chooser) {
  RestartProcess();
  for (const Change& change : std::exchange(pending_changes_, {})) {
    if (chooser(2) == 1) ApplyChange(change, &durable_tree_);
  }
  current_tree_ = durable_tree_;
  std::set<File*> seen_files;
  for (const auto& [path, file] : current_tree_.files) {
    if (std::exchange(file->is_flushed, true) || !seen_files.insert(file.get()).second) continue;
    const uint64_t result = chooser(kNumPartialResults);
    if (result == kNumPartialResults - 1) {
      std::fill(file->bytes.begin(), file->bytes.end(), '\0');
    } else {
      file->bytes.resize(file->bytes.size() * result / (kNumPartialResults - 2));
    }
  }
}

void MemoryStorage::TearRecentFile(size_t age) {
  const FilePtr& file = recent_files_[age];
  if (file != nullptr) file->bytes.resize(file->bytes.size() / 2);
}

MemoryStorage::Fate MemoryStorage::CountChange() {
  const uint64_t change = num_changes_++;
  if (change == stop_at_change_) is_stopped_ = true;
  if (is_stopped_) return Fate::kLost;
  return refuse_from_change_ <= change && change < refuse_until_change_ ? Fate::kRefused
                                                                        : Fate::kDone;
}

Status MemoryStorage::Write(const std::string& path, std::string_view bytes) {
  const bool was_stopped = is_stopped_;
  const Fate fate = CountChange();
  if (was_stopped) return Status(Code::kCannotWrite, "the process is dead");
  if (!HasFolderOf(path))
    return Status(Code::kCannotWrite, "cannot create " + path + ": " + NoSuchFile().message());
  if (current_tree_.folders.contains(path))
    return Status(Code::kCannotWrite, "cannot create " + path + ": " + IsAFolder().message());
  size_t num_written = bytes.size();
  if (fate == Fate::kRefused) num_written /= 2;
  if (fate == Fate::kLost) {
    const uint64_t result = chooser_(kNumPartialResults);
    if (result == kNumPartialResults - 1) return Status(Code::kCannotWrite, "the process is dead");
    num_written = num_written * result / (kNumPartialResults - 2);
  }
  FilePtr& file = current_tree_.files[path];
  if (file == nullptr) {
    file = std::make_shared<File>();
    pending_changes_.push_back({Change::Type::kCreate, "", path, file});
  }
  file->bytes = bytes.substr(0, num_written);
  file->is_flushed = fate == Fate::kDone;
  recent_files_ = {file, recent_files_[0]};
  if (fate == Fate::kDone) return Ok();
  return Status(Code::kCannotWrite, "cannot write " + path + ": " + NoSpace().message());
}

std::error_code MemoryStorage::Rename(const std::string& from, const std::string& to) {
  if (CountChange() != Fate::kDone) return NoSpace();
  if (!HasFolderOf(to)) return NoSuchFile();
  if (current_tree_.folders.contains(from)) {
    // Changes inside the folder that are not durable yet become durable when the folder is renamed.
    std::erase_if(pending_changes_, [&](const Change& change) {
      if (!IsInFolder(change.from, from) && !IsInFolder(change.to, from)) return false;
      ApplyChange(change, &durable_tree_);
      return true;
    });
    RecordChange({Change::Type::kRenameFolder, from, to, nullptr});
    return {};
  }
  const auto entry = current_tree_.files.find(from);
  if (entry == current_tree_.files.end()) return NoSuchFile();
  RecordChange({Change::Type::kRename, from, to, entry->second});
  return {};
}

void MemoryStorage::Remove(const std::string& path) {
  if (!current_tree_.files.contains(path) || CountChange() == Fate::kLost) return;
  RecordChange({Change::Type::kRemove, path, "", nullptr});
}

std::error_code MemoryStorage::CreateFolders(const std::string& folder) {
  if (current_tree_.folders.contains(folder)) return {};
  if (CountChange() != Fate::kDone) return NoSpace();
  for (std::string path = WithoutSlash(folder); !path.empty(); path = FolderOf(path))
    if (current_tree_.files.contains(path)) return NotAFolder();
  for (std::string path = WithoutSlash(folder); !path.empty(); path = FolderOf(path)) {
    current_tree_.folders.insert(path);
    durable_tree_.folders.insert(path);
  }
  return {};
}

void MemoryStorage::FlushFolder(const std::string& folder) {
  if (CountChange() == Fate::kLost) return;
  const std::string folder_path = WithoutSlash(folder);
  std::erase_if(pending_changes_, [&](const Change& change) {
    if (!ChangesNameIn(change, folder_path)) return false;
    ApplyChange(change, &durable_tree_);
    return true;
  });
}

void MemoryStorage::RecordChange(const Change& change) {
  ApplyChange(change, &current_tree_);
  pending_changes_.push_back(change);
}

void MemoryStorage::ApplyChange(const Change& change, Tree* tree) {
  switch (change.type) {
    case Change::Type::kRename:
      tree->files.erase(change.from);
      [[fallthrough]];
    case Change::Type::kCreate:
      tree->files[change.to] = change.file;
      return;
    case Change::Type::kRemove:
      tree->files.erase(change.from);
      return;
    case Change::Type::kRenameFolder:
      RenameFolder(change.from, change.to, tree);
      return;
  }
}

void MemoryStorage::RenameFolder(const std::string& from, const std::string& to, Tree* tree) {
  const auto new_path_of = [&](const std::string& path) { return to + path.substr(from.size()); };
  Tree moved_tree;
  for (const auto& [path, file] : tree->files)
    if (IsInFolder(path, from)) moved_tree.files[new_path_of(path)] = file;
  for (const std::string& path : tree->folders)
    if (path == from || IsInFolder(path, from)) moved_tree.folders.insert(new_path_of(path));
  std::erase_if(tree->files, [&](const auto& entry) { return IsInFolder(entry.first, from); });
  std::erase_if(tree->folders,
                [&](const std::string& path) { return path == from || IsInFolder(path, from); });
  for (const auto& [path, file] : moved_tree.files) tree->files[path] = file;
  tree->folders.merge(moved_tree.folders);
}

bool MemoryStorage::ChangesNameIn(const Change& change, const std::string& folder) {
  return FolderOf(change.from) == folder || FolderOf(change.to) == folder;
}

bool MemoryStorage::HasFolderOf(const std::string& path) const {
  return current_tree_.folders.contains(FolderOf(path));
}

Result<std::string> MemoryStorage::Read(const std::string& path, uint64_t max_bytes) const {
  const auto entry = current_tree_.files.find(path);
  if (entry == current_tree_.files.end())
    return Status(Code::kBadData, "cannot open " + path + ": " + NoSuchFile().message());
  const std::string& bytes = entry->second->bytes;
  if (bytes.size() <= max_bytes) return bytes;
  return Status(Code::kBadData,
                Cat(path, " has ", bytes.size(), " bytes, expected at most ", max_bytes));
}

std::error_code MemoryStorage::List(const std::string& folder,
                                    std::vector<std::string>* names) const {
  const std::string folder_path = WithoutSlash(folder);
  const auto add_if_inside = [&](const std::string& path) {
    if (FolderOf(path) == folder_path) names->push_back(path.substr(path.rfind('/') + 1));
  };
  for (const auto& [path, file] : current_tree_.files) add_if_inside(path);
  for (const std::string& path : current_tree_.folders) add_if_inside(path);
  return {};
}

bool MemoryStorage::Exists(const std::string& path) const {
  return current_tree_.files.contains(path) || current_tree_.folders.contains(path);
}

uint64_t MemoryStorage::SizeOf(const std::string& path) const {
  const auto entry = current_tree_.files.find(path);
  return entry == current_tree_.files.end() ? 0 : entry->second->bytes.size();
}

}  // namespace tern
