// Fuzzes the state machines of the protocol with sequences of messages from members, liars and
// strangers. The first byte of an input chooses the machine. Then each byte is an event; most
// events read further bytes. Event 0 is a step in which everybody behaves, so an input of zeros is
// an undisturbed job.
//
// For every machine: its invariants hold after each event; what it emits is printable and bounded.
// For servers: a connection on which no member has said hello (the stranger) changes nothing, and
// answers to it go to nobody else. For shard 0 and workers: the job does not end well before its
// last step.
#include "common/base/invariants.h"
#include "tests/fuzz/protocol_words.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tern::fuzz;
  static const bool must_check = [] {
    tern::SetInvariantHandler([](const tern::Status& broken) { Fail(broken.message()); });
    return true;
  }();
  if (!must_check) return 0;
  Input input(data, size);
  switch (input.Below(5)) {
    case 0:
      PlayShard0(&input);
      return 0;
    case 1:
      PlayOtherShard(&input);
      return 0;
    case 2:
      PlayRoundLane(&input);
      return 0;
    case 3:
      PlayClockLane(&input);
      return 0;
    default:
      PlayWorker(&input);
      return 0;
  }
}
