#include "common/config/renamed.h"

namespace tern::config {

namespace {

struct Renamed {
  std::string_view was, is;
};

constexpr Renamed kRenamed[] = {
    {"faults.snapshot_every_steps", "checkpoints.shard_every_steps"},
};

}  // namespace

std::string_view NameNow(std::string_view key) {
  for (const Renamed& one : kRenamed) {
    if (one.was == key) return one.is;
  }
  return {};
}

}  // namespace tern::config
