// Times and durations as text.
#pragma once

#include <chrono>
#include <ctime>
#include <string>

namespace tessera {

// Returns "4:05", "2:04:05", "3 d 2 h", "120 d"; "?" if not finite or negative.
std::string duration_text(double seconds);
// Returns at most five characters: "4:05", "2h04m", "12.5h", "3.1d", ">999d".
std::string short_duration_text(double seconds);

double milliseconds_since(std::chrono::steady_clock::time_point start);
double seconds_since(std::chrono::steady_clock::time_point start);

// Returns "2026-11-22T11:38:30Z" (RFC 3339).
std::string utc_text(std::time_t time);

}  // namespace tessera
