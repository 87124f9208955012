#include "tessera/layers/shared/checks.h"

#include <utility>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

InputCheck::InputCheck(std::string_view op, SpecView in, std::vector<const char*> names)
    : op_(op), in_(in), names_(std::move(names)) {
  if (in.size() != names_.size()) {
    throw ShapeError(fmt::format("{}: needs {} inputs ({}), but got {}", op, names_.size(),
                                 fmt::join(names_, ", "), in.size()));
  }
}

void InputCheck::rank(int input, int rank) const {
  const int has = in_[input].shape.rank();
  if (has != rank) fail(fmt::format("{} must have {} axes, but has {}", names_[input], rank, has));
}

void InputCheck::dtype(int input, DType dtype) const {
  if (in_[input].dtype == dtype) return;
  fail(fmt::format("{} must be {}, but is {}; use cast()", names_[input], name_of(dtype),
                   name_of(in_[input].dtype)));
}

void InputCheck::floats(std::initializer_list<int> inputs) const {
  int first = -1;
  for (int i : inputs) {
    if (!is_float(in_[i].dtype)) {
      fail(fmt::format("{} must be floating point, but is {}; use cast()", names_[i],
                       name_of(in_[i].dtype)));
    }
    if (first < 0) first = i;
    if (!are_mixable(in_[i].dtype, in_[first].dtype)) {
      fail(fmt::format("{} and {} must have the same dtype, but have {} and {}; use cast()",
                       names_[first], names_[i], name_of(in_[first].dtype), name_of(in_[i].dtype)));
    }
  }
}

void InputCheck::floats() const {
  for (int i = 0; i < static_cast<int>(in_.size()); ++i) floats({0, i});
}

void InputCheck::shape(int input, const Shape& shape, std::string_view why) const {
  if (in_[input].shape == shape) return;
  fail(fmt::format("{} must be {} ({}), but is {}", names_[input], shape.text(), why,
                   in_[input].shape.text()));
}

void InputCheck::fail(std::string_view what) const {
  std::string text = fmt::format("{}: {} (", op_, what);
  for (size_t i = 0; i < in_.size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", names_[i], in_[i].text());
  throw ShapeError(text + ")");
}

}  // namespace tessera
