// What shard 0 serves of the whole job on its metrics port, for people and their programs.
//
//   /             the page (page.html, page.css, page.js: compiled in; nothing is loaded elsewhere)
//   /status.json  StatusJson
#pragma once

#include "common/net/http_server.h"
#include "server/status/status_board.h"
#include "setup/setup.h"

namespace tern::server {

// Adds these routes to `routes`. `setup` and `board` outlive them.
void AddStatusRoutes(const setup::Setup& setup, const StatusBoard& board, net::HttpRoutes* routes);

}  // namespace tern::server
