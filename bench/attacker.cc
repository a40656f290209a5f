// Attacks the ports of a running job on 127.0.0.1 for some seconds, as a stranger could
// (bench/attacks/attacks.h), and prints how much it did: {"connections": ..., "sent_bytes": ...}.
//
//   attacker --list
//   attacker ATTACK --seconds N [--job FILE [--set KEY=VALUE]...] PORT...
//
// --list prints a line for each attack: its name, the finding, whether its ports are those of
// `control` and data sockets or of `metrics` pages, and what it does. With --job, forged messages
// have the digests of that job, which a stranger would have to know.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/attacks/attacks.h"
#include "common/base/clock.h"
#include "setup/setup.h"

namespace tern::bench {
namespace {

int Fail(const std::string& sentence) {
  std::fprintf(stderr, "attacker: %s\n", sentence.c_str());
  return 64;
}

int List() {
  for (const attacks::Attack& attack : attacks::AllAttacks()) {
    std::printf("%s\t%s\t%s\t%s\n", attack.name, attack.finding,
                attack.is_on_metrics ? "metrics" : "control", attack.what);
  }
  return 0;
}

int Main(const std::vector<std::string>& words) {
  if (words.size() == 1 && words[0] == "--list") return List();
  const attacks::Attack* attack = words.empty() ? nullptr : attacks::FindAttack(words[0]);
  if (attack == nullptr) return Fail("the first argument must be an attack; --list lists them");
  attacks::Tally tally;
  attacks::Aim aim;
  aim.tally = &tally;
  double seconds = 0;
  std::string job;
  std::vector<std::string> settings;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.starts_with("--")) {
      if (++i == words.size()) return Fail(word + " needs a value");
      if (word == "--seconds") {
        seconds = std::atof(words[i].c_str());
      } else if (word == "--job") {
        job = words[i];
      } else if (word == "--set") {
        settings.push_back(words[i]);
      } else {
        return Fail("unknown option " + word);
      }
    } else {
      aim.ports.push_back(static_cast<uint16_t>(std::atoi(word.c_str())));
    }
  }
  if (aim.ports.empty() || seconds <= 0) return Fail("--seconds and at least one port are needed");
  if (!job.empty()) {
    const auto setup = setup::MakeSetup(job, settings);
    if (!setup.ok()) return Fail(setup.status().message());
    aim.hello = (*setup)->hello;
  }
  aim.end = Now() + Time(static_cast<int64_t>(seconds * 1e9));
  attack->run(aim);
  std::printf("{\"connections\": %llu, \"sent_bytes\": %llu}\n",
              static_cast<unsigned long long>(tally.connections),
              static_cast<unsigned long long>(tally.sent_bytes));
  return 0;
}

}  // namespace
}  // namespace tern::bench

int main(int argc, char** argv) {
  return tern::bench::Main(std::vector<std::string>(argv + 1, argv + argc));
}
