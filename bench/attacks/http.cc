#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/attacks/attacks.h"

namespace tern::attacks {
namespace {

const char* const kGet = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n";
const char* const kPost = "POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n";

// Sends `begin` and then `repeated` again and again, on a new connection when one is closed.
void SendWithoutEnd(const Aim& aim, const std::string& begin, const std::string& repeated) {
  for (size_t made = 0; !aim.IsOver(); ++made) {
    Client client(aim, aim.ports[made % aim.ports.size()]);
    client.Send(begin);
    while (!aim.IsOver() && client.Send(repeated)) {
    }
  }
}

}  // namespace

void SendShortHeaders(const Aim& aim) {
  std::string headers;
  while (headers.size() < 60'000) headers += "a:b\r\n";
  SendWithoutEnd(aim, kGet, headers);
}

void SendOneHeader(const Aim& aim) {
  SendWithoutEnd(aim, std::string(kGet) + "X: ", std::string(60'000, 'x'));
}

void SendChunkSize(const Aim& aim) {
  SendWithoutEnd(aim, std::string(kPost) + "Transfer-Encoding: chunked\r\n\r\n",
                 std::string(60'000, '0'));
}

void SendBody(const Aim& aim) {
  SendWithoutEnd(aim, std::string(kPost) + "\r\n", std::string(60'000, 'x'));
}

void SendHeadersSlowly(const Aim& aim) {
  std::vector<std::unique_ptr<Client>> clients(40);
  for (Time next = Now(); !aim.IsOver();
       std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    const bool is_time = Now() >= next;
    if (is_time) next += std::chrono::milliseconds(1500);
    for (size_t i = 0; i < clients.size(); ++i) {
      std::unique_ptr<Client>& client = clients[i];
      if (client == nullptr || !client->Look()) {
        client = std::make_unique<Client>(aim, aim.ports[i % aim.ports.size()]);
        client->Send(kGet);
      } else if (is_time) {
        client->Send("X: y\r\n");
      }
    }
  }
}

}  // namespace tern::attacks
