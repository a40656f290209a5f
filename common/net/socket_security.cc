// What SocketImpl does about keys: the options of CURVE, and whose messages it receives.
#include <zmq.h>

#include <vector>

#include "common/base/text.h"
#include "common/net/keys.h"
#include "common/net/socket_impl.h"
#include "common/net/zap_handler.h"

namespace tern::net {
namespace {

// With 1, libzmq refuses every connection while no ZapHandler runs. The header of libzmq declares
// this option only with draft functions; libzmq 4.3 has it in every build.
constexpr int kZapEnforceDomain = 93;

}  // namespace

Status SocketImpl::SetKey(int option, const uint8_t* key) {
  if (key != nullptr && zmq_setsockopt(handle_, option, key, SecretKey::kSize) == 0) return Ok();
  return Status(Code::kBadJob, Cat("security: curve: libzmq does not take a key: ", ZmqError()));
}

Status SocketImpl::PinServerKey(size_t number) {
  if (!has_keys()) return Ok();
  const auto& servers = options_.security->servers;
  if (options_.shard >= servers.size() || servers[options_.shard].empty()) {
    return Status(Code::kBadJob, Cat("security: curve: the public key of server shard ",
                                     options_.shard, " is not known"));
  }
  const std::vector<PublicKey>& keys = servers[options_.shard];
  return SetKey(ZMQ_CURVE_SERVERKEY, keys[number % keys.size()].data());
}

Status SocketImpl::SetSecurity(int type) {
  if (type == ZMQ_ROUTER && options_.zap_handler != nullptr) {
    const std::string& domain = options_.zap_handler->domain();
    const int enforce = 1;
    if (zmq_setsockopt(handle_, ZMQ_ZAP_DOMAIN, domain.data(), domain.size()) != 0 ||
        zmq_setsockopt(handle_, kZapEnforceDomain, &enforce, sizeof enforce) != 0)
      return Status(Code::kInternal, Cat("cannot set the domain of ZAP: ", ZmqError()));
  }
  if (!has_keys()) return Ok();
  const Security& security = *options_.security;
  if (type == ZMQ_ROUTER) {
    if (options_.zap_handler == nullptr)
      return Status(Code::kInternal, "a server's socket with keys has no ZAP handler");
    const int is_server = 1;
    if (zmq_setsockopt(handle_, ZMQ_CURVE_SERVER, &is_server, sizeof is_server) != 0)
      return Status(Code::kBadJob, Cat("security: curve: libzmq has no CURVE: ", ZmqError()));
  } else {
    TERN_RETURN_IF_ERROR(PinServerKey(0));
    TERN_RETURN_IF_ERROR(SetKey(ZMQ_CURVE_PUBLICKEY, security.own_public.data()));
  }
  TERN_RETURN_IF_ERROR(SetKey(ZMQ_CURVE_SECRETKEY, security.own_secret.data()));
  int mechanism = -1;
  size_t mechanism_bytes = sizeof mechanism;
  if (zmq_getsockopt(handle_, ZMQ_MECHANISM, &mechanism, &mechanism_bytes) == 0 &&
      mechanism == ZMQ_CURVE)
    return Ok();
  return Status(Code::kBadJob, "security: curve: libzmq does not use CURVE on a socket with keys");
}

Credentials ReadCredentials(zmq_msg_t* message) {
  Credentials credentials;
  const char* user_id = zmq_msg_gets(message, "User-Id");
  const char* key_text = zmq_msg_gets(message, kKeyProperty);
  if (user_id == nullptr || key_text == nullptr) return credentials;
  Result<PublicKey> key = ParsePublicKey(key_text);
  if (!key.ok()) return credentials;
  credentials.key = *key;
  credentials.principal = ParsePrincipal(user_id);
  return credentials;
}

}  // namespace tern::net
