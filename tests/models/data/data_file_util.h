// Temporary folders and small data files for the tests of data formats.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include "tessera/models/data/images/picture_reader.h"
#include "tessera/runtime/error.h"

namespace tessera::testing {

using Bytes = std::vector<uint8_t>;

class TempFolder {
 public:
  TempFolder() {
    static std::atomic<int> made = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("tessera_data_" + std::to_string(getpid()) + "_" + std::to_string(made++));
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }

  std::string path(const std::string& name = "") const { return (path_ / name).string(); }

  std::string write(const std::string& name, const Bytes& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

// A whole upright picture: [height x width x 3].
struct Pixels {
  int height = 0, width = 0;
  Bytes rgb;
};
inline Pixels load_picture(const std::string& path, const PictureLimits& limits = {}) {
  Pixels whole;
  read_regular_file(path, limits.file_bytes, whole.rgb);
  const Picture picture = probe_picture(whole.rgb, path, limits);
  const ImageShape shape{picture.shown_height(), picture.shown_width(), 3};
  whole = {shape.height, shape.width, Bytes(static_cast<size_t>(shape.bytes()))};
  PictureReader().read_middle(path, shape, 0, whole.rgb.data(), limits);
  return whole;
}

inline Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&stream, bytes.size()));
  stream.next_in = const_cast<uint8_t*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Runs fn; expects an exception of type E whose text contains every part.
template <class E>
void expect_error(const std::function<void()>& fn, const std::vector<std::string>& parts) {
  try {
    fn();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const E& error) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.what();
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
  }
}

}  // namespace tessera::testing
