// A folder with any bytes as a picture next to a file of any name is refused with a DataError, or
// is a data set whose pictures can be read, whole and in parts, unless the file changes. If it
// changes, the file is refused or read within its bounds.
//
//   byte 0     bit 0 skip damaged pictures; bit 1 change the file after the data set is opened;
//              bits 2 and 3 its name
//   byte 1     the side that pictures are resized to, 1 to 32
//   bytes 2-5  the part that is read: y, x, height, width, of 256
//   byte 6     length of the other file's name, to 15
//   bytes 7-8  length of the picture before it changes, if it does
//   then       the other file's name; the picture
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <stdlib.h>

#include "tessera/models/data/sets/image_folder.h"
#include "tessera/runtime/error.h"

namespace {

namespace fs = std::filesystem;
using Bytes = std::pair<const uint8_t*, size_t>;

// A folder with train/a, and val as a link to train.
class Root {
 public:
  Root() {
    std::string root = (fs::temp_directory_path() / "tessera_fuzz_XXXXXX").string();
    if (mkdtemp(root.data()) == nullptr) std::abort();
    root_ = root;
    fs::create_directories(root_ / "train" / "a");
    fs::create_directory_symlink("train", root_ / "val");
  }
  ~Root() { fs::remove_all(root_); }
  std::string path() const { return root_.string(); }
  void clear() {
    for (const auto& entry : fs::directory_iterator(root_ / "train" / "a")) fs::remove(entry);
  }
  void write(const std::string& name, Bytes bytes) const {
    std::ofstream file(root_ / "train" / "a" / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.first), static_cast<long>(bytes.second));
    if (!file.flush()) std::abort();
  }

 private:
  fs::path root_;
};

bool is_text(const std::string& text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 32 && c != '\n'; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tessera;
  static Root root;
  constexpr size_t kHead = 9;
  if (size < kHead) return 0;
  const size_t name_bytes = std::min<size_t>(bytes[6] & 15, size - kHead);
  const Bytes rest{bytes + kHead + name_bytes, size - kHead - name_bytes};
  const bool changes = (bytes[0] & 2) != 0;
  const size_t first = changes ? std::min<size_t>(bytes[7] * 256u + bytes[8], rest.second)  //
                               : rest.second;
  constexpr std::array kNames = {"b.jpg", "b.png", "b.JPEG", "b.gif"};
  const std::string name = kNames[bytes[0] >> 2 & 3];
  std::string other = "c";
  for (size_t i = 0; i < name_bytes; ++i) {
    const char c = static_cast<char>(bytes[kHead + i]);
    other += c == '/' || c == '\0' ? '.' : c;
  }
  root.clear();
  root.write(other, {nullptr, 0});
  root.write(name, {rest.first, first});
  ImageFolderOptions options;
  options.size = 1 + bytes[1] % 32;
  options.damaged = (bytes[0] & 1) != 0 ? Damaged::kSkip : Damaged::kError;
  options.readers = 1;
  options.limits = {.pixels = 1 << 14, .file_bytes = 1 << 20, .scans = 8};
  try {
    const DataSplit split = open_image_folder(root.path(), options);
    const Dataset& data = *split.train;
    for (const std::string& note : data.notes())
      if (!is_text(note)) std::abort();
    if (data.count() != split.test->count()) std::abort();
    if (changes) root.write(name, {rest.first + first, rest.second - first});
    std::vector<uint8_t> image(static_cast<size_t>(data.shape().bytes()));
    const ImageShape own = data.own_shape(0);
    const auto part = [&](int i, int side) { return bytes[i] * side / 256; };
    const Box box{part(2, own.height), part(3, own.width), 1 + part(4, own.height),
                  1 + part(5, own.width)};
    const Box inside{box.y, box.x, std::min(box.height, own.height - box.y),
                     std::min(box.width, own.width - box.x)};
    const bool sound = options.damaged == Damaged::kSkip && !changes;
    try {
      data.read(0, image.data());
      data.read_part(0, inside, data.shape(), image.data());
    } catch (const DataError&) {
      if (sound) std::abort();  // it was decoded when the data set was opened
    }
  } catch (const DataError& error) {
    if (!is_text(error.what())) std::abort();
  }
  return 0;
}
