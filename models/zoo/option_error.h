// What a network throws for one of its options that it cannot mean.
#pragma once

#include <string>

#include "tessera/runtime/error.h"

namespace tessera {

class OptionError : public ConfigError {
 public:
  // option: by the name that configurations use, such as "depth".
  OptionError(std::string option, const std::string& text)
      : ConfigError(text), option_(std::move(option)) {}
  const std::string& option() const { return option_; }

 private:
  std::string option_;
};

}  // namespace tessera
