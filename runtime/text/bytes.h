// Sizes of memory for people. Units are B, KiB, MiB, GiB and TiB, each 1024 of the one before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

// "85.1 MiB": in the largest unit that leaves at least one, with so many decimals; whole bytes
// without any.
std::string byte_text(int64_t bytes, int decimals = 2);
// "85MiB", "1.2GiB": in at most six characters up to a thousand TiB.
std::string short_byte_text(int64_t bytes);
// "1536MiB": in the largest unit that leaves it whole, as parse_bytes() reads it.
std::string exact_byte_text(int64_t bytes);

struct ParsedBytes {
  std::optional<int64_t> bytes;  // below 2^62; none where the text is no size
  bool is_number = false;        // what stands before the unit
  std::string_view number, unit;
  std::string remark;   // why not, where that needs words: "units are powers of 1024"
  std::string instead;  // what was probably meant: "2GiB"
};

// A number and a unit, spelt as above, without a space: "512MiB", "1.5GiB". Whole bytes. GB and its
// kin are refused: to some they are powers of 1000, to others of 1024.
ParsedBytes parse_bytes(std::string_view text);

}  // namespace tessera
