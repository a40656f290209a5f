// Somebody who talks to a daemon's port without being of its job: any frames, well formed or not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/wire.pb.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {

class Stranger {
 public:
  explicit Stranger(uint16_t port);  // of 127.0.0.1
  ~Stranger();
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  // One message of these frames, as they are.
  void SendFrames(const std::vector<std::string>& frames);
  // A message as Tern's daemons send it.
  void Say(const pb::Envelope& envelope, const std::string& payload = "");
  // The next message that is an envelope; nothing at the deadline.
  std::optional<pb::Envelope> Hear(double seconds = kPatience);

 private:
  void* context_;
  void* socket_;
};

// A header frame of `envelope` that says it is of wire version `version`.
std::string HeaderOfVersion(const pb::Envelope& envelope, uint16_t version);

}  // namespace tern::e2e
