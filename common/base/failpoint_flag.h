// Reads failpoints (failpoint.h) from the command line. A failpoint is
//
//   PLACE=ACTION[:SECONDS][@WHEN]       disk.write=full@3   thread.coder=hang:2.5@step:20
//
// WHEN counts how often the place is reached, from 1 (docs/FAULTS.md):
//
//   N              the N-th time only
//   N+             the N-th time and each later time; without WHEN: 1+
//   every:N        each N-th time
//   chance:P:SEED  each time with probability P, as a function of SEED (default 1)
//   step:N         once, when the worker has begun step N of the job
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/failpoint.h"
#include "common/base/status.h"

namespace tern {

struct Failpoint {
  enum class When : uint32_t { kOnce, kFrom, kEvery, kChance, kStep };
  FailPlace place;
  FailAction action;
  int64_t amount_ns = 0;
  When when = When::kFrom;
  uint64_t number = 1;  // N
  double chance = 0;
  uint64_t seed = 1;
  std::string text;  // as it was given
};

// Reads one failpoint of a daemon; `role` is "server" or "worker". kUsage, with what is allowed, if
// the text is not one, or the daemon does not have the place.
Result<Failpoint> ParseFailpoint(std::string_view text, std::string_view role);

// All places of a daemon, each with its actions, and the forms of WHEN, for people.
std::string DescribeFailpoints(std::string_view role);

}  // namespace tern
