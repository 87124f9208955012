// The networks of keras.applications, told by the names of their layers: which of ours reads their
// weights, and why the others cannot. Their shapes say too little: MobileNetV2's are ours, but the
// images are padded elsewhere, so it would compute something else.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct KerasApplication {
  std::string network;              // "DenseNet121"
  std::vector<std::string> layers;  // it has all of these
  std::string ours;                 // the network of the zoo that reads it; else empty
  std::string apart = {};           // why none does: "has no batch norms"
  double eps = 0;                   // of its batch norms
  std::string fits = {};            // the network of the zoo of the same shapes, where it is apart
};

// nullptr: none of those that are known.
const KerasApplication* keras_application(const std::vector<std::string>& layers);
// The one whose weights fit that network of the zoo but compute something else in it, or nullptr.
const KerasApplication* misfit_of_keras(const std::string& network);

}  // namespace tessera
