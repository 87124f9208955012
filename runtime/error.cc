#include "tessera/runtime/error.h"

#include <algorithm>

namespace tessera {

std::string op_at(std::string_view op, std::string_view module_path) {
  std::string text(op);
  if (!module_path.empty()) text.append(" at ").append(module_path);
  return text;
}

void Error::locate(std::string_view module_path, std::string_view op) {
  if (located_) return;
  located_ = !module_path.empty() || !op.empty();
  const std::string text = what();
  const std::string_view head = std::string_view(text).substr(0, text.find(": "));
  // True for a name like those of ops; false for "cpu:0" or a sentence.
  const bool names_op =
      head.size() < text.size() && std::all_of(head.begin(), head.end(), [](unsigned char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
      });
  std::string located = text;
  if (names_op) {
    located.replace(0, head.size(), op_at(head, module_path));
  } else if (!op.empty()) {
    located = op_at(op, module_path) + ": " + text;
  } else if (!module_path.empty()) {
    located = "at " + std::string(module_path) + ": " + text;
  }
  std::runtime_error::operator=(std::runtime_error(located));
}

void Error::append(std::string_view more) {
  std::runtime_error::operator=(std::runtime_error(what() + std::string(more)));
}

}  // namespace tessera
