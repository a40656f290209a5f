#include "worker/data/folder.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "common/base/text.h"
#include "worker/data/encoded.h"
#include "worker/data/files.h"
#include "worker/data/parallel.h"

namespace tern::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExpectedFile = "a JPEG or PNG image";
constexpr uint64_t kImagesPerReport = 2048;  // Images that are scanned between progress reports.
constexpr uint32_t kMaxClasses = 65536;

Status BadDataError(const std::string& path, const std::string& what) {
  return Status(Code::kBadData, path + ": " + what);
}

class FolderDataset : public Dataset {
 public:
  std::string root;                // The path of the folder that contains the class folders.
  std::vector<std::string> files;  // [count] names of files in the folders of their classes.

  std::string NameOf(uint64_t i) const override {
    return root + "/" + class_names[labels[i]] + "/" + files[i];
  }
  Status Read(uint64_t i, std::vector<uint8_t>* bytes) const override {
    return ReadWholeFile(NameOf(i), kExpectedFile, kMaxEncodedBytes, bytes);
  }
  // Keeps the first `limit` images (0: all), reads the size of each, and removes the damaged ones.
  Status Scan(uint64_t limit, uint32_t threads, const ReadOptions& options);

 private:
  Status ScanRange(uint64_t begin, uint64_t end, uint32_t threads);
};

// Returns the sorted names of the subfolders (if `lists_folders`) or of all other entries of a
// folder, without names that begin with a dot.
Result<std::vector<std::string>> ListFolder(const std::string& path, bool lists_folders) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(path, error);
  while (!error && entry != fs::directory_iterator()) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored_error;  // Set for a dangling link, which counts as a file.
    if (!name.starts_with(".") && entry->is_directory(ignored_error) == lists_folders)
      names.push_back(name);
    entry.increment(error);
  }
  if (error)
    return BadDataError(path, Cat("cannot be listed (", error.message(), "); check data.dir"));
  std::sort(names.begin(), names.end());
  return names;
}

