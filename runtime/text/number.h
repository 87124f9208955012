// Numbers as people write them: decimal, and only what everybody reads alike.
#pragma once

#include <string>
#include <string_view>
#include <system_error>

namespace tessera {

// Reads all of the text, as std::from_chars does, but neither a leading zero (010) nor, as a
// double, what is not finite: invalid_argument. result_out_of_range where T cannot hold it. T: int,
// int64_t, uint64_t, double.
template <class T>
std::errc parse_number(std::string_view text, T& value);

// A loss with four decimals; one that is large in fewer characters: "0.5213", "12345.7",
// "1.235e+24"; "nan" without a sign.
std::string loss_text(double loss);

// "15ep" or "15 ep": the number, which may be none, and what follows it.
struct Quantity {
  std::string_view number, unit;
};
Quantity split_unit(std::string_view text);

}  // namespace tessera
