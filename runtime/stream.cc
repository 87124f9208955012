#include "tessera/runtime/stream.h"

namespace tessera {
namespace {

class CpuEvent final : public Event {
 public:
  bool done() const override { return true; }
  void synchronize() const override {}
};

class CpuStream final : public Stream {
 public:
  std::unique_ptr<Event> make_event() override { return std::make_unique<CpuEvent>(); }
  void record(Event&) override {}
  void wait(const Event& event) override { event.synchronize(); }
  void synchronize() override {}
  std::unique_ptr<CapturedWork> capture(const std::function<void()>&) override { return nullptr; }
};

}  // namespace

std::unique_ptr<Stream> make_cpu_stream() { return std::make_unique<CpuStream>(); }

}  // namespace tessera