bool IsImageName(const std::string& name) {
  std::string extension = fs::path(name).extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

// Returns the folder of the training or test set in the data folder `dir`.
std::string RootOf(const std::string& dir, bool is_training) {
  if (is_training) return dir + "/train";
  std::error_code ignored_error;
  return fs::is_directory(dir + "/test", ignored_error) ||
                 !fs::is_directory(dir + "/val", ignored_error)
             ? dir + "/test"
             : dir + "/val";
}

// Checks that the training and the test set have the same classes, 1 to kMaxClasses. `classes`: the
// class folders in `root`; `other_classes`: those in `other_root`.
Status CheckClasses(const std::string& root, const std::vector<std::string>& classes,
                    const std::string& other_root, const std::vector<std::string>& other_classes) {
  if (classes.empty())
    return BadDataError(root, "holds no folders; expected one for each class, with images in it");
  if (classes.size() > kMaxClasses)
    return BadDataError(root, Cat(classes.size(), " folders; at most ", kMaxClasses, " classes"));
  for (const auto& [checked_set, other_set, checked_root, other_set_root] :
       {std::tuple{&classes, &other_classes, &root, &other_root},
        std::tuple{&other_classes, &classes, &other_root, &root}}) {
    for (const std::string& name : *checked_set) {
      if (std::binary_search(other_set->begin(), other_set->end(), name)) continue;
      return BadDataError(
          *checked_root,
          Cat("has a class '", Printable(name), "' that ", *other_set_root,
              " does not have; both need the same class folders, because classes are "
              "numbered by their order"));
    }
  }
  return Ok();
}

// Adds the images of one class to *dataset, and the number of its other files to *num_skipped.
Status ListClass(const std::string& path, uint32_t label, FolderDataset* dataset,
                 uint64_t* num_skipped) {
  const Result<std::vector<std::string>> folders = ListFolder(path, true),
                                         files = ListFolder(path, false);
  if (!folders.ok()) return folders.status();
  if (!files.ok()) return files.status();
  if (!folders->empty()) {
    return BadDataError(path, Cat("holds a folder '", Printable(folders->front()),
                                  "'; expected only images in the folder of a class"));
  }
  const uint64_t count_before = dataset->count();
  for (const std::string& name : *files) {
    if (!IsImageName(name)) {
      ++*num_skipped;
      continue;
    }
    dataset->files.push_back(name);
    dataset->labels.push_back(label);
  }
  if (dataset->count() > count_before) return Ok();
  return BadDataError(
      path,
      "holds no image (.jpg, .jpeg, .png); add images, or remove the class from train "
      "and test");
}

Status FolderDataset::Scan(uint64_t limit, uint32_t threads, const ReadOptions& options) {
  if (limit > 0 && limit < count()) {
    labels.resize(limit);
    files.resize(limit);
  }
  const uint64_t image_count = count();
  sizes.resize(image_count);
  for (uint64_t begin = 0; begin < image_count; begin += kImagesPerReport) {
    const uint64_t end = std::min(image_count, begin + kImagesPerReport);
    TERN_RETURN_IF_ERROR(ScanRange(begin, end, threads));
    if (options.progress) options.progress(end, image_count);
  }
  uint64_t num_kept = 0;
  for (uint64_t i = 0; i < image_count; ++i) {
    if (sizes[i].height == 0) continue;
    sizes[num_kept] = sizes[i];
    labels[num_kept] = labels[i];
    std::swap(files[num_kept++], files[i]);  // Not a move, because i may equal num_kept.
  }
  sizes.resize(num_kept);
  labels.resize(num_kept);
  files.resize(num_kept);
  SetCommonSize();
  return num_kept > 0 ? Ok() : BadDataError(root, "all of its images are damaged");
}

// Reads the sizes of images [begin, end). Reports damaged images, and leaves their sizes at 0.
Status FolderDataset::ScanRange(uint64_t begin, uint64_t end, uint32_t threads) {
  std::vector<Status> errors(end - begin);
  ParallelFor(begin, end, threads, [&](uint64_t i) {
    const Result<InputFile> file = InputFile::Open(NameOf(i), kExpectedFile);
    if (!file.ok()) {
      errors[i - begin] = file.status();
      return;
    }
    const auto header = ReadImageHeader(
        [&](uint64_t offset, std::span<uint8_t> buffer) { return file->ReadAt(offset, buffer); },
        file->size());
    if (header.ok()) {
      sizes[i] = {header->height, header->width};
    } else {
      errors[i - begin] = header.status().Within(NameOf(i));
    }
  });
  for (uint64_t i = begin; i < end; ++i) {
    if (!errors[i - begin].ok())
      TERN_RETURN_IF_ERROR(damaged_images->Add(NameOf(i), errors[i - begin]));
  }
  return Ok();
}

}  // namespace

Result<std::unique_ptr<Dataset>> ReadFolder(const pb::Data& data, bool is_training, uint64_t limit,
                                            const ReadOptions& options) {
  const std::string root = RootOf(data.dir(), is_training),
                    other_root = RootOf(data.dir(), !is_training);
  Result<std::vector<std::string>> classes = ListFolder(root, true);
  if (!classes.ok()) return classes.status();
  const Result<std::vector<std::string>> other_classes = ListFolder(other_root, true);
  if (!other_classes.ok()) return other_classes.status();
  TERN_RETURN_IF_ERROR(CheckClasses(root, *classes, other_root, *other_classes));
  auto dataset = std::make_unique<FolderDataset>();
  dataset->root = root;
  dataset->channels = options.channels == 1 ? 1 : 3;
  dataset->classes = static_cast<uint32_t>(classes->size());
  dataset->class_names = std::move(*classes);
  dataset->is_encoded = true;
  dataset->damaged_images =
      std::make_shared<DamagedImages>(data.max_corrupt(), options.warn, options.max_damaged_name);
  uint64_t num_skipped = 0;
  for (uint32_t label = 0; label < dataset->classes; ++label) {
    TERN_RETURN_IF_ERROR(
        ListClass(root + "/" + dataset->class_names[label], label, dataset.get(), &num_skipped));
  }
  if (num_skipped > 0) {
    ReportWarning(options.warn,
                  Cat(root, ": ", num_skipped,
                      " files skipped, because their names do not end in .jpg, .jpeg or .png"));
  }
  TERN_RETURN_IF_ERROR(dataset->Scan(limit, data.threads(), options));
  return Result<std::unique_ptr<Dataset>>(std::move(dataset));
}

}  // namespace tern::data
