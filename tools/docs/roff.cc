#include "tools/docs/roff.h"

#include <algorithm>

namespace tern::tools {

std::string RoffText(const std::string& text) {
  std::string roff;
  bool is_line_begin = true;
  for (const char c : text) {
    // At the beginning of a line these would be a request.
    if (is_line_begin && (c == '.' || c == '\'')) roff += "\\&";
    is_line_begin = c == '\n';
    switch (c) {
      case '\\':
        roff += "\\e";
        break;
      case '-':
        roff += "\\-";
        break;
      case '\'':
        roff += "\\(aq";
        break;
      case '^':
        roff += "\\(ha";
        break;
      case '~':
        roff += "\\(ti";
        break;
      case '`':
        roff += "\\(ga";
        break;
      default:
        roff += c;
    }
  }
  return roff;
}

std::string RoffSentences(const std::string& text) {
  std::string roff;
  bool is_bold = false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('`', begin), text.size());
    const std::string part = RoffText(text.substr(begin, end - begin));
    roff += is_bold ? "\\fB" + part + "\\fR" : part;
    is_bold = !is_bold;
    begin = end + 1;
  }
  return roff;
}

}  // namespace tern::tools
