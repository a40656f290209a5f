// What shard 0 serves of the whole job on its metrics port: the page for people, and the answers to
// probes of a cluster manager.
//
//   /             the page (page.html, page.css, page.js: compiled in; nothing is loaded elsewhere)
//   /status.json  StatusJson
//   /healthz      200 while the control thread turns
//   /readyz       200 once all workers and shards have said hello and the job runs
#pragma once

#include "common/base/clock.h"
#include "common/net/http_server.h"
#include "server/status/status_board.h"
#include "setup/setup.h"

namespace tern::server {

// Longer than a turn of the control thread ever takes on a machine that is only busy.
inline constexpr Time kHealthyAge = std::chrono::seconds(10);

// Adds these routes to `routes`. `setup` and `board` outlive them.
void AddStatusRoutes(const setup::Setup& setup, const StatusBoard& board, net::HttpRoutes* routes);

}  // namespace tern::server
