// Inputs of the golden cases, computed from a formula instead of stored. `formula.py` computes the
// same bits in Python; four short samples under `formula/` in `ops.h5` prove it.
//
//   hash(name, i) = splitmix64(fnv1a64(name) + i)            i: flat index, row-major
//   uniform[i]    = float32(scale * (2 u - 1)) + float32(offset),  u = (hash >> 11) * 2^-53
//   integers[i]   = hash mod bound
//
// A tensor is named by a spec, one string without spaces:
//   "uniform:NAME:SCALE:OFFSET:SHAPE"    float values "uniform:conv2d/plain/in0:1.0:0.0:2x5x5x3"
//   "integers:NAME:BOUND:SHAPE"          labels, bytes    "integers:cross_entropy/plain/in1:7:6"
// SHAPE is extents joined by 'x'; "scalar" has no extents and one element.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::golden {

// Returns the 64-bit FNV-1a hash of the bytes of `text`.
inline std::uint64_t fnv1a64(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Returns one output of the SplitMix64 generator (Steele, Lea, Flood 2014) with state `x`.
inline std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Returns `count` floats within `scale` of `offset`.
inline std::vector<float> uniform(std::string_view name, std::int64_t count, double scale,
                                  double offset = 0) {
  const std::uint64_t seed = fnv1a64(name);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double u = static_cast<double>(splitmix64(seed + i) >> 11) * 0x1p-53;
    const float centred = static_cast<float>(scale * (2 * u - 1));
    values[i] = centred + static_cast<float>(offset);
  }
  return values;
}

// Returns `count` integers in [0, bound).
inline std::vector<std::int64_t> integers(std::string_view name, std::int64_t count,
                                          std::int64_t bound) {
  const std::uint64_t seed = fnv1a64(name);
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int64_t>(splitmix64(seed + i) % static_cast<std::uint64_t>(bound));
  return values;
}

// A parsed spec. A uniform spec sets scale and offset, an integer spec sets bound.
struct Spec {
  bool is_integer = false;
  std::string name;
  double scale = 0;
  double offset = 0;
  std::int64_t bound = 0;
  std::vector<std::int64_t> shape;

  std::int64_t count() const {
    std::int64_t product = 1;
    for (std::int64_t extent : shape) product *= extent;
    return product;
  }
};

// Returns the extents of "2x5x3"; none for "scalar". Throws std::invalid_argument for other texts.
inline std::vector<std::int64_t> parse_extents(const std::string& text) {
  std::vector<std::int64_t> shape;
  if (text == "scalar") return shape;
  const char* at = text.c_str();
  do {
    char* end = nullptr;
    shape.push_back(std::strtoll(at, &end, 10));
    if (end == at || (*end != 'x' && *end != '\0'))
      throw std::invalid_argument("golden: not a shape: " + text);
    at = *end == 'x' ? end + 1 : end;
  } while (*at != '\0');
  return shape;
}

// Throws std::invalid_argument for anything but the two forms above.
inline Spec parse_spec(std::string_view text) {
  std::vector<std::string> fields(1);
  for (char c : text) {
    if (c == ':')
      fields.emplace_back();
    else
      fields.back().push_back(c);
  }
  Spec spec;
  spec.is_integer = fields.size() == 4 && fields[0] == "integers";
  if (!spec.is_integer && (fields.size() != 5 || fields[0] != "uniform"))
    throw std::invalid_argument("golden: not a tensor spec: " + std::string(text));
  spec.name = fields[1];
  spec.shape = parse_extents(fields.back());
  if (spec.is_integer) {
    spec.bound = std::strtoll(fields[2].c_str(), nullptr, 10);
  } else {
    spec.scale = std::strtod(fields[2].c_str(), nullptr);
    spec.offset = std::strtod(fields[3].c_str(), nullptr);
  }
  return spec;
}

// Returns the elements of a "uniform" spec.
inline std::vector<float> floats(const Spec& spec) {
  return uniform(spec.name, spec.count(), spec.scale, spec.offset);
}

// Returns the elements of an "integers" spec.
inline std::vector<std::int64_t> integers(const Spec& spec) {
  return integers(spec.name, spec.count(), spec.bound);
}

}  // namespace tessera::golden
