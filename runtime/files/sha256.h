// SHA-256 (FIPS 180-4), computed by libcrypto.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // libcrypto's EVP_MD_CTX

namespace tessera {

// The digest of bytes added in chunks. Throws Error if libcrypto fails, for example out of memory.
class Sha256 {
 public:
  Sha256();
  void add(std::span<const std::byte> bytes);
  std::string digest();  // 64 lower-case digits; ends the computation

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> state_;
};

std::string sha256_of(std::string_view text);

}  // namespace tessera
