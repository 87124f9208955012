#include "tessera/models/run/tensorboard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>

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

// A builder of a protobuf message, on the stack.
class Message {
 public:
  static constexpr size_t kMax = 512;
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
  std::string_view text() const { return {data_, size_}; }

 private:
  void put(uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<char>(value | 0x80));
    byte(static_cast<char>(value));
  }
  template <class T>
  void fixed(int field, Wire wire, T value) {
    put(static_cast<uint64_t>(field) << 3 | wire);
    append(&value, sizeof value);
  }
  void byte(char value) { append(&value, 1); }
  void append(const void* from, size_t count) {
    if (count > sizeof data_ - size_) throw Error("tensorboard: a tag is too long");
    std::memcpy(data_ + size_, from, count);
    size_ += count;
  }
  char data_[kMax];
  size_t size_ = 0;
};

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// A message as stored in the file.
class Record {
 public:
  explicit Record(const Message& message) {
    const std::string_view event = message.text();
    const uint64_t length = event.size();
    add(length);
    add(masked_crc({bytes_, sizeof length}));
    std::memcpy(bytes_ + size_, event.data(), event.size());
    size_ += event.size();
    add(masked_crc(event));
  }
  std::string_view text() const { return {bytes_, size_}; }

 private:
  template <class T>
  void add(T value) {
    std::memcpy(bytes_ + size_, &value, sizeof value);
    size_ += sizeof value;
  }
  char bytes_[Message::kMax + 16];
  size_t size_ = 0;
};

// Returns two records: the version, and the step from which points of earlier files are dropped.
std::string head(int64_t first_step) {
  Message version, log, start;
  version.number(kWallTime, now());
  version.bytes(kFileVersion, "brain.Event:2");
  log.varint(kStatus, kStart);
  start.number(kWallTime, now());
  start.varint(kStep, static_cast<uint64_t>(first_step));
  start.bytes(kSessionLog, log.text());
  return std::string(Record(version).text()) + std::string(Record(start).text());
}

constexpr std::string_view kPrefix = "events.out.tfevents.";

// Returns the current second, or the first one after all files of the folder: TensorBoard reads
// files in the order of their names.
int64_t next_second(const std::string& folder) {
  auto second = static_cast<int64_t>(now());
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
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
  file_.append(Record(event).text());
}

}  // namespace tessera
