// A value of an enumeration as configurations hold it: by one of a few names, and checked when it
// is read, so that code behind it switches over the enumeration and compilers name a missing case.
//
//   enum class Mode { kGraph, kEager };
//   template <>
//   inline constexpr auto kEnumNames<Mode> = enum_names<Mode::kEager>("graph", "eager");
//   NamedEnum<Mode> mode = Mode::kGraph;
#pragma once

#include <array>
#include <string>
#include <vector>

namespace tessera {

// The names of an enumeration's values, which count from 0, in their order.
template <class E>
inline constexpr auto kEnumNames = nullptr;

// Returns them as kEnumNames<E> holds them: as many as there are values up to kLast.
template <auto kLast, class... Texts>
constexpr auto enum_names(Texts... texts) {
  static_assert(sizeof...(Texts) == static_cast<size_t>(kLast) + 1, "a name for each value");
  return std::array<const char*, sizeof...(Texts)>{texts...};
}

template <class E>
requires requires { kEnumNames<E>.size(); }
constexpr const char* name_of(E value) { return kEnumNames<E>.at(static_cast<size_t>(value)); }

template <class E>
const std::vector<std::string>& names_of() {
  static const std::vector<std::string> all(kEnumNames<E>.begin(), kEnumNames<E>.end());
  return all;
}

// A value of any enumeration, for code that goes by the names.
class NamedEnumValue {
 public:
  const std::string& text() const { return names_->at(static_cast<size_t>(index_)); }
  // Does nothing for a name that is not known.
  void set(const std::string& name) {
    for (size_t i = 0; i < names_->size(); ++i)
      if ((*names_)[i] == name) index_ = static_cast<int>(i);
  }

 protected:
  NamedEnumValue(int index, const std::vector<std::string>& names)
      : index_(index), names_(&names) {}
  int index_;

 private:
  const std::vector<std::string>* names_;
};

template <class E>
class NamedEnum : public NamedEnumValue {
 public:
  NamedEnum(E value) : NamedEnumValue(static_cast<int>(value), names_of<E>()) {}
  operator E() const { return static_cast<E>(index_); }
  friend bool operator==(const NamedEnum& a, const NamedEnum& b) { return a.index_ == b.index_; }
  friend bool operator==(const NamedEnum& a, E b) { return E(a) == b; }
};

}  // namespace tessera
