#include "common/net/security.h"

#include <sodium.h>

#include <charconv>
#include <new>
#include <utility>

#include "common/base/text.h"

namespace tern::net {
namespace {

constexpr std::string_view kWorkerPrefix = "worker/", kShardPrefix = "shard/";

}  // namespace

SecretKey::SecretKey() {
  // sodium_malloc needs this call. Any thread may repeat it.
  if (sodium_init() < 0) throw std::bad_alloc();
  bytes_ = static_cast<uint8_t*>(sodium_malloc(kSize));
  if (bytes_ == nullptr) throw std::bad_alloc();
  sodium_memzero(bytes_, kSize);
}

SecretKey::~SecretKey() { sodium_free(bytes_); }

SecretKey::SecretKey(SecretKey&& other) noexcept : bytes_(std::exchange(other.bytes_, nullptr)) {}

SecretKey& SecretKey::operator=(SecretKey&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

std::string ToString(const Principal& principal) {
  return Cat(principal.role == Principal::Role::kWorker ? kWorkerPrefix : kShardPrefix,
             principal.number);
}

std::optional<Principal> ParsePrincipal(std::string_view text) {
  Principal principal;
  if (text.starts_with(kShardPrefix)) {
    principal.role = Principal::Role::kShard;
    text.remove_prefix(kShardPrefix.size());
  } else if (text.starts_with(kWorkerPrefix)) {
    text.remove_prefix(kWorkerPrefix.size());
  } else {
    return std::nullopt;
  }
  const char* end = text.data() + text.size();
  const auto [parsed_end, error] = std::from_chars(text.data(), end, principal.number);
  if (text.empty() || error != std::errc() || parsed_end != end) return std::nullopt;
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  return principal;
}

}  // namespace tern::net
