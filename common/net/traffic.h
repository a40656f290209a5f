// Counts messages and bytes sent and received, by type and direction. Bytes include frame headers,
// but not connection handshakes. Any thread may count and read; both are lock-free.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/counters.h"
#include "common/net/frame.h"

namespace tern::net {

enum class Direction { kIn, kOut };

class Traffic {
 public:
  // Uses these counters of `registry`, which outlives this. Refused bytes have type="refused".
  //
  //   tern_net_messages_total{direction="in|out",type="push"}
  //   tern_net_bytes_total{direction="in|out",type="push"}
  //   tern_net_refused_total{fault="not_ours"}
  explicit Traffic(Registry& registry);

  void Count(Direction direction, int body_case, uint64_t wire_bytes);
  void CountRefused(Fault fault, uint64_t wire_bytes);

  // The counters that are not zero, in the order of the envelope's fields, out before in.
  struct TypeTraffic {
    std::string type;
    Direction direction = Direction::kIn;
    uint64_t messages = 0;
    uint64_t bytes = 0;
  };
  std::vector<TypeTraffic> Snapshot() const;
  // The sum over all types, including refused messages.
  uint64_t Bytes(Direction direction) const;
  // The count of one type, given by the field number of the body (pb::Envelope::kPush).
  uint64_t Bytes(Direction direction, int body_case) const;
  uint64_t Messages(Direction direction, int body_case) const;
  uint64_t Refused() const;

 private:
  struct TypeCounters {
    std::string type;
    std::array<Counter*, 2> messages;  // index: Direction
    std::array<Counter*, 2> bytes;
  };

  std::map<int, TypeCounters> counters_by_type_;  // constant after construction
  std::array<Counter*, kFaults> refused_;
  Counter* refused_bytes_;
};

}  // namespace tern::net
