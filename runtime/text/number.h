// Numbers as people write them: decimal and unambiguous.
#pragma once

#include <string>
#include <string_view>
#include <system_error>

namespace tessera {

// Parses the whole text like std::from_chars, but returns invalid_argument for a leading zero (010)
// and for a double that is not finite; result_out_of_range if T cannot hold the value. T: int,
// int64_t, uint64_t, double.
template <class T>
std::errc parse_number(std::string_view text, T& value);

// Returns a loss with four decimals, or fewer digits if large: "0.5213", "12345.7", "1.235e+24";
// "nan" without a sign.
std::string loss_text(double loss);

// Splits "15ep" or "15 ep" into the number, which may be empty, and the rest.
struct Quantity {
  std::string_view number, unit;
};
Quantity split_unit(std::string_view text);

}  // namespace tessera
