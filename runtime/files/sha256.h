// SHA-256 (FIPS 180-4), as libcrypto computes it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // libcrypto's EVP_MD_CTX

namespace tessera {

// Of bytes that come in pieces. Throws Error where libcrypto cannot compute it, as where it is
// short of memory.
class Sha256 {
 public:
  Sha256();
  void add(std::span<const std::byte> bytes);
  std::string digest();  // 64 digits in lower case; ends it

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> state_;
};

std::string sha256_of(std::string_view text);

}  // namespace tessera
