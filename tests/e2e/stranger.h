// A client that is not a daemon of the job and sends any frames, valid or not, to a daemon's port.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/wire.pb.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {

// The keys of a client that uses CURVE, as text (common/net/keys.h).
struct StrangerKeys {
  std::string server_public;  // the key that the client expects of the server
  std::string own_public, own_secret;
};

class Stranger {
 public:
  // Connects to 127.0.0.1, without CURVE if there are no keys.
  explicit Stranger(uint16_t port, const std::optional<StrangerKeys>& keys = {});
  ~Stranger();
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  // Sends these frames as one message, valid or not.
  void SendFrames(const std::vector<std::string>& frames);
  // Sends a valid message, as Tern's daemons do.
  void SendEnvelope(const pb::Envelope& envelope, const std::string& payload = "");
  // Waits for the next message that parses. Returns nullopt if none arrives in `seconds`.
  std::optional<pb::Envelope> Receive(double seconds = kPatienceSeconds);

 private:
  void* context_;
  void* socket_;
};

// The header frame of `envelope`, with `version` as the version of the wire format.
std::string HeaderOfVersion(const pb::Envelope& envelope, uint16_t version);

}  // namespace tern::e2e
