// Text in HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// Returns the text with '<', '>', '&' and '"' as entities, for use between tags and in attributes;
// drops the control characters that XML forbids.
std::string html_escaped(std::string_view text);

}  // namespace tessera
