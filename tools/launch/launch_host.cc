// tern launch_host: what `tern launch` starts over ssh on each of several hosts. It reads what to
// do from stdin, and ends everything that it has started when stdin ends: then the launcher was
// killed, or the connection was lost.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <vector>

#include "common/base/signals.h"
#include "tools/commands.h"
#include "tools/launch/frames.h"
#include "tools/launch/host_members.h"

namespace tern::tools {
namespace {

// How often the output of members is read.
constexpr int kBetweenReportsMs = 100;

// Does what has arrived. Returns false at the end of stdin.
Result<bool> HandleInput(FrameReader* reader, HostMembers* members) {
  const ptrdiff_t num_read = reader->ReadFrom(STDIN_FILENO);
  if (num_read < 0) return errno == EINTR || errno == EAGAIN;
  if (num_read == 0) return false;
  while (true) {
    pb::ToHost message;
    const Result<bool> is_there = reader->Next(&message);
    if (!is_there.ok()) return is_there.status();
    if (!*is_there) return true;
    if (const Status status = members->Handle(&message); !status.ok()) return status;
  }
}

}  // namespace

Status RunLaunchHost(const Arguments&) {
  signal(SIGPIPE, SIG_IGN);
  StopSignals stop_signals(StopSignals::SecondSignal::kReport);
  auto members = HostMembers::Make();
  if (!members.ok()) return members.status();
  if (write(STDOUT_FILENO, kHostGreeting.data(), kHostGreeting.size()) < 0)
    return Status(Code::kPeerLost, "nobody reads what this host says; `tern launch` starts it");
  FrameReader reader;
  while (true) {
    std::vector<pollfd> fds = {{STDIN_FILENO, POLLIN, 0}, {stop_signals.fd(), POLLIN, 0}};
    (*members)->AddPollFds(&fds);
    poll(fds.data(), fds.size(), (*members)->AnyRuns() ? kBetweenReportsMs : -1);
    // A member that gets SIGTERM stops the whole job, so a host that goes down kills its own.
    if (stop_signals.TakeSignal() != 0) return stop_signals.status();
    if (fds[0].revents != 0) {
      const Result<bool> goes_on = HandleInput(&reader, members->get());
      if (!goes_on.ok()) return goes_on.status();
      if (!*goes_on) return Ok();
    }
    TERN_RETURN_IF_ERROR((*members)->Report());
  }
}

}  // namespace tern::tools
