// Text within HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// With '<', '>', '&' and '"' as entities, so that it may stand between tags and in an attribute;
// without the control characters that XML forbids.
std::string html_escaped(std::string_view text);

}  // namespace tessera
