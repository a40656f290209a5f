#include "tests/e2e/stranger.h"

#include <gtest/gtest.h>
#include <zmq.h>

#include <span>
#include <utility>

#include "common/base/clock.h"
#include "common/net/frame.h"

namespace tern::e2e {

Stranger::Stranger(uint16_t port, const std::optional<StrangerKeys>& keys)
    : context_(zmq_ctx_new()), socket_(zmq_socket(context_, ZMQ_DEALER)) {
  const int linger_ms = 0;
  zmq_setsockopt(socket_, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
  if (keys.has_value()) {
    for (const auto& [option, key] : {std::pair{ZMQ_CURVE_SERVERKEY, &keys->server_public},
                                      std::pair{ZMQ_CURVE_PUBLICKEY, &keys->own_public},
                                      std::pair{ZMQ_CURVE_SECRETKEY, &keys->own_secret}})
      EXPECT_EQ(zmq_setsockopt(socket_, option, key->c_str(), key->size() + 1), 0);
  }
  EXPECT_EQ(zmq_connect(socket_, ("tcp://127.0.0.1:" + std::to_string(port)).c_str()), 0);
}

Stranger::~Stranger() {
  zmq_close(socket_);
  zmq_ctx_term(context_);
}

void Stranger::SendFrames(const std::vector<std::string>& frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    const int more_frames_flag = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
    ASSERT_EQ(zmq_send(socket_, frames[i].data(), frames[i].size(), more_frames_flag),
              static_cast<int>(frames[i].size()));
  }
}

void Stranger::SendEnvelope(const pb::Envelope& envelope, const std::string& payload) {
  std::vector<std::string> frames = {HeaderOfVersion(envelope, net::kWireVersion)};
  if (!payload.empty()) frames.push_back(payload);
  SendFrames(frames);
}

std::optional<pb::Envelope> Stranger::Receive(double seconds) {
  const Time deadline = Now() + Time(static_cast<int64_t>(seconds * 1e9));
  while (Now() < deadline) {
    zmq_pollitem_t socket_poll{socket_, 0, ZMQ_POLLIN, 0};
    zmq_poll(&socket_poll, 1, 100);
    std::vector<uint8_t> frame(net::kMaxHeaderBytes);
    const int frame_bytes = zmq_recv(socket_, frame.data(), frame.size(), ZMQ_DONTWAIT);
    pb::Envelope envelope;
    if (frame_bytes > 0 &&
        !net::DecodeHeader(std::span(frame).first(static_cast<size_t>(frame_bytes)), &envelope))
      return envelope;
  }
  return std::nullopt;
}

std::string HeaderOfVersion(const pb::Envelope& envelope, uint16_t version) {
  Result<std::string> header = net::EncodeHeader(envelope);
  EXPECT_TRUE(header.ok()) << header.status().message();
  if (!header.ok()) return "";
  (*header)[4] = static_cast<char>(version & 0xff);
  (*header)[5] = static_cast<char>(version >> 8);
  return *header;
}

}  // namespace tern::e2e
