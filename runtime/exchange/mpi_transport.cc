// The carrier by MPI: a library of its own (libtessera_mpi.so), which a program loads when mpirun
// or srun started it, so that programs run without MPI too.
#include <climits>
#include <string>
#include <vector>

#include <mpi.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/exchange/transport.h"

namespace tessera {
namespace {

void check(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw PeerError(std::string(what) + ": " + std::string(text, static_cast<size_t>(length)));
}

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    constexpr size_t kMessages = 4096;  // at once in any step; more only make these longer
    requests_.reserve(kMessages), free_.reserve(kMessages);
  }
  ~MpiTransport() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Ticket send(int to, int tag, std::span<const std::byte> bytes) override {
    const Ticket ticket = next();
    check(MPI_Isend(bytes.data(), count(bytes.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD,
                    &requests_[static_cast<size_t>(ticket)]),
          "MPI_Isend");
    return ticket;
  }
  Ticket receive(int from, int tag, std::span<std::byte> bytes) override {
    const Ticket ticket = next();
    check(MPI_Irecv(bytes.data(), count(bytes.size()), MPI_BYTE, from, tag, MPI_COMM_WORLD,
                    &requests_[static_cast<size_t>(ticket)]),
          "MPI_Irecv");
    return ticket;
  }
  bool done(Ticket ticket) override {
    int done = 0;
    check(MPI_Test(&requests_[static_cast<size_t>(ticket)], &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) free_.push_back(ticket);
    return done != 0;
  }
  void abort(int code) override { MPI_Abort(MPI_COMM_WORLD, code); }
  double seconds() const override { return MPI_Wtime(); }

 private:
  static int count(size_t bytes) {
    if (bytes > INT_MAX) throw PeerError("a message of more than 2 GiB");
    return static_cast<int>(bytes);
  }
  Ticket next() {
    if (free_.empty()) {
      free_.push_back(static_cast<Ticket>(requests_.size()));
      requests_.push_back(MPI_REQUEST_NULL);
    }
    const Ticket ticket = free_.back();
    free_.pop_back();
    return ticket;
  }

  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;
  std::vector<Ticket> free_;
};

}  // namespace
}  // namespace tessera

extern "C" [[gnu::visibility("default")]] tessera::Transport* tessera_mpi_transport() {
  return new tessera::MpiTransport;
}
extern "C" [[gnu::visibility("default")]] const char* tessera_mpi_version() {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  return text;
}
