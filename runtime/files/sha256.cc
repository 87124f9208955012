#include "tessera/runtime/files/sha256.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

void require(bool good) {
  if (!good) throw Error("libcrypto cannot compute a SHA-256");
}

}  // namespace

Sha256::Sha256() : state_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  require(state_ && EVP_DigestInit_ex(state_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::add(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(state_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::digest() {
  unsigned char bytes[32];
  require(EVP_DigestFinal_ex(state_.get(), bytes, nullptr) == 1);
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::string sha256_of(std::string_view text) {
  Sha256 sum;
  sum.add(std::as_bytes(std::span(text)));
  return sum.digest();
}

}  // namespace tessera
