#include "common/net/keys.h"

#include <sodium.h>
#include <zmq.h>

#include <algorithm>
#include <cstring>

#include "common/base/text.h"

namespace tern::net {
namespace {

static_assert(crypto_box_PUBLICKEYBYTES == std::tuple_size_v<PublicKey>);
static_assert(crypto_box_SECRETKEYBYTES == SecretKey::kSize);

// zmq_z85_encode and zmq_z85_decode work on texts that end with a zero.
using TerminatedText = std::array<char, kKeyTextSize + 1>;

// The public keys in the examples of libzmq's manual (zmq_curve). Their secret keys are there, too.
constexpr std::array<std::string_view, 2> kKnownKeys = {"rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7",
                                                        "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"};

Status Decode(std::string_view text, uint8_t* key) {
  if (text.size() != kKeyTextSize) {
    return Status(Code::kBadJob,
                  Cat("saw ", text.size(), text.size() == 1 ? " character" : " characters",
                      ", expected a key of ", kKeyTextSize, " characters of Z85"));
  }
  TerminatedText terminated{};
  std::copy(text.begin(), text.end(), terminated.begin());
  const bool is_decoded = std::memchr(text.data(), 0, text.size()) == nullptr &&
                          zmq_z85_decode(key, terminated.data()) != nullptr;
  Wipe(terminated.data(), terminated.size());
  if (is_decoded) return Ok();
  return Status(Code::kBadJob,
                Cat("saw ", kKeyTextSize,
                    " characters that are no key, expected characters of Z85: letters, digits and "
                    ".-:+=^!/*?&<>()[]{}@%$#"));
}

TerminatedText Encode(const uint8_t* key) {
  TerminatedText text{};
  zmq_z85_encode(text.data(), key, SecretKey::kSize);
  return text;
}

// `public_key` is the key, or the public half of the key, that was read.
Status CheckUnknown(const PublicKey& public_key) {
  const bool is_zero =
      std::all_of(public_key.begin(), public_key.end(), [](uint8_t byte) { return byte == 0; });
  const std::string text = ToText(public_key);
  if (!is_zero && std::find(kKnownKeys.begin(), kKnownKeys.end(), text) == kKnownKeys.end())
    return Ok();
  return Status(Code::kBadJob, Cat("saw a key that everybody knows (",
                                   is_zero ? "zero" : "an example of libzmq's manual",
                                   "), expected one that `tern keys make` has made"));
}

}  // namespace

KeyPair MakeKeyPair() {
  KeyPair pair;
  crypto_box_keypair(pair.public_key.data(), pair.secret_key.data());
  return pair;
}

PublicKey PublicHalf(const SecretKey& secret_key) {
  PublicKey public_key{};
  crypto_scalarmult_base(public_key.data(), secret_key.data());
  return public_key;
}

std::string ToText(const PublicKey& key) { return Encode(key.data()).data(); }

KeyText ToText(const SecretKey& key) {
  TerminatedText terminated = Encode(key.data());
  KeyText text{};
  std::copy_n(terminated.begin(), text.size(), text.begin());
  Wipe(terminated.data(), terminated.size());
  return text;
}

Result<PublicKey> ParsePublicKey(std::string_view text) {
  PublicKey key{};
  TERN_RETURN_IF_ERROR(Decode(text, key.data()));
  TERN_RETURN_IF_ERROR(CheckUnknown(key));
  return key;
}

Result<SecretKey> ParseSecretKey(std::string_view text) {
  SecretKey key;
  TERN_RETURN_IF_ERROR(Decode(text, key.data()));
  if (sodium_is_zero(key.data(), SecretKey::kSize) != 0) {
    return Status(Code::kBadJob, "saw a key of zeros, expected one that `tern keys make` has made");
  }
  TERN_RETURN_IF_ERROR(CheckUnknown(PublicHalf(key)));
  return key;
}

void Wipe(void* data, size_t size) { sodium_memzero(data, size); }

}  // namespace tern::net
