// How the daemons of a job know each other: by CURVE keys, or not at all. CURVE is ZeroMQ's
// authentication and encryption (ZeroMQ RFC 26): each daemon has a pair of keys, and knows the
// public keys of the daemons with which it speaks.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tern::net {

// A public key of CURVE: 32 bytes, written as 40 characters of Z85 (ZeroMQ RFC 32).
using PublicKey = std::array<uint8_t, 32>;

// A secret key of CURVE, or another secret of 32 bytes. Its memory is locked, so that it is not
// swapped to a disk, and overwritten when the object ends.
class SecretKey {
 public:
  SecretKey();  // all bytes zero
  ~SecretKey();
  SecretKey(SecretKey&& other) noexcept;
  SecretKey& operator=(SecretKey&& other) noexcept;
  SecretKey(const SecretKey&) = delete;
  SecretKey& operator=(const SecretKey&) = delete;

  static constexpr size_t kSize = 32;
  uint8_t* data() { return bytes_; }
  const uint8_t* data() const { return bytes_; }

 private:
  uint8_t* bytes_;  // memory of sodium_malloc; null after a move
};

// Whose key it is: a daemon of the job.
struct Principal {
  enum class Role : uint8_t { kWorker, kShard };
  Role role = Role::kWorker;
  uint32_t number = 0;  // the worker's rank, or the shard's number

  friend auto operator<=>(const Principal&, const Principal&) = default;
};
std::string ToString(const Principal& principal);  // "worker/3" or "shard/1"
// Reads what ToString writes; nullopt for anything else.
std::optional<Principal> ParsePrincipal(std::string_view text);

// The public keys that a server shard accepts, and whose they are. A principal may have two keys
// while its keys are being replaced; a key has one principal.
using AllowList = std::map<PublicKey, Principal>;

// What the sockets of a daemon need to know. Immutable, except that the allow list of a running
// server is replaced by ZapHandler.
struct Security {
  enum class Mechanism {
    kNull,   // peers are not authenticated, and nothing is encrypted
    kCurve,  // CURVE on every socket
  };
  Mechanism mechanism = Mechanism::kNull;

  // With kCurve only:
  PublicKey own_public{};
  SecretKey own_secret;
  Principal self;  // whose keys these are
  // By shard: the public keys of which the shard must have one. The second is for the time in which
  // a shard's key is being replaced; the connection is tried with each in turn.
  std::vector<std::vector<PublicKey>> servers;
  AllowList allowed;   // of a server shard: who may connect
  std::string domain;  // of ZAP (ZeroMQ RFC 27): the job's name and digest
};

// Whether the daemon has keys; null stands for kNull.
inline bool HasKeys(const Security* security) {
  return security != nullptr && security->mechanism == Security::Mechanism::kCurve;
}

}  // namespace tern::net
