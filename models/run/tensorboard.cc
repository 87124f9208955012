#include "tessera/models/run/tensorboard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Field numbers of the messages Event, Summary, Summary.Value and SessionLog.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kSummaryValue = 1, kTag = 1, kSimpleValue = 2;
constexpr int kStatus = 1, kStart = 1;

enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0);
    table[i] = value;
  }
  return table;
}
constexpr auto kTable = make_table();

uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return std::rotr(crc, 15) + 0xa282ead8u;
}

// A builder of a protobuf message or of a record, on the stack.
class Message {
 public:
  void varint(int field, uint64_t value) {
    put(static_cast<uint64_t>(field) << 3 | kVarint), put(value);
  }
  void number(int field, double value) { fixed(field, kFixed64, value); }
  void number(int field, float value) { fixed(field, kFixed32, value); }
  void bytes(int field, std::string_view value) {
    put(static_cast<uint64_t>(field) << 3 | kBytes);
    put(value.size());
    append(value.data(), value.size());
  }
  template <class T>
  void value(T value) {
    append(&value, sizeof value);
  }
  void append(const void* from, size_t count) {
    if (count > sizeof data_ - size_) throw Error("tensorboard: a tag is too long");
    std::memcpy(data_ + size_, from, count);
    size_ += count;
  }
  std::string_view text() const { return {data_, size_}; }

 private:
  void put(uint64_t value) {
    for (; value >= 0x80; value >>= 7) this->value(static_cast<char>(value | 0x80));
    this->value(static_cast<char>(value));
  }
  template <class T>
  void fixed(int field, Wire wire, T value) {
    put(static_cast<uint64_t>(field) << 3 | wire);
    this->value(value);
  }
  char data_[528];
  size_t size_ = 0;
};

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Returns the message as stored in the file.
Message record_of(const Message& message) {
  const std::string_view event = message.text();
  Message record;
  record.value(static_cast<uint64_t>(event.size()));
  record.value(masked_crc(record.text()));
  record.append(event.data(), event.size());
  record.value(masked_crc(event));
  return record;
}

// Returns two records: the version, and the step from which points of earlier files are dropped.
std::string head(int64_t first_step) {
  Message version, log, start;
  version.number(kWallTime, now());
  version.bytes(kFileVersion, "brain.Event:2");
  log.varint(kStatus, kStart);
  start.number(kWallTime, now());
  start.varint(kStep, static_cast<uint64_t>(first_step));
  start.bytes(kSessionLog, log.text());
  return std::string(record_of(version).text()).append(record_of(start).text());
}

constexpr std::string_view kPrefix = "events.out.tfevents.";

// Returns the current second, or the first one after all files of the folder: TensorBoard reads
// files in the order of their names.
int64_t next_second(const std::string& folder) {
  auto second = static_cast<int64_t>(now());
  for (const std::string& name : names_in(folder)) {
    int64_t taken = 0;
    if (!name.starts_with(kPrefix)) continue;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), taken);
    if (taken < int64_t{9'999'999'999}) second = std::max(second, taken + 1);
  }
  return second;
}

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  for (std::byte b : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint32_t>(b)) & 0xff];
  return ~crc;
}

EventWriter::EventWriter(const std::string& folder, const std::string& name, int64_t first_step,
                         FileSystem& files)
    : file_(files, fmt::format("{}/{}{:010}.{}", folder, kPrefix, next_second(folder), name),
            head(first_step)) {}

void EventWriter::scalar(std::string_view tag, int64_t step, float value) {
  Message point, summary, event;
  point.bytes(kTag, tag);
  point.number(kSimpleValue, value);
  summary.bytes(kSummaryValue, point.text());
  event.number(kWallTime, now());
  event.varint(kStep, static_cast<uint64_t>(step));
  event.bytes(kSummary, summary.text());
  file_.append(record_of(event).text());
}

}  // namespace tessera
