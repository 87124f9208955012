#include "tessera/runtime/files/sha256.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

// NIST's examples for FIPS 180-4.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, OfPiecesIsThatOfTheWhole) {
  const std::string text(1000, 'b');
  for (const size_t piece : {1, 63, 64, 65, 999}) {
    Sha256 sum;
    for (size_t at = 0; at < text.size(); at += piece)
      sum.add(std::as_bytes(std::span(text)).subspan(at, std::min(piece, text.size() - at)));
    EXPECT_EQ(sum.digest(), sha256_of(text)) << "pieces of " << piece;
  }
}

}  // namespace
}  // namespace tessera
