#include "common/config/cross_key_checker.h"
#include "common/config/validate.h"

namespace tern::config {
namespace {

class DataChecker : private CrossKeyChecker {
 public:
  DataChecker(const pb::Job& job, const ParseContext& context)
      : CrossKeyChecker(job, context),
        data_(job.data()),
        augmentation_(job.data().augmentation()) {}

  void Check() {
    CheckMean();
    CheckOrder("area_min", augmentation_.area_min(), "area_max", augmentation_.area_max());
    CheckOrder("aspect_min", augmentation_.aspect_min(), "aspect_max", augmentation_.aspect_max());
    CheckOrder("contrast_min", augmentation_.contrast_min(), "contrast_max",
               augmentation_.contrast_max());
    if (augmentation_.random_resized_crop() &&
        !(augmentation_.has_height() && augmentation_.has_width())) {
      Report("data.augmentation.random_resized_crop", "true without height and width",
             "true with data.augmentation.height and width, the size to which crops are scaled");
    }
    if (augmentation_.mirror_in_turn() && !augmentation_.mirror()) {
      Report("data.augmentation.mirror_in_turn", "true without mirror",
             "true with data.augmentation.mirror: true");
    }
  }

 private:
  uint32_t NumChannels() const {
    return job_.model().net().has_input() ? job_.model().net().input().channels()
                                          : job_.model().input_channels();
  }

  void CheckMean() {
    if (!AreValid({"data.mean", "data.std", "data.scale", "data.offset"})) return;
    if (data_.mean_size() == 0 && data_.std_size() == 0) return;
    if (data_.scale() != 1 || data_.offset() != 0) {
      Report(data_.scale() != 1 ? "data.scale" : "data.offset",
             NumberText(data_.scale() != 1 ? data_.scale() : data_.offset()),
             "nothing with data.mean and data.std, which replace it");
    }
    if (!AreValid({"model.input_channels", "model.net"})) return;
    CheckNumValues("data.mean", data_.mean_size());
    CheckNumValues("data.std", data_.std_size());
  }

  void CheckNumValues(const std::string& key, int num_values) {
    if (static_cast<uint32_t>(num_values) == NumChannels()) return;
    Report(key, std::to_string(num_values) + " values",
           "one for each of the model's " + std::to_string(NumChannels()) +
               " channels, in data.mean and data.std alike");
  }

  void CheckOrder(const std::string& low, double low_value, const std::string& high,
                  double high_value) {
    const std::string low_key = Join("data.augmentation", low);
    const std::string high_key = Join("data.augmentation", high);
    if (!AreValid({low_key, high_key}) || low_value <= high_value) return;
    Report(low_key, NumberText(low_value),
           "at most data.augmentation." + high + " (" + NumberText(high_value) + ")");
  }

  const pb::Data& data_;
  const pb::Augmentation& augmentation_;
};

}  // namespace

void CheckData(const pb::Job& job, const ParseContext& context) {
  DataChecker(job, context).Check();
}

}  // namespace tern::config
