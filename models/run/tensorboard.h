// Scalars as a TensorBoard event file: TFRecords, each a length and its bytes with a masked CRC-32C
// of both, that hold Event messages (tensorflow/core/util/event.proto) in protobuf's wire format.
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

// CRC-32C (Castagnoli), as in RFC 3720.
uint32_t crc32c(std::span<const std::byte> bytes);

// Not thread-safe.
class EventWriter {
 public:
  // Makes events.out.tfevents.<seconds>.<name> in the folder, to be read after all that are there.
  // What those hold from `first_step` on counts no more: TensorBoard drops it. Throws Error naming
  // the file.
  EventWriter(const std::string& folder, const std::string& name, int64_t first_step = 0,
              FileSystem& files = file_system());

  // Appends a point of the curve `tag`; on its way to the disk when it returns, or missing where
  // the disk refuses (models/run/record_file.h). Allocates nothing for tags of up to 64 characters.
  void scalar(std::string_view tag, int64_t step, float value);

  const std::string& path() const { return file_.path(); }
  // Of the points that are missing; empty when none are.
  std::string error_summary() const { return file_.error_summary("points"); }

 private:
  RecordFile file_;
};

}  // namespace tessera
