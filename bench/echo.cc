// Gives a lower bound of the CPU time of a parameter server. An echo server receives and sends over
// ZeroMQ as many bytes as a server of a job receives and sends. It calls libzmq directly and sends
// answers without copying them.
//
//   echo server PORT MESSAGES ANSWER_BYTES
//   echo client PORT MESSAGES PUSH_BYTES WINDOW
//
// The server answers every message with ANSWER_BYTES bytes. The client sends messages of PUSH_BYTES
// bytes, of which at most WINDOW are unanswered at any time.
//
// Both exit after MESSAGES messages. server_cpu.py reads the CPU time that the server used.
#include <zmq.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

void ExitUnless(bool ok) {
  if (ok) return;
  std::fprintf(stderr, "echo: %s\n", zmq_strerror(zmq_errno()));
  std::exit(1);
}

void* MakeSocket(void* context, int type) {
  void* socket = zmq_socket(context, type);
  ExitUnless(socket != nullptr);
  const int high_water_mark = 100000, linger_ms = 2000;
  zmq_setsockopt(socket, ZMQ_SNDHWM, &high_water_mark, sizeof high_water_mark);
  zmq_setsockopt(socket, ZMQ_RCVHWM, &high_water_mark, sizeof high_water_mark);
  zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
  return socket;
}

// ZeroMQ calls this function when it no longer needs a message's bytes. The function does not free
// the bytes, because the caller of SendBytes owns them.
void KeepBytes(void*, void*) {}

void SendBytes(void* socket, std::vector<char>& bytes) {
  zmq_msg_t message;
  ExitUnless(zmq_msg_init_data(&message, bytes.data(), bytes.size(), KeepBytes, nullptr) == 0);
  ExitUnless(zmq_msg_send(&message, socket, 0) >= 0);
}

// Receives all parts of a message. Stores the first part in `first_part` unless that is null, and
// discards the others.
void Receive(void* socket, std::string* first_part) {
  zmq_msg_t part;
  for (bool has_more = true, is_first = true; has_more; is_first = false) {
    zmq_msg_init(&part);
    ExitUnless(zmq_msg_recv(&part, socket, 0) >= 0);
    if (is_first && first_part != nullptr)
      first_part->assign(static_cast<char*>(zmq_msg_data(&part)), zmq_msg_size(&part));
    has_more = zmq_msg_more(&part) != 0;
    zmq_msg_close(&part);
  }
}

void RunServer(void* context, const std::string& endpoint, long num_messages, size_t answer_bytes) {
  void* socket = MakeSocket(context, ZMQ_ROUTER);
  ExitUnless(zmq_bind(socket, endpoint.c_str()) == 0);
  std::vector<char> answer(answer_bytes, 1);
  for (long i = 0; i < num_messages; ++i) {
    std::string client_id;
    Receive(socket, &client_id);
    ExitUnless(zmq_send(socket, client_id.data(), client_id.size(), ZMQ_SNDMORE) >= 0);
    SendBytes(socket, answer);
  }
  zmq_close(socket);
  zmq_ctx_term(context);  // Waits until all bytes are sent, at most linger_ms.
}

void RunClient(void* context, const std::string& endpoint, long num_messages, size_t push_bytes,
               long window) {
  void* socket = MakeSocket(context, ZMQ_DEALER);
  ExitUnless(zmq_connect(socket, endpoint.c_str()) == 0);
  std::vector<char> push(push_bytes, 1);
  for (long num_sent = 0, num_answered = 0; num_answered < num_messages; ++num_answered) {
    for (; num_sent < num_messages && num_sent - num_answered < window; ++num_sent)
      SendBytes(socket, push);
    Receive(socket, nullptr);
  }
  zmq_close(socket);
  zmq_ctx_term(context);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (!(role == "server" && argc == 5) && !(role == "client" && argc == 6)) {
    std::fprintf(
        stderr,
        "echo server PORT MESSAGES ANSWER_BYTES | client PORT MESSAGES PUSH_BYTES WINDOW\n");
    return 64;
  }
  void* context = zmq_ctx_new();
  const std::string endpoint = std::string("tcp://127.0.0.1:") + argv[2];
  const long num_messages = std::atol(argv[3]);
  const auto message_bytes = static_cast<size_t>(std::atol(argv[4]));
  if (role == "server") {
    RunServer(context, endpoint, num_messages, message_bytes);
  } else {
    RunClient(context, endpoint, num_messages, message_bytes, std::atol(argv[5]));
  }
  return 0;
}
