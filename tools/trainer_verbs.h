// Families of trainer's verbs that have files of their own: trainer_<family>.cc.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace tessera {

// What to do once the command line is read; returns the exit code, or throws Error.
using Verb = std::function<int()>;

void add_plan_verb(CLI::App& app, Verb& verb);

}  // namespace tessera
