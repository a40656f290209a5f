#include <sys/resource.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bench/attacks/attacks.h"
#include "tests/common/net/zmtp_bytes.h"

namespace tern::attacks {
namespace {

using net::ZmtpCommand;
using net::ZmtpFrame;
using net::ZmtpGreeting;
using net::ZmtpReady;

// Keeps up to `count` connections for which `greet` has been called, and replaces those that the
// server closes, until the aim's end.
template <typename Greet>
void KeepConnections(const Aim& aim, size_t count, Greet greet) {
  std::deque<std::unique_ptr<Client>> clients;
  for (size_t made = 0; !aim.IsOver(); ++made) {
    auto client = std::make_unique<Client>(aim, aim.ports[made % aim.ports.size()]);
    greet(*client);
    if (client->is_open()) clients.push_back(std::move(client));
    while (clients.size() >= count && !aim.IsOver()) {
      if (std::erase_if(clients, [](const auto& one) { return !one->Look(); }) == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
}

// An id as libzmq's counter makes them: 0 and a number.
std::string CountedId(uint32_t number) {
  std::string id(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) id += static_cast<char>(number >> shift);
  return id;
}

}  // namespace

void ClaimIds(const Aim& aim) {
  constexpr size_t kMaxClaims = 1000;
  std::deque<std::unique_ptr<Client>> claims;
  for (uint32_t made = 0; !aim.IsOver(); ++made) {
    auto client = std::make_unique<Client>(aim, aim.ports[made % aim.ports.size()]);
    const uint32_t step = UINT32_MAX / kMaxClaims;
    if (client->ShakeHands(CountedId(made * step))) claims.push_back(std::move(client));
    if (claims.size() > kMaxClaims) claims.pop_front();
  }
}

void ComeAnonymously(const Aim& aim) {
  for (size_t made = 0; !aim.IsOver(); ++made) {
    Client client(aim, aim.ports[made % aim.ports.size()]);
    client.ShakeHands("");
  }
}

void SayNothing(const Aim& aim) {
  KeepConnections(aim, 1500, [](Client& client) { client.ShakeHands(""); });
}

void StayHalfOpen(const Aim& aim) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  // All that this process may open but some, and not many more than a server can hold.
  const size_t count = std::clamp<size_t>(files.rlim_cur, 200, 20'100) - 100;
  bool sends_a_part = false;
  KeepConnections(aim, count, [&](Client& client) {
    sends_a_part = !sends_a_part;
    if (sends_a_part) client.Send("\xff");
  });
}

void ShakeHandsSlowly(const Aim& aim) {
  constexpr size_t kNumClients = 300;
  struct Slow {
    std::unique_ptr<Client> client;
    size_t sent_bytes = 0;
  };
  const std::string handshake = ZmtpGreeting("NULL") + ZmtpReady("slow");
  std::vector<Slow> all(kNumClients);
  while (!aim.IsOver()) {
    for (size_t i = 0; i < all.size(); ++i) {
      Slow& slow = all[i];
      if (slow.client == nullptr || !slow.client->Look() || slow.sent_bytes == handshake.size())
        slow = {std::make_unique<Client>(aim, aim.ports[i % aim.ports.size()]), 0};
      slow.client->Send(std::string_view(handshake).substr(slow.sent_bytes++, 1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
  }
}

void SpeakOtherProtocols(const Aim& aim) {
  std::mt19937 generator(1);
  std::string random_bytes(4096, '\0');
  for (char& byte : random_bytes) byte = static_cast<char>(generator());
  const std::string publisher =
      ZmtpCommand("\x05READY\x0bSocket-Type" + std::string(3, '\0') + "\x03PUB");
  const std::string beginnings[] = {
      random_bytes,
      std::string(100'000, '\xff'),
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + random_bytes,
      std::string("\x01\x00\x05", 3) + "hello",                               // ZMTP 1
      std::string("\xff\0\0\0\0\0\0\0\x01\x7f\x01\x05", 12) + "\0\x05hello",  // ZMTP 2
      ZmtpGreeting("PLAIN") + ZmtpCommand("\x05HELLO\x01u\x01p"),
      ZmtpGreeting("NULL") + publisher,
      ZmtpGreeting("NULL") + ZmtpReady(std::string(200, 'i')),
      ZmtpGreeting("NULL") + std::string("\x06\x7f\xff\xff\xff\xff\xff\xff\xff", 9),
  };
  for (size_t made = 0; !aim.IsOver(); ++made) {
    Client client(aim, aim.ports[made % aim.ports.size()]);
    client.Send(beginnings[made % std::size(beginnings)]);
    client.Receive(net::kZmtpGreetingBytes);
  }
}

void ForgeKeys(const Aim& aim) {
  std::mt19937 generator(2);
  for (size_t made = 0; !aim.IsOver(); ++made) {
    // HELLO: version 1.0, 72 zeros, a key, a nonce, a box.
    std::string hello = "\x05HELLO\x01" + std::string(73, '\0');
    while (hello.size() < 200) hello += static_cast<char>(generator());
    Client client(aim, aim.ports[made % aim.ports.size()]);
    client.Send(ZmtpGreeting("CURVE") + ZmtpCommand(hello));
    client.Receive(net::kZmtpGreetingBytes + 1);  // a WELCOME, which never comes, or the end
  }
}

}  // namespace tern::attacks
