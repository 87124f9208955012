#include "tessera/runtime/error.h"

#include <algorithm>

namespace tessera {

void Error::locate(std::string_view module_path, std::string_view op) {
  if (located_) return;
  located_ = !module_path.empty() || !op.empty();
  const std::string text = what();
  const std::string place = module_path.empty() ? "" : " at " + std::string(module_path);
  const std::string_view head = std::string_view(text).substr(0, text.find(": "));
  // A name, as ops have it; not "cpu:0" or a sentence.
  const bool names_op =
      head.size() < text.size() && std::all_of(head.begin(), head.end(), [](unsigned char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
      });
  std::string located = text;
  if (names_op) {
    located.insert(head.size(), place);
  } else if (!op.empty()) {
    located = std::string(op) + place + ": " + text;
  } else if (!place.empty()) {
    located = place.substr(1) + ": " + text;
  }
  std::runtime_error::operator=(std::runtime_error(located));
}

void Error::append(std::string_view more) {
  std::runtime_error::operator=(std::runtime_error(what() + std::string(more)));
}

}  // namespace tessera
