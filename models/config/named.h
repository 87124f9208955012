// A value of an enumeration as configurations hold it: by one of a few names, and checked when it
// is read, so that code behind it switches over the enumeration and compilers name a missing case.
//
//   enum class Mode { kGraph, kEager };
//   const char* name_of(Mode mode);      // a switch without default; nullptr behind the last
//   Named<Mode> mode = Mode::kGraph;
#pragma once

#include <string>
#include <vector>

namespace tessera {

// The names in the order of the enumerators, which count from 0.
template <class E>
const std::vector<std::string>& names_of() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (int i = 0; const char* name = name_of(static_cast<E>(i)); ++i) all.emplace_back(name);
    return all;
  }();
  return names;
}

// Of any enumeration, for code that goes by the names.
class NamedValue {
 public:
  const std::string& text() const { return names_->at(static_cast<size_t>(index_)); }
  // Does nothing for a name that is not known.
  void set(const std::string& name) {
    for (size_t i = 0; i < names_->size(); ++i)
      if ((*names_)[i] == name) index_ = static_cast<int>(i);
  }

 protected:
  NamedValue(int index, const std::vector<std::string>& names) : index_(index), names_(&names) {}
  int index_;

 private:
  const std::vector<std::string>* names_;
};

template <class E>
class Named : public NamedValue {
 public:
  Named(E value) : NamedValue(static_cast<int>(value), names_of<E>()) {}
  operator E() const { return static_cast<E>(index_); }
  friend bool operator==(const Named& a, const Named& b) { return a.index_ == b.index_; }
  friend bool operator==(const Named& a, E b) { return E(a) == b; }
};

}  // namespace tessera
