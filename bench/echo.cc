// The least that a server could do: receives what a server of a job would over ZeroMQ, and sends
// back as many bytes as it would. Plain libzmq, sends without a copy.
//
//   echo server PORT MESSAGES ANSWER_BYTES          answers every message with so many bytes
//   echo client PORT MESSAGES PUSH_BYTES WINDOW     at most WINDOW messages without an answer
//
// Both end once MESSAGES have come. benchmark server_cpu.py reads the CPU that the server took.
#include <zmq.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

void Need(bool ok) {
  if (ok) return;
  std::fprintf(stderr, "echo: %s\n", zmq_strerror(zmq_errno()));
  std::exit(1);
}

void* Socket(void* context, int type) {
  void* socket = zmq_socket(context, type);
  Need(socket != nullptr);
  const int mark = 100000, linger = 2000;
  zmq_setsockopt(socket, ZMQ_SNDHWM, &mark, sizeof mark);
  zmq_setsockopt(socket, ZMQ_RCVHWM, &mark, sizeof mark);
  zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
  return socket;
}

void Keep(void*, void*) {}

void SendBytes(void* socket, std::vector<char>& bytes) {
  zmq_msg_t message;
  Need(zmq_msg_init_data(&message, bytes.data(), bytes.size(), Keep, nullptr) == 0);
  Need(zmq_msg_send(&message, socket, 0) >= 0);
}

// One message, its parts thrown away; the first part, where it is asked for.
void Receive(void* socket, std::string* first) {
  zmq_msg_t part;
  for (bool more = true, begin = true; more; begin = false) {
    zmq_msg_init(&part);
    Need(zmq_msg_recv(&part, socket, 0) >= 0);
    if (begin && first != nullptr)
      first->assign(static_cast<char*>(zmq_msg_data(&part)), zmq_msg_size(&part));
    more = zmq_msg_more(&part) != 0;
    zmq_msg_close(&part);
  }
}

void Serve(void* context, const std::string& at, long messages, size_t answer) {
  void* socket = Socket(context, ZMQ_ROUTER);
  Need(zmq_bind(socket, at.c_str()) == 0);
  std::vector<char> bytes(answer, 1);
  for (long i = 0; i < messages; ++i) {
    std::string id;
    Receive(socket, &id);
    Need(zmq_send(socket, id.data(), id.size(), ZMQ_SNDMORE) >= 0);
    SendBytes(socket, bytes);
  }
  zmq_close(socket);
  zmq_ctx_term(context);  // the bytes live until all are sent
}

void Ask(void* context, const std::string& at, long messages, size_t push, long window) {
  void* socket = Socket(context, ZMQ_DEALER);
  Need(zmq_connect(socket, at.c_str()) == 0);
  std::vector<char> bytes(push, 1);
  for (long sent = 0, answered = 0; answered < messages; ++answered) {
    for (; sent < messages && sent - answered < window; ++sent) SendBytes(socket, bytes);
    Receive(socket, nullptr);
  }
  zmq_close(socket);
  zmq_ctx_term(context);
}

}  // namespace

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  if (!(what == "server" && count == 5) && !(what == "client" && count == 6)) {
    std::fprintf(
        stderr,
        "echo server PORT MESSAGES ANSWER_BYTES | client PORT MESSAGES PUSH_BYTES WINDOW\n");
    return 64;
  }
  void* context = zmq_ctx_new();
  const std::string at = std::string("tcp://127.0.0.1:") + words[2];
  const long messages = std::atol(words[3]);
  const auto bytes = static_cast<size_t>(std::atol(words[4]));
  if (what == "server") {
    Serve(context, at, messages, bytes);
  } else {
    Ask(context, at, messages, bytes, std::atol(words[5]));
  }
  return 0;
}
