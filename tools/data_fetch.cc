#include "tessera/tools/data_fetch.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// Of one mirror and file. What does not bring the file on by a thousandth is fruitless, so that the
// requests are bounded whatever a server does.
constexpr int kMostFruitless = 5;
constexpr int64_t kLeastPart = 1000;
constexpr std::chrono::milliseconds kFirstWait{100}, kLongestWait{2000};

const std::vector<FetchSet>& known_sets() {
  static const std::vector<FetchSet> sets = {
      {"mnist",
       {"https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/"},
       {{"train-images-idx3-ubyte.gz",
         "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9912422},
        {"train-labels-idx1-ubyte.gz",
         "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28881},
        {"t10k-images-idx3-ubyte.gz",
         "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1648877},
        {"t10k-labels-idx1-ubyte.gz",
         "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4542}},
       {}},
      {"fashion_mnist",
       {"https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
       {{"train-images-idx3-ubyte.gz",
         "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", 26421880},
        {"train-labels-idx1-ubyte.gz",
         "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", 29515},
        {"t10k-images-idx3-ubyte.gz",
         "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", 4422102},
        {"t10k-labels-idx1-ubyte.gz",
         "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", 5148}},
       {}},
      {"cifar10",
       {"https://www.cs.toronto.edu/~kriz/"},
       {{"cifar-10-binary.tar.gz",
         "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", 170052171}},
       {"cifar-10-batches-bin/data_batch_1.bin", "cifar-10-batches-bin/data_batch_2.bin",
        "cifar-10-batches-bin/data_batch_3.bin", "cifar-10-batches-bin/data_batch_4.bin",
        "cifar-10-batches-bin/data_batch_5.bin", "cifar-10-batches-bin/test_batch.bin"}},
      {"cifar100",
       {"https://www.cs.toronto.edu/~kriz/"},
       {{"cifar-100-binary.tar.gz",
         "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec", 168513733}},
       {"cifar-100-binary/train.bin", "cifar-100-binary/test.bin",
        "cifar-100-binary/fine_label_names.txt", "cifar-100-binary/coarse_label_names.txt"}},
  };
  return sets;
}

// In lower-case hexadecimal.
std::string sha256_of(const std::string& path) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> sum(EVP_MD_CTX_new(),
                                                                    EVP_MD_CTX_free);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  std::vector<char> bytes(1 << 16);
  std::ifstream in(path, std::ios::binary);
  bool good = sum && EVP_DigestInit_ex(sum.get(), EVP_sha256(), nullptr) == 1;
  while (good && in) {
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    good = EVP_DigestUpdate(sum.get(), bytes.data(), static_cast<size_t>(in.gcount())) == 1;
  }
  if (!good || EVP_DigestFinal_ex(sum.get(), digest.data(), &size) != 1)
    throw Error("libcrypto cannot compute a SHA-256");
  return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + size, ""));
}

bool holds(const std::string& path, const FetchFile& expected) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  try {
    verify_file(path, expected);
    return true;
  } catch (const DataError&) {
    return false;
  }
}

int64_t size_of(const std::string& path) {
  std::error_code error;
  auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

// Asks one mirror until the part has all bytes. "" or what went wrong.
std::string complete(const std::string& url, const std::string& part, const FetchFile& file,
                     const FetchProgress& progress) {
  std::function<void(int64_t)> there;
  if (progress) there = [&](int64_t bytes) { progress(file, bytes); };
  int64_t furthest = size_of(part);
  auto wait = kFirstWait;
  for (int fruitless = 0; furthest < file.bytes;) {
    const Download done = download(url, part, file.bytes, there);
    if (done.why.empty()) break;
    if (size_of(part) < furthest + std::max<int64_t>(1, file.bytes / kLeastPart)) {
      ++fruitless;
    } else {
      wait = kFirstWait;
    }
    furthest = std::max(furthest, size_of(part));
    if (!done.may_pass || fruitless == kMostFruitless) return done.why;
    std::this_thread::sleep_for(wait);
    wait = std::min(2 * wait, kLongestWait);
  }
  return "";
}

// From one mirror into PATH.part, which becomes `path` when it is right. "" or what went wrong.
std::string fetch_from(const std::string& url, const std::string& path, const FetchFile& file,
                       const FetchProgress& progress) {
  const std::string part = path + ".part";
  if (size_of(part) > file.bytes) fs::remove(part);
  const bool resumed = size_of(part) > 0;
  std::string why = complete(url, part, file, progress);
  if (!why.empty()) return why;
  try {
    verify_file(part, file);
  } catch (const DataError& error) {
    fs::remove(part);
    // What lay there before may have been wrong: once more from the first byte.
    if (resumed) return fetch_from(url, path, file, progress);
    return error.what();
  }
  fs::rename(part, path);
  return "";
}

void fetch_file(const FetchSet& set, const FetchFile& file, const std::string& root,
                const std::string& from, const std::function<void(const std::string&)>& say,
                const FetchProgress& progress) {
  const std::string path = (fs::path(root) / file.name).string();
  if (holds(path, file)) return say(fmt::format("{}: is there", path));
  if (!from.empty() && from.find("://") == std::string::npos) {
    const std::string source = (fs::path(from) / file.name).string();
    verify_file(source, file);
    if (fs::exists(path) && fs::equivalent(source, path)) return;
    fs::copy_file(source, path + ".part", fs::copy_options::overwrite_existing);
    fs::rename(path + ".part", path);
    return say(fmt::format("{}: copied from {}", path, source));
  }
  std::vector<std::string> mirrors = set.mirrors;
  if (!from.empty()) mirrors = {from.ends_with('/') ? from : from + "/"};
  std::string tried;
  for (const std::string& mirror : mirrors) {
    say(fmt::format("{}: {:.1f} MiB from {}", file.name,
                    static_cast<double>(file.bytes) / (1 << 20), mirror));
    std::string why = fetch_from(mirror + file.name, path, file, progress);
    if (why.empty()) return say(fmt::format("{}: SHA-256 is right", path));
    tried += fmt::format("\n  {}{}: {}", mirror, file.name, why);
  }
  throw DataError(
      fmt::format("data fetch {}: no source has {}; tried{}\n  get it in another way "
                  "and give its folder with --from",
                  set.name, file.name, tried));
}

}  // namespace

FetchSet known_set(const std::string& name) {
  std::string wanted = name, names;
  std::replace(wanted.begin(), wanted.end(), '-', '_');
  for (const FetchSet& set : known_sets()) {
    if (set.name == wanted) return set;
    names += (names.empty() ? "" : ", ") + set.name;
  }
  throw ConfigError(fmt::format("data fetch: '{}' is not known; known are {}", name, names));
}

std::vector<FetchFile> read_manifest(const std::string& path) {
  std::ifstream in(path);
  std::vector<FetchFile> files;
  FetchFile file;
  while (in >> file.sha256 >> file.bytes >> file.name) {
    bool plain = file.name.find('/') == std::string::npos && file.name[0] != '.';
    if (file.sha256.size() != 64 || file.bytes < 1 || !plain) {
      files.clear();
      break;
    }
    files.push_back(file);
  }
  if (files.empty() || !in.eof())
    throw ConfigError(path + ": must have lines 'SHA256 BYTES NAME', the name without folders");
  return files;
}

void verify_file(const std::string& path, const FetchFile& expected) {
  std::error_code error;
  int64_t size = static_cast<int64_t>(fs::file_size(path, error));
  if (error) throw DataError(fmt::format("{}: {}", path, error.message()));
  if (size != expected.bytes)
    throw DataError(
        fmt::format("{}: has {} bytes, the published file {}", path, size, expected.bytes));
  const std::string hex = sha256_of(path);
  if (hex != expected.sha256)
    throw DataError(fmt::format("{}: is not the published file: its SHA-256 is {}, not {}", path,
                                hex, expected.sha256));
}

void fetch(const FetchSet& set, const std::string& root, const std::string& from,
           const std::function<void(const std::string&)>& say, const FetchProgress& progress) try {
  fs::create_directories(root);
  for (const FetchFile& file : set.files) {
    bool archive = file.name.ends_with(".tar.gz");
    fetch_file(set, file, root, from, say, progress);
    if (!archive) continue;
    unpack((fs::path(root) / file.name).string(), set.members, root);
    say(fmt::format("{}: {} files unpacked", root, set.members.size()));
  }
} catch (const fs::filesystem_error& error) {
  throw DataError(fmt::format("data fetch {}: {}", set.name, error.what()));
}

}  // namespace tessera
