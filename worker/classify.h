// Names the classes of image files with trained weights, without servers and without a test set.
// Computes on the CPU in fp32, whatever the job's workers compute with.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "setup/setup.h"
#include "worker/data/augment.h"
#include "worker/viewed_net.h"
#include "worker/weights_file.h"

namespace tern::worker {

// The names of the classes, by number, in classes.txt beside the weights; nullopt without that
// file, or if it has more than `num_classes`.
std::optional<std::vector<std::string>> ClassNamesBeside(const std::string& weights_path,
                                                         uint32_t num_classes);

// One thread at a time, the one that called Make, may use an object.
class Classifier {
 public:
  // Reads the weights with ReadFileWeights. The names of the classes are in classes.txt beside the
  // weights, or else in the job's test set; without either, classes have no names. kBadData says
  // what is wrong with the weights, kBadJob with the job. `setup` must outlive the object.
  static Result<std::unique_ptr<Classifier>> Make(const setup::Setup& setup,
                                                  const std::string& weights_path);

  // Decodes the JPEG or PNG file and changes it as evaluation does (worker/data/augment.h). Returns
  // the probability of each class, [classes], by the views of evaluation.views. kBadData, with the
  // path, if the file cannot be read, is damaged, or does not come out in the size of the network's
  // input.
  Result<std::vector<double>> Classify(const std::string& image_path);

  // The name of a class; its number if it has none.
  std::string NameOf(size_t class_number) const;

 private:
  Classifier(const setup::Setup& setup, data::Augmenter augmenter, FileWeights weights)
      : setup_(setup), augmenter_(std::move(augmenter)), weights_(std::move(weights)) {}

  const setup::Setup& setup_;
  const data::Augmenter augmenter_;
  FileWeights weights_;
  std::vector<std::string> class_names_;
  std::unique_ptr<ViewedNet> net_;  // reads weights_
};

}  // namespace tern::worker
