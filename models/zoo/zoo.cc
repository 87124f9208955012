#include "tessera/models/zoo/zoo.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// An option that some networks have.
struct Option {
  const char* name;
  bool (*is_set)(const ModelOptions& options);
  void (*take)(ModelOptions& to, const ModelOptions& from);
};

template <class T>
bool has_value(const std::optional<T>& value) {
  return value.has_value();
}
bool has_value(const std::vector<int64_t>& value) { return !value.empty(); }

template <auto kMember>
constexpr Option option(const char* name) {
  return {name, [](const ModelOptions& options) { return has_value(options.*kMember); },
          [](ModelOptions& to, const ModelOptions& from) { to.*kMember = from.*kMember; }};
}

constexpr Option kOptions[] = {
    option<&ModelOptions::depth>("depth"),
    option<&ModelOptions::widen>("widen"),
    option<&ModelOptions::growth>("growth"),
    option<&ModelOptions::dropout>("dropout"),
    option<&ModelOptions::widths>("widths"),
    option<&ModelOptions::stochastic_depth>("stochastic_depth"),
};

const Network* find_network(std::string_view name) {
  for (const Network& network : networks())
    if (network.name == name) return &network;
  return nullptr;
}

void check_options(const Network& network, const ModelOptions& o) {
  const auto refuse = [&](const std::string& what) {
    throw ConfigError(fmt::format("model {}: {}", network.name, what));
  };
  if (o.height < 1 || o.width < 1 || o.channels < 1) {
    refuse(fmt::format("images must have at least one pixel and channel, but are {}x{}x{}",
                       o.height, o.width, o.channels));
  }
  if (o.classes < 1) refuse(fmt::format("classes must be at least 1, but is {}", o.classes));
  if (o.dropout && !(*o.dropout >= 0 && *o.dropout < 1))
    refuse(fmt::format("dropout must be in [0, 1), but is {}", *o.dropout));
  if (o.stochastic_depth && !(*o.stochastic_depth >= 0 && *o.stochastic_depth < 1))
    refuse(fmt::format("stochastic_depth must be in [0, 1), but is {}", *o.stochastic_depth));
  for (const Option& option : kOptions)
    if (option.is_set(o) && !option.is_set(network.own))
      refuse(fmt::format("has no option {} (its options: {})", option.name,
                         fmt::join(model_options(network.name), ", ")));
}

}  // namespace

const Networks& networks() {
  static const Networks all = [] {
    Networks list;
    const auto add = [&](const char* family, Networks of_family) {
      for (Network& network : of_family) network.family = family;
      std::ranges::move(of_family, std::back_inserter(list));
    };
#define TESSERA_ADD_FAMILY(name) add(#name, zoo::name());
    TESSERA_ZOO(TESSERA_ADD_FAMILY)
#undef TESSERA_ADD_FAMILY
    return list;
  }();
  return all;
}

std::unique_ptr<Module> make_model(std::string_view name, const ModelOptions& options,
                                   Store& store) {
  const Network* network = find_network(name);
  if (network == nullptr)
    throw ConfigError(
        fmt::format("model: '{}' is not one of {}", name, fmt::join(model_names(), ", ")));
  check_options(*network, options);
  ModelOptions all = options;
  for (const Option& option : kOptions)
    if (!option.is_set(all)) option.take(all, network->own);
  NetworkBuilder net(store);
  network->make(net, all);
  return net.made();
}

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Network& network : networks()) list.push_back(network.name);
    return list;
  }();
  return names;
}

std::vector<std::string> model_options(std::string_view name) {
  const Network* network = find_network(name);
  if (network == nullptr) return {};
  std::vector<std::string> names{"classes"};
  for (const Option& option : kOptions)
    if (option.is_set(network->own)) names.emplace_back(option.name);
  return names;
}

PublishedInput published_input(std::string_view name) {
  const Network* network = find_network(name);
  return network == nullptr || network->tables.empty() ? PublishedInput() : network->input;
}

std::string families_with(std::string_view option) {
  std::vector<std::string> families;
  for (const Network& network : networks())
    for (const Option& known : kOptions)
      if (known.name == option && known.is_set(network.own) &&
          (families.empty() || families.back() != network.family))
        families.push_back(network.family);
  return fmt::format("{}", fmt::join(families, ", "));
}

}  // namespace tessera
