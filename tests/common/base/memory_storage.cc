#include "tests/common/base/memory_storage.h"

#include <algorithm>
#include <utility>

#include "common/base/text.h"

namespace tern {

namespace {

constexpr uint64_t kPieces = 4;  // of a write that stops, or whose bytes are lost

std::string WithoutSlash(const std::string& folder) {
  return folder.ends_with('/') ? folder.substr(0, folder.size() - 1) : folder;
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::error_code NoSuchFile() { return std::make_error_code(std::errc::no_such_file_or_directory); }
std::error_code NoSpace() { return std::make_error_code(std::errc::no_space_on_device); }

}  // namespace

void MemoryStorage::StopAfter(uint64_t changes, Choose choose) {
  stop_at_ = changes_ + changes;
  choose_ = std::move(choose);
}

void MemoryStorage::RefuseAfter(uint64_t changes, uint64_t count) {
  refuse_from_ = changes_ + changes;
  refuse_to_ = refuse_from_ + std::min(count, UINT64_MAX - refuse_from_);
}

void MemoryStorage::RestartProcess() {
  stopped_ = false;
  stop_at_ = refuse_from_ = UINT64_MAX;
  refuse_to_ = 0;
  choose_ = nullptr;
}

void MemoryStorage::RestartMachine(const Choose& choose) {
  RestartProcess();
  for (const Change& change : std::exchange(pending_, {})) {
    if (choose(2) == 1) Apply(change, &durable_);
  }
  now_ = durable_;
  std::set<File*> seen;
  for (const auto& [path, file] : now_.files) {
    if (std::exchange(file->flushed, true) || !seen.insert(file.get()).second) continue;
    const uint64_t piece = choose(kPieces);
    if (piece == kPieces - 1) {
      std::fill(file->bytes.begin(), file->bytes.end(), '\0');
    } else {
      file->bytes.resize(file->bytes.size() * piece / (kPieces - 2));
    }
  }
}

void MemoryStorage::Tear(size_t back) {
  const FilePtr& file = newest_[back];
  if (file != nullptr) file->bytes.resize(file->bytes.size() / 2);
}

MemoryStorage::Fate MemoryStorage::Next() {
  const uint64_t now = changes_++;
  if (now == stop_at_) stopped_ = true;
  if (stopped_) return Fate::kLost;
  return refuse_from_ <= now && now < refuse_to_ ? Fate::kRefused : Fate::kDone;
}

Status MemoryStorage::Write(const std::string& path, std::string_view bytes) {
  const bool was_stopped = stopped_;
  const Fate fate = Next();
  if (was_stopped) return Status(Code::kCannotWrite, "the process is dead");
  if (!HasFolderOf(path))
    return Status(Code::kCannotWrite, "cannot create " + path + ": " + NoSuchFile().message());
  size_t size = bytes.size();
  if (fate == Fate::kRefused) size /= 2;
  if (fate == Fate::kLost) {
    const uint64_t piece = choose_(kPieces);
    if (piece == kPieces - 1) return Status(Code::kCannotWrite, "the process is dead");
    size = size * piece / (kPieces - 2);
  }
  FilePtr& file = now_.files[path];
  if (file == nullptr) {
    file = std::make_shared<File>();
    pending_.push_back({Change::Type::kCreate, "", path, file});
  }
  file->bytes = bytes.substr(0, size);
  file->flushed = fate == Fate::kDone;
  newest_ = {file, newest_[0]};
  if (fate == Fate::kDone) return Ok();
  return Status(Code::kCannotWrite, "cannot write " + path + ": " + NoSpace().message());
}

std::error_code MemoryStorage::Rename(const std::string& from, const std::string& to) {
  if (Next() != Fate::kDone) return NoSpace();
  if (now_.folders.contains(from)) {
    // What was pending in it is durable with it.
    std::erase_if(pending_, [&](const Change& change) {
      if (!Touches(change, from)) return false;
      Apply(change, &durable_);
      return true;
    });
    Record({Change::Type::kRenameFolder, from, to, nullptr});
    return {};
  }
  const auto found = now_.files.find(from);
  if (found == now_.files.end() || !HasFolderOf(to)) return NoSuchFile();
  Record({Change::Type::kRename, from, to, found->second});
  return {};
}

void MemoryStorage::Remove(const std::string& path) {
  if (!now_.files.contains(path) || Next() == Fate::kLost) return;
  Record({Change::Type::kRemove, path, "", nullptr});
}

std::error_code MemoryStorage::CreateFolders(const std::string& folder) {
  if (now_.folders.contains(folder)) return {};
  if (Next() != Fate::kDone) return NoSpace();
  for (std::string at = WithoutSlash(folder); !at.empty(); at = FolderOf(at)) {
    now_.folders.insert(at);
    durable_.folders.insert(at);
  }
  return {};
}

void MemoryStorage::FlushFolder(const std::string& folder) {
  if (Next() == Fate::kLost) return;
  const std::string name = WithoutSlash(folder);
  std::erase_if(pending_, [&](const Change& change) {
    if (!Touches(change, name)) return false;
    Apply(change, &durable_);
    return true;
  });
}

void MemoryStorage::Record(const Change& change) {
  Apply(change, &now_);
  pending_.push_back(change);
}

void MemoryStorage::Apply(const Change& change, Names* names) {
  switch (change.type) {
    case Change::Type::kRename:
      names->files.erase(change.from);
      [[fallthrough]];
    case Change::Type::kCreate:
      names->files[change.to] = change.file;
      return;
    case Change::Type::kRemove:
      names->files.erase(change.from);
      return;
    case Change::Type::kRenameFolder:
      names->folders.erase(change.from);
      names->folders.insert(change.to);
      const std::string prefix = change.from + "/";
      for (auto at = names->files.lower_bound(prefix);
           at != names->files.end() && at->first.starts_with(prefix);) {
        names->files[change.to + at->first.substr(change.from.size())] = at->second;
        at = names->files.erase(at);
      }
      return;
  }
}

bool MemoryStorage::Touches(const Change& change, const std::string& folder) {
  return FolderOf(change.from) == folder || FolderOf(change.to) == folder;
}

bool MemoryStorage::HasFolderOf(const std::string& path) const {
  return now_.folders.contains(FolderOf(path));
}

Result<std::string> MemoryStorage::Read(const std::string& path, uint64_t max_bytes) const {
  const auto found = now_.files.find(path);
  if (found == now_.files.end())
    return Status(Code::kBadData, "cannot open " + path + ": " + NoSuchFile().message());
  const std::string& bytes = found->second->bytes;
  if (bytes.size() <= max_bytes) return bytes;
  return Status(Code::kBadData,
                Cat(path, " has ", bytes.size(), " bytes, expected at most ", max_bytes));
}

std::error_code MemoryStorage::List(const std::string& folder,
                                    std::vector<std::string>* names) const {
  const std::string prefix = WithoutSlash(folder) + "/";
  for (auto at = now_.files.lower_bound(prefix);
       at != now_.files.end() && at->first.starts_with(prefix); ++at) {
    if (FolderOf(at->first).size() + 1 == prefix.size())
      names->push_back(at->first.substr(prefix.size()));
  }
  return {};
}

bool MemoryStorage::Exists(const std::string& path) const {
  return now_.files.contains(path) || now_.folders.contains(path);
}

uint64_t MemoryStorage::SizeOf(const std::string& path) const {
  const auto found = now_.files.find(path);
  return found == now_.files.end() ? 0 : found->second->bytes.size();
}

}  // namespace tern
