// Attacks of strangers on the ports of a running job: of programs that connect, and are no member.
// Each goes on as fast as it can until its aim's end.
#pragma once

#include <span>
#include <string_view>

#include "bench/attacks/client.h"

namespace tern::attacks {

struct Attack {
  const char* name;
  const char* finding;  // the weakness of an early version that it used, F2 to F16; "held": none
  bool is_on_metrics;   // its ports are those of metrics pages, not of control and data sockets
  const char* what;     // one line
  void (*run)(const Aim&);
};

std::span<const Attack> AllAttacks();
// Null if there is no attack of this name.
const Attack* FindAttack(std::string_view name);

// handshakes.cc: connections, claims of routing ids, handshakes that do not end, other protocols.
void ClaimIds(const Aim& aim);
void ComeAnonymously(const Aim& aim);
void SayNothing(const Aim& aim);
void StayHalfOpen(const Aim& aim);
void ShakeHandsSlowly(const Aim& aim);
void SpeakOtherProtocols(const Aim& aim);
void ForgeKeys(const Aim& aim);

// http.cc: requests to the metrics page.
void SendShortHeaders(const Aim& aim);
void SendOneHeader(const Aim& aim);
void SendChunkSize(const Aim& aim);
void SendBody(const Aim& aim);
void SendHeadersSlowly(const Aim& aim);

// messages.cc: messages of Tern's, and of nobody's.
void SayByeForNobody(const Aim& aim);
void SayLongHellos(const Aim& aim);
void SayShortHellos(const Aim& aim);
void SayControlCharacters(const Aim& aim);
void SendOtherFrames(const Aim& aim);
void SendEndlessMessage(const Aim& aim);
void ForgeHellos(const Aim& aim);
void ForgeMembers(const Aim& aim);
void ForgeContributions(const Aim& aim);

}  // namespace tern::attacks
