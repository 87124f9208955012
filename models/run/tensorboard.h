// EventWriter: scalars as a TensorBoard event file. Each TFRecord is an Event message
// (tensorflow/core/util/event.proto) in protobuf's wire format, with masked CRC-32Cs:
//
//   record   length u64 | mask(crc(length)) u32 | event | mask(crc(event)) u32     little-endian
//   mask(c)  ((c >> 15) | (c << 17)) + 0xa282ead8
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tessera/models/run/record_file.h"

namespace tessera {

// Returns the CRC-32C (Castagnoli), as in RFC 3720.
uint32_t crc32c(std::span<const std::byte> bytes);

// Not thread-safe.
class EventWriter {
 public:
  // Creates events.out.tfevents.<seconds>.<name> in the folder. TensorBoard reads it after all
  // existing event files and drops their points from `first_step` on. Throws Error naming the file.
  EventWriter(const std::string& folder, const std::string& name, int64_t first_step = 0,
              FileSystem& files = file_system());

  // Appends a point of the curve `tag`. The point is in the file on return; if writing fails, the
  // point is missing (models/run/record_file.h). Allocates nothing for tags of up to 64 characters.
  void scalar(std::string_view tag, int64_t step, float value);

  const std::string& path() const { return file_.path(); }
  // Returns a line about the missing points; "" if none.
  std::string error_summary() const { return file_.error_summary("points"); }

 private:
  RecordFile file_;
};

}  // namespace tessera
