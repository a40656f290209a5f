// The files of the page, compiled into the program (server/CMakeLists.txt).
#pragma once

namespace tern::server {

extern const char* const kPageHtml;
extern const char* const kPageCss;
extern const char* const kPageJs;

}  // namespace tern::server
