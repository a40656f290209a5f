// Keys of CURVE, ZeroMQ's authentication and encryption (ZeroMQ RFC 26): pairs of Curve25519 keys,
// and their text. Key files and messages have keys as text in Z85 (ZeroMQ RFC 32). No message has
// anything of a text that could be a secret key.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/net/security.h"

namespace tern::net {

inline constexpr size_t kKeyTextSize = 40;  // characters

// A key as text. The owner of a secret key's text overwrites it after use, with Wipe.
using KeyText = std::array<char, kKeyTextSize>;

struct KeyPair {
  PublicKey public_key{};
  SecretKey secret_key;
};

// Makes a new pair of keys.
KeyPair MakeKeyPair();
// The public key that belongs to a secret key.
PublicKey PublicHalf(const SecretKey& secret_key);

std::string ToText(const PublicKey& key);
KeyText ToText(const SecretKey& key);

// Read what ToText writes. kBadJob, with "saw ..., expected ..." in one sentence without the place:
// the length is not kKeyTextSize, a character is not of Z85, or the key is one that everybody
// knows: an example in the manual of libzmq, or zero.
Result<PublicKey> ParsePublicKey(std::string_view text);
Result<SecretKey> ParseSecretKey(std::string_view text);

// Overwrites memory that held a secret; the compiler does not leave this out.
void Wipe(void* data, size_t size);

}  // namespace tern::net
