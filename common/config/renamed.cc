#include "common/config/renamed.h"

namespace tern::config {

namespace {

struct Renamed {
  std::string_view was, is;
};

constexpr Renamed kRenamed[] = {
    {"data.deviation", "data.std"},
    {"exchange.adacomp.bin", "exchange.adacomp.bin_elements"},
    {"exchange.onebit.bucket", "exchange.onebit.bucket_elements"},
    {"exchange.qsgd.bucket", "exchange.qsgd.bucket_elements"},
    {"faults.snapshot_every_steps", "checkpoints.shard_every_steps"},
    {"model.width", "model.width_multiplier"},
    {"train.dcasgd_a.formed", "train.dcasgd_a.compensation"},
    {"train.dcasgd_a.ms_scope", "train.dcasgd_a.mean_square_scope"},
    {"train.dcasgd_c.formed", "train.dcasgd_c.compensation"},
    {"train.dcasgd_c.ms_scope", "train.dcasgd_c.mean_square_scope"},
    {"train.optimizer.trust", "train.optimizer.trust_coefficient"},
    {"train.schedule.divide_first", "train.schedule.div_factor"},
    {"train.schedule.divide_last", "train.schedule.total_div_factor"},
    {"train.schedule.rise", "train.schedule.pct_start"},
    {"train.schedule.warmup_from", "train.schedule.warmup_start_factor"},
    {"train.ssp.weight", "train.ssp.push_weight"},
};

}  // namespace

std::string_view NameNow(std::string_view key) {
  for (const Renamed& one : kRenamed) {
    if (one.was == key) return one.is;
  }
  return {};
}

}  // namespace tern::config
