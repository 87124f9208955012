// The exceptions of the library.
//
// Error and its subclasses: errors that the caller can fix. The text says what must hold, what was
// given and what is needed to see why ("conv2d: x has 3 channels but w expects 4 (x [4x12x12x3],
// ...)"). InternalError: a bug in Tessera; please report it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace tessera {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  // The exit code of a program that does not handle the error.
  virtual int exit_code() const { return 2; }

  // Adds the module path and, if the text does not begin with it, the op: "conv2d: x has ..."
  // becomes "conv2d at block.conv1: x has ...". Only the first call has an effect; an empty path
  // adds nothing. Called by apply() and Module, through which every such error passes.
  void locate(std::string_view module_path, std::string_view op = {});
  // Appends `more` to the text.
  void append(std::string_view more);

 private:
  bool located_ = false;
};

// An error with an exit code of its own.
template <int code>
class CodedError : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return code; }
};

// Returns the name of an op and its module path: "conv2d at block.conv1", or "conv2d" if the path
// is empty.
std::string op_at(std::string_view op, std::string_view module_path);

// Shapes, dtypes or attributes of an op that do not fit together.
class ShapeError : public Error {
  using Error::Error;
};

// An op whose kernel accesses bytes other than its own, detected under verify_plan. The bug is in
// the op.
class OpError : public Error {
  using Error::Error;
};

// An invalid configuration, setting or command line.
class ConfigError : public Error {
  using Error::Error;
};

// A data file that is missing, damaged or not what its name says.
class DataError : public CodedError<3> {
  using CodedError::CodedError;
};

// A device that does not exist, cannot be used, or has no kernel for an op.
class DeviceError : public CodedError<4> {
  using CodedError::CodedError;
};

// A driver or library whose version differs from the one that this program was built with.
class VersionMismatch : public DeviceError {
  using DeviceError::DeviceError;
};

// A GPU that a kernel or the hardware has left in a state in which every further call fails. The
// process must end; files written before are complete.
class DeviceLost : public DeviceError {
  using DeviceError::DeviceError;
};

// Another process of the same training that is lost or does not answer.
class PeerError : public DeviceError {
  using DeviceError::DeviceError;
};

class OutOfMemory : public DeviceError {
  using DeviceError::DeviceError;
};

// A plan that cannot fit the limit; no memory has been allocated yet.
class PlanInfeasible : public OutOfMemory {
  using OutOfMemory::OutOfMemory;
};

// A checkpoint or weight file that is missing, damaged or made for another model.
class CheckpointError : public CodedError<5> {
  using CodedError::CodedError;
};

// A run folder that cannot be made, read or written.
class RunFolderError : public CodedError<5> {
  using CodedError::CodedError;
};

// An output file that cannot be written: a full disk, a missing permission.
class OutputError : public CodedError<5> {
  using CodedError::CodedError;
};

// A training whose loss is not finite.
class DivergedError : public CodedError<6> {
  using CodedError::CodedError;
};

class InternalError : public std::logic_error {
 public:
  explicit InternalError(const std::string& what)
      : std::logic_error("internal error, please report it: " + what) {}
};

}  // namespace tessera
