// Reads TensorBoard event files back (models/run/tensorboard.h has their format).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tessera/models/run/tensorboard.h"
#include "tessera/runtime/error.h"

namespace tessera {

struct EventScalar {
  std::string tag;
  int64_t step = 0;
  float value = 0;
};

// Iterates over the fields of a message; next() returns false at its end or if it is malformed.
class EventFields {
 public:
  explicit EventFields(std::string_view rest) : rest_(rest) {}
  bool next() {
    const std::optional<uint64_t> key = varint();
    if (!key) return false;
    field = static_cast<int>(*key >> 3);
    uint64_t count = 0;
    switch (*key & 7) {  // the wire type
      case 0: {
        const auto given = varint();
        value = given.value_or(0);
        return given.has_value();
      }
      case 1:
        count = 8;
        break;
      case 5:
        count = 4;
        break;
      case 2: {
        const auto given = varint();
        if (!given) return false;
        count = *given;
        break;
      }
      default:
        return false;
    }
    if (count > rest_.size()) return false;
    bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return true;
  }
  int field = 0;
  uint64_t value = 0;
  std::string_view bytes;

 private:
  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (size_t i = 0; i < rest_.size() && i < 10; ++i) {
      value |= static_cast<uint64_t>(rest_[i] & 0x7f) << (7 * i);
      if (rest_[i] & 0x80) continue;
      rest_.remove_prefix(i + 1);
      return value;
    }
    return std::nullopt;
  }
  std::string_view rest_;
};

// Appends the scalars of an Event: field 2 is the step, 5 the summary. Field 1 of a summary is a
// value; field 1 of a value is its tag, 2 its number.
inline void add_scalars(std::string_view event, std::vector<EventScalar>& scalars) {
  int64_t step = 0;
  for (EventFields outer(event); outer.next();) {
    if (outer.field == 2) step = static_cast<int64_t>(outer.value);
    if (outer.field != 5) continue;
    for (EventFields summary(outer.bytes); summary.next();) {
      if (summary.field != 1) continue;
      EventScalar scalar{"", step, 0};
      for (EventFields value(summary.bytes); value.next();) {
        if (value.field == 1) scalar.tag = value.bytes;
        if (value.field == 2 && value.bytes.size() == sizeof(float))
          std::memcpy(&scalar.value, value.bytes.data(), sizeof(float));
      }
      scalars.push_back(scalar);
    }
  }
}

template <class T>
T event_number(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

inline uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(std::as_bytes(std::span(bytes))), 15) + 0xa282ead8u;
}

// Returns all scalars of an event file, in order. Throws DataError with the byte offset of a record
// that is cut off or has a wrong checksum.
inline std::vector<EventScalar> read_events(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || in.bad()) throw DataError(fmt::format("{}: cannot be read", path));
  const std::string bytes = text.str();
  std::vector<EventScalar> scalars;
  constexpr size_t kHead = 12, kTail = 4;
  for (size_t at = 0; at < bytes.size();) {
    const auto fail = [&](const char* what) {
      return DataError(fmt::format("{}: the record at byte {} {}", path, at, what));
    };
    const size_t left = bytes.size() - at;
    if (left < kHead + kTail) throw fail("is cut off");
    const auto length = event_number<uint64_t>(bytes, at);
    const auto view = std::string_view(bytes).substr(at);
    if (masked_crc32c(view.substr(0, 8)) != event_number<uint32_t>(bytes, at + 8))
      throw fail("has a wrong checksum of its length");
    if (length > left - kHead - kTail) throw fail("is cut off");
    const auto event = view.substr(kHead, length);
    if (masked_crc32c(event) != event_number<uint32_t>(bytes, at + kHead + length))
      throw fail("has a wrong checksum");
    add_scalars(event, scalars);
    at += kHead + length + kTail;
  }
  return scalars;
}

}  // namespace tessera
