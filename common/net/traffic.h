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
  // Counts in these metrics of `registry`, which must outlive this object. Bytes of refused
  // messages have type="refused".
  //
  //   tern_net_messages_total{direction="in|out",type="push"}
  //   tern_net_bytes_total{direction="in|out",type="push"}
  //   tern_net_refused_total{fault="not_ours"}
  explicit Traffic(Registry& registry);

  // Counts one message. `body_case`: the field number of its body; `wire_bytes`: the size of its
  // frames.
  void Count(Direction direction, int body_case, uint64_t wire_bytes);
  void CountRefused(Fault fault, uint64_t wire_bytes);

  // The traffic of one type of message in one direction.
  struct TypeTraffic {
    std::string type;
    Direction direction = Direction::kIn;
    uint64_t num_messages = 0;
    uint64_t bytes = 0;
  };
  // Returns the entries with messages, ordered by the envelope's field numbers, sent before
  // received; the entry of refused messages is last.
  std::vector<TypeTraffic> Snapshot() const;
  // The bytes of all types together, including refused messages.
  uint64_t Bytes(Direction direction) const;
  // The bytes, and the number of messages, of one type. `body_case`: the field number of the body,
  // for example pb::Envelope::kPush.
  uint64_t Bytes(Direction direction, int body_case) const;
  uint64_t NumMessages(Direction direction, int body_case) const;
  uint64_t NumRefusedMessages() const;

 private:
  struct TypeCounters {
    std::string type;
    std::array<Counter*, 2> messages;  // by Direction
    std::array<Counter*, 2> bytes;     // by Direction
  };

  // By the field number of the body. Constant after construction.
  std::map<int, TypeCounters> counters_by_type_;
  std::array<Counter*, kNumFaults> refused_by_fault_;  // by Fault
  Counter* refused_bytes_;
};

}  // namespace tern::net
