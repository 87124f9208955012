// Lists of objects that are chosen by name: planners, recomputation strategies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Returns the addresses of objects of a derived class.
template <class Named, class Derived, size_t N>
std::vector<const Named*> pointers_to(const Derived (&objects)[N]) {
  std::vector<const Named*> all;
  for (const Named& one : objects) all.push_back(&one);
  return all;
}

// Returns the object of that name, or nullptr.
template <class Named>
const Named* find_by_name(const std::vector<const Named*>& all, std::string_view name) {
  for (const Named* one : all)
    if (one->name() == name) return one;
  return nullptr;
}

// Returns false, and adds nothing, if the name is already registered.
template <class Named>
bool add_by_name(std::vector<const Named*>& all, const Named& one) {
  if (find_by_name(all, one.name()) != nullptr) return false;
  all.push_back(&one);
  return true;
}

// Returns "none, best, ...", for error messages.
template <class Named>
std::string names_in_order(const std::vector<const Named*>& all) {
  std::string names;
  for (const Named* one : all) {
    if (!names.empty()) names += ", ";
    names += one->name();
  }
  return names;
}

}  // namespace tessera
