#include "common/config/between_keys.h"
#include "common/config/validate.h"

namespace tern::config {
namespace {

class DataChecker : private BetweenKeys {
 public:
  DataChecker(const pb::Job& job, const Reading& reading)
      : BetweenKeys(job, reading), data_(job.data()), words_(job.data().augmentation()) {}

  void Check() {
    CheckMean();
    CheckOrder("area_min", words_.area_min(), "area_max", words_.area_max());
    CheckOrder("aspect_min", words_.aspect_min(), "aspect_max", words_.aspect_max());
    CheckOrder("contrast_min", words_.contrast_min(), "contrast_max", words_.contrast_max());
    if (words_.random_resized_crop() && !(words_.has_height() && words_.has_width())) {
      Report("data.augmentation.random_resized_crop", "true without height and width",
             "both of data.augmentation.height and width beside it: what the crop is scaled to");
    }
  }

 private:
  uint32_t Channels() const {
    return job_.model().has_net() ? job_.model().net().input().channels()
                                  : job_.model().input_channels();
  }

  void CheckMean() {
    if (!Sound({"data.mean", "data.deviation", "data.scale", "data.offset"})) return;
    if (data_.mean_size() == 0 && data_.deviation_size() == 0) return;
    if (data_.scale() != 1 || data_.offset() != 0) {
      Report(data_.scale() != 1 ? "data.scale" : "data.offset",
             NumberText(data_.scale() != 1 ? data_.scale() : data_.offset()),
             "nothing beside data.mean and data.deviation, which take its place");
    }
    if (!Sound({"model.input_channels", "model.net"})) return;
    CheckValues("data.mean", data_.mean_size());
    CheckValues("data.deviation", data_.deviation_size());
  }

  void CheckValues(const std::string& key, int values) {
    if (static_cast<uint32_t>(values) == Channels()) return;
    Report(key, std::to_string(values) + " values",
           "one for each of the model's " + std::to_string(Channels()) +
               " channels, for data.mean and data.deviation alike");
  }

  void CheckOrder(const std::string& low, double low_value, const std::string& high,
                  double high_value) {
    const std::string low_key = Join("data.augmentation", low);
    const std::string high_key = Join("data.augmentation", high);
    if (!Sound({low_key, high_key}) || low_value <= high_value) return;
    Report(low_key, NumberText(low_value),
           "at most data.augmentation." + high + " (" + NumberText(high_value) + ")");
  }

  const pb::Data& data_;
  const pb::Augmentation& words_;
};

}  // namespace

void CheckData(const pb::Job& job, const Reading& reading) { DataChecker(job, reading).Check(); }

}  // namespace tern::config
