// NamedEnum: an enumeration value that a configuration gives by name. The name is checked when it
// is read. Later code switches over the enumeration, so that compilers report a missing case.
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

// The names of the values of E, in order. The values count from 0.
template <class E>
inline constexpr auto kEnumNames = nullptr;

// Returns the names for kEnumNames<E>: one for each value up to kLast.
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

// A value of any enumeration, for code that uses only names.
class NamedEnumValue {
 public:
  const std::string& text() const { return names_->at(static_cast<size_t>(index_)); }
  // Does nothing for an unknown name.
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
