// Scalars as a TensorBoard event file: TFRecords, each a length and its bytes with a masked CRC-32C
// of both, that hold Event messages (tensorflow/core/util/event.proto) in protobuf's wire format.
//
//   record   length u64 | mask(crc(length)) u32 | event | mask(crc(event)) u32     little-endian
//   mask(c)  ((c >> 15) | (c << 17)) + 0xa282ead8
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// CRC-32C (Castagnoli), as in RFC 3720.
uint32_t crc32c(std::span<const std::byte> bytes);

// Not thread-safe.
class EventWriter {
 public:
  // Makes events.out.tfevents.<seconds>.<name> in the folder, to be read after all that are there.
  // What those hold from `first_step` on counts no more: TensorBoard drops it. Throws Error naming
  // the file.
  EventWriter(const std::string& folder, const std::string& name, int64_t first_step = 0);

  // Appends a point of the curve `tag`; on its way to the disk when it returns. Allocates nothing
  // for tags of up to 64 characters. Throws Error when the disk refuses.
  void scalar(std::string_view tag, int64_t step, float value);

  const std::string& path() const { return path_; }

 private:
  void record(std::string_view event);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

struct EventScalar {
  std::string tag;
  int64_t step = 0;
  float value = 0;
};

// All scalars of an event file, in order. Throws DataError naming the byte where a record is cut
// off or its checksum is wrong.
std::vector<EventScalar> read_events(const std::string& path);

}  // namespace tessera
