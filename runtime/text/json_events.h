// read_json(): JSON as a sequence of events, for untrusted texts. Makes no tree, so memory is only
// used for what the listener stores, and the listener sees duplicate names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// Receives the events. An exception ends the reading.
class JsonListener {
 public:
  virtual ~JsonListener() = default;
  virtual void begin_object() = 0;
  virtual void name(const std::string& name) = 0;  // name of the next value
  virtual void end_object() = 0;
  virtual void begin_list() = 0;
  virtual void end_list() = 0;
  virtual void text(const std::string& text) = 0;
  virtual void whole(uint64_t number) = 0;
  virtual void other(const char* kind) = 0;  // "a fraction", "a negative number", "null", ...
};

// Reads a text. Throws Error naming line and column. Nested lists do not use the stack.
void read_json(std::string_view text, JsonListener& listener);

}  // namespace tessera
