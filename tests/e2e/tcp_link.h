// The link between the machine of a server and all others, which may be down: a port of 127.0.0.1
// leads to the same port of 127.0.0.2, as long as the link is up. What was on its way when it went
// down arrives when it is up again, as with TCP; connections that were begun meanwhile stand then.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tern::e2e {

class TcpLink {
 public:
  explicit TcpLink(const std::vector<uint16_t>& ports);
  ~TcpLink();
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  void SetUp(bool up);

 private:
  // One way of a connection.
  struct Way {
    int from = -1, to = -1;
    std::string held;  // read, and not written yet
    bool ended = false;
  };
  struct Pair {
    int client = -1, server = -1;
    Way ways[2];
  };
  void Run();
  void Accept(int listener, uint16_t port);
  // Whether the connection lives on.
  static bool Carry(Pair* pair);
  static bool Carry(Way* way);

  std::vector<uint16_t> ports_;
  std::vector<int> listeners_;
  std::vector<std::unique_ptr<Pair>> pairs_;
  int wake_ = -1;
  std::atomic<bool> up_{true}, quit_{false};
  std::thread thread_;
};

}  // namespace tern::e2e
