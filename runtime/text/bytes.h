// Memory sizes as text. Units are B, KiB, MiB, GiB and TiB, each 1024 of the one before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

// Returns "85.1 MiB": in the largest unit that leaves at least one, with this number of decimals;
// whole bytes have none.
std::string byte_text(int64_t bytes, int decimals = 2);
// Returns "85MiB", "1.2GiB": at most six characters up to a thousand TiB.
std::string short_byte_text(int64_t bytes);
// Returns "1536MiB": in the largest unit that leaves an integer, for parse_bytes().
std::string exact_byte_text(int64_t bytes);

struct ParsedBytes {
  std::optional<int64_t> bytes;  // below 2^62; unset if the text is no size
  bool is_number = false;        // true if the part before the unit is a number
  std::string_view number, unit;
  std::string remark;   // reason, if needed: "units are powers of 1024"
  std::string instead;  // suggestion: "2GiB"
};

// Parses a number and one of the units above without a space: "512MiB", "1.5GiB". The result is in
// whole bytes. Refuses GB and the like, which may mean powers of 1000 or of 1024.
ParsedBytes parse_bytes(std::string_view text);

}  // namespace tessera
