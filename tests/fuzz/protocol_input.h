// Turns the bytes of a fuzz input into messages of the protocol, and has the checks that hold for
// all messages and lines that a state machine emits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/protocol/rounds/message.h"

namespace tern::fuzz {

// Reads an input from front to back. Beyond its end it reads zeros.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool done() const { return position_ >= size_; }
  uint8_t Byte() { return done() ? 0 : data_[position_++]; }
  // A number below `n`, which is at most 256.
  uint32_t Below(uint32_t n) { return Byte() % n; }
  // A small number, or one of those that break sums, differences and casts.
  uint64_t Number();
  std::string Text();

 private:
  const uint8_t* data_;
  size_t size_, position_ = 0;
};

// Any message of any type. Its fields have arbitrary values; those that name a process are often of
// a member: rank r has incarnation (the number of its process) 10 + r.
protocol::Message AnyMessage(Input* input);
// Changes some fields of the message's body.
void Disturb(Input* input, protocol::Message* message);

// Ends the process, after it has written `what` to stderr.
[[noreturn]] void Fail(const std::string& what);
// Fails unless the text is printable and short enough for a log line.
void ExpectPrintable(const std::string& text);
// Fails unless the sentences in the message are printable, and its header is not too large to send.
void ExpectSendable(const protocol::Message& message);

}  // namespace tern::fuzz
