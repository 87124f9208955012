// JSON as a sequence of events, for texts that nobody vouches for: no tree is made of them, so they
// take the memory of what the listener keeps, and a name that is given twice is seen.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// What it throws ends the reading.
class JsonListener {
 public:
  virtual ~JsonListener() = default;
  virtual void begin_object() = 0;
  virtual void name(const std::string& name) = 0;  // of the value that follows
  virtual void end_object() = 0;
  virtual void begin_list() = 0;
  virtual void end_list() = 0;
  virtual void text(const std::string& text) = 0;
  virtual void whole(uint64_t number) = 0;
  virtual void other(const char* kind) = 0;  // "a fraction", "a negative number", "null", ...
};

// Throws Error naming line and column. However deep lists stand in lists, the stack is not used.
void read_json(std::string_view text, JsonListener& listener);

}  // namespace tessera
