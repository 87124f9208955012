// NameTable: the names of another program for the modules of a network of the zoo, to read and
// write its files of weights. The tables of a network are in its entry (models/zoo/networks.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

struct NameTable {
  std::string program;       // "torchvision", "timm"
  std::string network = {};  // its name for the network: "mobilenetv2_100"
  // Paths of modules, ours and theirs; an entry covers all that its module contains. A module
  // without an entry has the same path there. The last part of a name is PyTorch's (our gamma is
  // its weight).
  std::vector<std::pair<std::string, std::string>> modules = {};
  // Modules in their files that are not needed: auxiliary heads for training.
  std::vector<std::string> unused = {};
  // Our modules whose 1x1 filters are linear layers there: [o, i] instead of [o, i, 1, 1].
  std::vector<std::string> linear = {};
  // Fills `modules` if they are many. Runs when name_tables() is first called, not at each start.
  std::function<void(NameTable& table)> add_modules = {};

  // Returns the path or name there of one of ours.
  std::string theirs(std::string_view ours) const;
  bool is_unused(std::string_view theirs) const;
  bool is_linear(std::string_view ours) const;
};

// Returns the tables of a network of the zoo, first the one used for writing; empty if no other
// program has it.
const std::vector<NameTable>& name_tables(std::string_view network);

// A network of keras.applications, recognized by the names of its layers: which of ours reads its
// weights, or why none does. Shapes are not enough: MobileNetV2 has the shapes of ours but pads
// images at other sides, so it would compute something else.
struct KerasApplication {
  std::string network;              // "DenseNet121"
  std::vector<std::string> layers;  // its weights have all of these
  std::string ours;                 // the network of the zoo that reads its weights; else empty
  std::string apart = {};           // why none reads them: "has no batch norms"
  double eps = 0;                   // eps of its batch norms
  std::string fits = {};            // if apart: the network of the zoo with equal shapes
};

// Returns the network with these layers; nullptr if it is unknown.
const KerasApplication* keras_application(const std::vector<std::string>& layers);
// Returns the one whose weights fit `network` but compute something else in it, or nullptr.
const KerasApplication* misfit_of_keras(const std::string& network);

}  // namespace tessera
