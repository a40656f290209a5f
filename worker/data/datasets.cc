// Chooses the function that reads a data set by the set's format.
#include "worker/data/datasets.h"

#include <set>

#include "common/base/text.h"
#include "worker/data/cifar.h"
#include "worker/data/damaged_images.h"
#include "worker/data/folder.h"
#include "worker/data/idx_dataset.h"
#include "worker/data/packed.h"

namespace tern::data {
namespace {

Result<std::unique_ptr<Dataset>> ReadAnyFormat(const pb::Data& data, bool is_training,
                                               uint64_t limit, const ReadOptions& options) {
  switch (data.format()) {
    case pb::Data::idx:
      return ReadIdxDataset(data.dir() + (is_training ? "/train" : "/t10k"), limit);
    case pb::Data::cifar10:
    case pb::Data::cifar100:
      return ReadCifar(data.dir(), data.format() == pb::Data::cifar10 ? kCifar10 : kCifar100,
                       is_training, limit);
    case pb::Data::folder:
      return ReadFolder(data, is_training, limit, options);
    case pb::Data::packed:
      return OpenPacked(data, is_training, limit, options);
  }
  return Status(Code::kBadJob, Cat("data.format: unknown value ", static_cast<int>(data.format())));
}

}  // namespace

Result<std::unique_ptr<Dataset>> ReadDataset(const pb::Data& data, Split split,
                                             const ReadOptions& options) {
  const bool is_training = split == Split::kTrain;
  const uint64_t limit = is_training ? data.train_limit() : data.test_limit();
  auto dataset = ReadAnyFormat(data, is_training, limit, options);
  if (!dataset.ok() || limit == 0 || (*dataset)->count() < limit) return dataset;
  // Folders and packed sets lie class by class.
  const std::set<uint32_t> labels_seen((*dataset)->labels.begin(), (*dataset)->labels.end());
  if (labels_seen.size() < (*dataset)->classes) {
    ReportWarning(options.warn, Cat(data.dir(), ": the first ", limit,
                                    is_training ? " training" : " test", " images belong to only ",
                                    labels_seen.size(), " of ", (*dataset)->classes, " classes"));
  }
  return dataset;
}

}  // namespace tern::data
