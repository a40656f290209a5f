#include "bench/attacks/attacks.h"

namespace tern::attacks {
namespace {

// Uses this process's core, and connects to nobody: what attacks are compared with.
void Spin(const Aim& aim) {
  while (!aim.IsOver()) {
  }
}

constexpr Attack kAttacks[] = {
    {"spin", "-", false, "no attack: a loop without connections", Spin},
    {"claimed_ids", "F2", false, "1,000 connections claim the ids of others", ClaimIds},
    {"anonymous", "F2", false, "connections without an id, reset after the handshake",
     ComeAnonymously},
    {"bye_of_nobody", "F3", false, "bye of incarnation 0 for each rank", SayByeForNobody},
    {"short_headers", "F4", true, "GET with endless short headers", SendShortHeaders},
    {"one_header", "F4", true, "GET with one header that does not end", SendOneHeader},
    {"chunk_size", "F4", true, "POST with a chunk's size that does not end", SendChunkSize},
    {"body", "F4", true, "POST without a length, with a body that does not end", SendBody},
    {"slow_headers", "F4", true, "40 clients with a header line each 1.5 s", SendHeadersSlowly},
    {"long_hellos", "F5", false, "hellos with 60 KB of name; no answer is read", SayLongHellos},
    {"short_hellos", "F5", false, "hellos with a host of 50 bytes", SayShortHellos},
    {"other_frames", "F5", false, "frames that are not Tern's", SendOtherFrames},
    {"endless_message", "F6", false, "a message without a last frame", SendEndlessMessage},
    {"control_characters", "F7", false, "hellos with control characters in their names",
     SayControlCharacters},
    {"forged_hellos", "F8", false, "hellos of taken ranks and shards, other steps, the last epoch",
     ForgeHellos},
    {"forged_members", "F8", false, "a stop, heartbeats and byes in the names of members",
     ForgeMembers},
    {"forged_sums", "F9 F10", false, "scalers and pushes in the names of members",
     ForgeContributions},
    {"silent", "F16", false, "1,500 connections that say nothing after the handshake", SayNothing},
    {"half_open", "F16", false,
     "as many connections as it can open, which do not begin the handshake", StayHalfOpen},
    {"slow_handshakes", "F16", false, "300 handshakes with a byte each 150 ms", ShakeHandsSlowly},
    {"other_protocols", "held", false, "random bytes, HTTP, TLS, old and other greetings of ZeroMQ",
     SpeakOtherProtocols},
    {"forged_keys", "held", false, "handshakes of CURVE with random keys", ForgeKeys},
};

}  // namespace

std::span<const Attack> AllAttacks() { return kAttacks; }

const Attack* FindAttack(std::string_view name) {
  for (const Attack& attack : kAttacks)
    if (attack.name == name) return &attack;
  return nullptr;
}

}  // namespace tern::attacks
