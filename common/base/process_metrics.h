// The metrics that every process has, under the names that Prometheus gives them: CPU time, memory,
// open files, start time. They are read from /proc.
#pragma once

#include "common/base/counters.h"

namespace tern {

class ProcessMetrics {
 public:
  // `registry` outlives this object.
  explicit ProcessMetrics(Registry& registry);
  // Reads the present values, before the metrics are shown. One thread at a time. A value that
  // cannot be read stays as it was.
  void Update();

 private:
  TimeCounter& cpu_time_;
  Gauge &resident_bytes_, &virtual_bytes_, &open_fds_, &max_fds_;
};

}  // namespace tern
