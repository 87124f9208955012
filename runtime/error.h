// The exceptions of the library.
//
// Error and its subclasses: the caller can fix it; the text says what must hold, what was given and
// what is needed to see why ("conv2d: x has 3 channels but w expects 4 (x [4x12x12x3], ...)").
// InternalError: a broken promise of our own; please report it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace tessera {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  // What a program ends with when it does not handle the error.
  virtual int exit_code() const { return 2; }

  // Says where in the model it happened and, if the text does not begin with it, in which op:
  // "conv2d: x has ..." becomes "conv2d at block.conv1: x has ...". The first call counts; an empty
  // path says nothing. For apply() and Module, through which every such error passes.
  void locate(std::string_view module_path, std::string_view op = {});
  // Puts `more` at the end of the text.
  void append(std::string_view more);

 private:
  bool located_ = false;
};

// How texts name an op and its place in the model: "conv2d at block.conv1", "conv2d" where the path
// is empty.
std::string op_at(std::string_view op, std::string_view module_path);

// Shapes, dtypes or settings of an op that do not fit together.
class ShapeError : public Error {
  using Error::Error;
};

// An op whose kernel does not keep to its bytes, found under verify_plan: the op's author can fix
// it.
class OpError : public Error {
  using Error::Error;
};

// An invalid configuration, setting or command line.
class ConfigError : public Error {
  using Error::Error;
};

// A data file that is missing, damaged or not what its name says.
class DataError : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return 3; }
};

// A device that is not there, cannot be used, or has no kernel for an op.
class DeviceError : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return 4; }
};

// A driver or a library of another version than the one that this was built with.
class VersionMismatch : public DeviceError {
  using DeviceError::DeviceError;
};

// A GPU that a kernel or the hardware has left in a state in which every further call fails; the
// process must end. What was written to files before is whole.
class DeviceLost : public DeviceError {
  using DeviceError::DeviceError;
};

class OutOfMemory : public DeviceError {
  using DeviceError::DeviceError;
};

// What is planned cannot fit the limit; nothing has been asked of the machine yet.
class PlanInfeasible : public OutOfMemory {
  using OutOfMemory::OutOfMemory;
};

// A checkpoint or weight file that is missing, damaged or made for another model.
class CheckpointError : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return 5; }
};

// A run folder that cannot be made, read or written.
class RunFolderError : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return 5; }
};

// Training produced a loss that is not finite.
class DivergedError : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return 6; }
};

class InternalError : public std::logic_error {
 public:
  explicit InternalError(const std::string& what)
      : std::logic_error("internal error, please report it: " + what) {}
};

}  // namespace tessera
