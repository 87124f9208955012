#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <span>
#include <sstream>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hdf5.h>
#include <png.h>
#include <zlib.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/conv2d/conv2d.h"
#include "tessera/layers/ops/matmul.h"
#include "tessera/models/run/environment.h"
#include "tessera/models/study/doctor.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/device.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/machine_peaks.h"
#include "tessera/runtime/shared_library.h"
#include "tessera/runtime/simd/isa.h"
#include "tessera/runtime/system_gpus.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/clock.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {
namespace {

double milliseconds_of(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return milliseconds_since(start);
}

// Collects findings; a check that throws becomes a finding.
class Examination {
 public:
  Diagnosis diagnosis() && {
    const Finding* worst = nullptr;
    for (const Finding& found : all_.findings) {
      if (worst == nullptr && found.warning) worst = &found;
      if (found.exit_code != 0 && (worst == nullptr || worst->exit_code == 0)) worst = &found;
    }
    if (worst != nullptr) all_.remedy = worst->text;
    all_.verdict = verdict(worst);
    all_.figures = Json::object(figures_);
    return std::move(all_);
  }

  template <class Check>
  void look(const char* what, Check check) {
    try {
      check();
    } catch (const Error& error) {
      all_.findings.push_back({what, error.what(), error.exit_code()});
    } catch (const std::bad_alloc&) {
      const OutOfMemory error("too little memory is free for this check");
      all_.findings.push_back({what, error.what(), error.exit_code()});
    }
  }
  void add(const char* what, const std::string& text, bool warning = false, int exit_code = 0) {
    all_.findings.push_back({what, text, exit_code, warning});
  }
  void figure(const char* name, Json value) { figures_.emplace_back(name, std::move(value)); }

 private:
  static std::string verdict(const Finding* worst) {
    const std::vector<DeviceInfo> devices = physical_devices();
    const std::string where = devices.size() > 1
                                  ? "the CPU; a GPU can train networks for whose ops it has kernels"
                                  : "the CPU";
    if (worst == nullptr) return "good: this computer can train on " + where;
    if (worst->exit_code == 0)
      return fmt::format("this computer can train on {}; check '{}' above", where, worst->what);
    return fmt::format("not ready to train: fix '{}' above first", worst->what);
  }

  Diagnosis all_;
  std::vector<Json::Member> figures_;
};

void look_at_program(Examination& all) {
  const Json environment = Json::parse(environment_json());
  all.add("program", fmt::format("Tessera {}, {}, assertions {}, on {}",
                                 environment["tessera"].string(), environment["compiler"].string(),
                                 environment["asserts"].string(), environment["system"].string()));
  all.figure("program", environment);
}

// Looks at the libraries, except those of CUDA, that report the versions built with and running.
void look_at_libraries(Examination& all) {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  const std::string hdf5 = fmt::format("{}.{}.{}", major, minor, release),
                    built_hdf5 =
                        fmt::format("{}.{}.{}", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
  std::vector<std::string> texts;
  std::string mended;
  Table figures({{"name", nullptr}, {"built", nullptr}, {"running", nullptr}, {"same", nullptr}});
  for (const auto& [name, built, running] :
       {std::tuple<const char*, std::string, std::string>("zlib", ZLIB_VERSION, zlibVersion()),
        {"libpng", PNG_LIBPNG_VER_STRING, png_get_libpng_ver(nullptr)},
        {"HDF5", built_hdf5, hdf5}}) {
    const bool same = built == running;
    texts.push_back(fmt::format("{} {}", name, running));
    if (!same) texts.back() += fmt::format(" (built with {})", built);
    if (!same) mended = "; if something goes wrong, rebuild with the installed versions";
    figures.add({name, built, running, {"", same}});
  }
  all.add("libraries", fmt::format("{}{}", fmt::join(texts, ", "), mended), !mended.empty());
  all.figure("libraries", figures.json());
}

// Returns the features in /proc/cpuinfo that matter for kernels.
std::string cpu_features() {
  std::ifstream info("/proc/cpuinfo");
  std::string found;
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;)
      for (const char* known : {"sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512dq",
                                "avx512bw", "avx512vl", "avx512_bf16", "asimd", "sve"})
        if (word == known) found += (found.empty() ? "" : " ") + word;
    break;
  }
  return found;
}

void look_at_processor(Examination& all) {
  const bool lowered = std::getenv("TESSERA_MAX_ISA") != nullptr;
  const std::string features = cpu_features();
  all.add("processor",
          fmt::format("{}; {}; {} in use, {} kernels{}", cpu_description(),
                      features.empty() ? "features unknown" : features, isa_name(current_isa()),
                      cpu_context().kernels_name(), lowered ? "; TESSERA_MAX_ISA is set" : ""));
  all.figure("processor", Json::object({{"model", cpu_description()},
                                        {"features", features},
                                        {"instruction_set", isa_name(current_isa())},
                                        {"kernels", cpu_context().kernels_name()}}));
  const int cores = available_cores();
  all.add("threads",
          fmt::format("{} cores for this process; a step uses {}", cores, cpu_context().threads()));
  all.figure("threads", Json::object({{"cores", cores}, {"used", cpu_context().threads()}}));
}

constexpr int64_t kLittle = int64_t{256} << 20;  // bytes: most trainings need more

void look_at_speed(Examination& all) {
  if (host_memory().free < kLittle)
    return all.add("speed", "not measured, as that takes 128 MiB and little memory is free");
  const MachinePeaks peaks = measure_peaks(cpu_context().pool());
  all.add("speed", peaks.text());
  all.figure("speed", Json::object({{"gflops", rounded(peaks.gflops, 1)},
                                    {"gflops_of_thread", rounded(peaks.gflops_of_thread, 1)},
                                    {"bf16_gflops", rounded(peaks.bf16_gflops, 1)},
                                    {"copy_gbytes", rounded(peaks.copy_gbytes, 1)}}));
}

void look_at_memory(Examination& all) {
  const HostMemory memory = host_memory();
  const bool little = memory.free < kLittle;
  std::string text = fmt::format(
      "{} of {} free; swap {} of {} free; this process uses {}, programs and libraries {}",
      byte_text(memory.free), byte_text(memory.total), byte_text(memory.swap_free),
      byte_text(memory.swap_total), byte_text(memory.process), byte_text(memory.libraries));
  if (little) text += "; end other programs or raise the limit: most trainings need more";
  all.add("memory", text, little);
  all.figure("memory", Json::object({{"total", memory.total},
                                     {"free", memory.free},
                                     {"swap_total", memory.swap_total},
                                     {"swap_free", memory.swap_free},
                                     {"process", memory.process},
                                     {"libraries", memory.libraries}}));
}

void look_at_gpus(Examination& all) {
  std::string text;
  for (const DeviceInfo& info : physical_devices())
    if (!info.device.is_cpu())
      text += fmt::format("{}{}, {}, {}", text.empty() ? "" : "; ", info.device.name(),
                          info.description, byte_text(info.memory_bytes));
  if constexpr (kCuda)
    for (const std::string& refused : cuda_machine().refused)
      text += (text.empty() ? "" : "; ") + refused;
  if (const std::string why = why_no_gpu(); !why.empty() && text != why)
    text += (text.empty() ? "none: " : "; ") + why;
  if (const std::string driver = nvidia_driver_version(); !driver.empty())
    text += "; NVIDIA driver " + driver;
  all.add("GPU", text, driver_mismatch());
}

// Checks a library of CUDA; `title` and `figure` name it in the text and in the JSON.
[[maybe_unused]] void look_at_library(Examination& all, const char* title, const char* figure,
                                      const CudaLibrary& library) {
  const std::vector<std::string> copies = library_copies(library.name, {library.built_folder});
  const bool gpus = physical_devices().size() > 1, lost = library.file.empty();
  std::error_code error;
  const std::string built = library.built_folder + "/" + library.name;
  const bool foreign = !lost && !std::filesystem::equivalent(library.file, built, error);
  std::string text;
  if (lost) {
    text = library.fault + (gpus ? "" : "; programs start and run on the CPU without it");
  } else {
    text = fmt::format("{} loaded from {}, built with {}", library.running, library.file,
                       library.built);
    if (foreign)
      text += fmt::format(
          "; the program was built with another file ({}): speed and last bits may differ; remove "
          "the folder from LD_LIBRARY_PATH to use that file",
          built);
  }
  text += copies.empty() ? "; no copy on the path"
                         : fmt::format("; copies on the path: {}", fmt::join(copies, ", "));
  all.add(title, text, lost || foreign, lost && gpus ? 4 : 0);
  all.figure(figure, Json::object({{"built", library.built},
                                   {"running", library.running},
                                   {"file", library.file},
                                   {"fault", library.fault},
                                   {"is_foreign", foreign},
                                   {"copies", Json::list_of(copies)}}));
}

// Reports a part of cuDNN on its own line if it has a fault or several copies.
[[maybe_unused]] void look_at_dnn_parts(Examination& all) {
  const std::vector<CudaPart> parts = cuda_dnn_parts();
  if (parts.empty()) return;
  std::string text = fmt::format("{} files, each tried in a child process", parts.size());
  bool warning = false, broken = false;
  Table figures({{"name", nullptr}, {"fault", nullptr}, {"copies", nullptr}});
  for (const CudaPart& part : parts) {
    Table copies({{"file", nullptr}, {"version", nullptr}});
    std::vector<std::string> found;
    for (const auto& [file, version] : part.copies) {
      copies.add({file, version});
      found.push_back(version.empty() ? file : fmt::format("{} ({})", file, version));
    }
    if (!part.fault.empty() || found.size() > 1)
      text +=
          fmt::format("\n{}: {}{}{}", part.name, fmt::join(found, ", "), found.empty() ? "" : "; ",
                      part.fault.empty() ? "the first is used" : part.fault);
    warning = warning || !part.fault.empty();
    broken = broken || (part.needed && !part.fault.empty());
    figures.add({part.name, part.fault, {"", copies.json()}});
  }
  if (warning)
    text +=
        "\nreinstall cuDNN with all files of one version, or remove the folder of the other files "
        "from LD_LIBRARY_PATH";
  all.add("cuDNN parts", text, warning, broken && physical_devices().size() > 1 ? 4 : 0);
  all.figure("cudnn_parts", figures.json());
}

void look_at_cuda(Examination& all) {
  if constexpr (kCuda) {
    const CudaLibraries cuda = cuda_libraries();
    all.add("CUDA", fmt::format("built with {}, its runtime in the program; driver {}; code for {}",
                                cuda.toolkit_built,
                                cuda.driver.empty()
                                    ? "none"
                                    : fmt::format("for {} ({})", cuda.driver, cuda.driver_file),
                                cuda.architectures));
    all.figure("cuda", Json::object({{"toolkit_built", cuda.toolkit_built},
                                     {"architectures", cuda.architectures},
                                     {"driver", cuda.driver},
                                     {"driver_file", cuda.driver_file},
                                     {"run_path", program_run_path()}}));
    look_at_library(all, "cuBLASLt", "cublaslt", cuda.blas);
    look_at_library(all, "cuDNN", "cudnn", cuda.dnn);
    look_at_dnn_parts(all);
    const std::string path = program_run_path();
    all.add("run path", path.empty() ? fmt::format("none; CUDA's libraries are searched in the "
                                                   "system's folders and in {}",
                                                   cuda.blas.built_folder)
                                     : path);
  }
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = a.to_vector<float>();
  const std::vector<double> y = b.to_vector<double>();
  double most = 0, scale = 1e-30;
  for (size_t i = 0; i < x.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(x[i]) - y[i]));
    scale = std::max(scale, std::abs(y[i]));
  }
  return most / scale;
}

struct Smoke {
  std::string what;
  double milliseconds = 0, error = 0;
};

// Computes in float32 with the current kernels and compares with float64 by Eigen's.
Smoke compared(const char* what, const std::function<Tensors(DType)>& compute, Device device = {}) {
  Smoke smoke{what};
  Tensors found;
  {
    const DeviceScope scope(device);
    found = compute(DType::f32);  // the first call warms up
    smoke.milliseconds = milliseconds_of([&] {
      found = compute(DType::f32);
      context(device).synchronize();
    });
  }
  Settings other = settings();
  other.cpu.kernels = CpuKernels::eigen;
  const SettingsScope eigen(other);
  const DeviceScope cpu(Device{});
  const Tensors exact = compute(DType::f64);  // from the same random numbers, unrounded
  for (size_t i = 0; i < found.size(); ++i)
    smoke.error = std::max(smoke.error, largest_difference(found[i], exact[i]));
  return smoke;
}

Tensors product(DType type) {
  return {
      matmul(random_normal({192, 160}, 1, 0, 1, type), random_normal({160, 224}, 2, 0, 1, type))};
}

std::vector<Smoke> smoke_on_cpu() {
  const auto images = [](DType type) { return random_normal({4, 14, 14, 16}, 3, 0, 1, type); };
  const auto filters = [](DType type) { return random_normal({32, 3, 3, 16}, 4, 0, 1, type); };
  const auto forward = [&](DType type) {
    return Tensors{conv2d(images(type), filters(type), {.padding = 1})};
  };
  const auto backward = [&](DType type) {
    const Tensor x = requires_grad(images(type)), w = requires_grad(filters(type));
    return gradients(sum(conv2d(x, w, {.padding = 1})), Tensors{x, w});
  };
  std::vector<Smoke> all = {compared("matrix product", product),
                            compared("convolution", forward),
                            compared("convolution gradients", backward),
                            {"copy of 32 MiB"}};
  constexpr size_t kBytes = size_t{32} << 20;
  const std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes);
  all.back().milliseconds = milliseconds_of([&] { std::memcpy(to.data(), from.data(), kBytes); });
  all.back().error = to == from ? 0 : 1;
  return all;
}

// Runs the tests that have GPU kernels.
std::vector<Smoke> smoke_on(Device gpu) {
  Smoke there{"copies of 32 MiB to the GPU and back"};
  Settings exact = settings();
  exact.gpu.tf32 = false;
  const SettingsScope products(exact);
  const std::vector<float> values(size_t{8} << 20, 1.5f);
  std::vector<float> back;
  const DeviceScope scope(gpu);
  Tensor tensor = zeros({std::ssize(values)});
  there.milliseconds = milliseconds_of([&] {
    tensor.assign(std::span<const float>(values));
    back = tensor.to_vector<float>();
  });
  there.error = back == values ? 0 : 1;
  return {compared("matrix product", product, gpu), there};
}

void smoke_test(Examination& all, const char* name, const char* figure,
                const std::vector<Smoke>& results) {
  constexpr double kTolerance = 1e-4;  // relative to the largest value
  std::string text;
  Table figures({{"what", nullptr}, {"milliseconds", nullptr}, {"error", nullptr}});
  bool wrong = false;
  for (const Smoke& smoke : results) {
    const bool good = smoke.error <= kTolerance;
    wrong = wrong || !good;
    text +=
        fmt::format("{}{} {:.2f} ms{}", text.empty() ? "" : ", ", smoke.what, smoke.milliseconds,
                    good ? "" : fmt::format(" and WRONG by {:.2g}", smoke.error));
    figures.add({smoke.what, number(smoke.milliseconds, 2, 4), {"", smoke.error}});
  }
  if (wrong)
    text +=
        "; run with cpu.kernels=eigen and with TESSERA_MAX_ISA=baseline, and report which is "
        "correct";
  all.add(name, text, false, wrong ? 4 : 0);
  all.figure(figure, figures.json());
}

}  // namespace

Diagnosis examine_machine() {
  Examination all;
  all.look("program", [&] { look_at_program(all); });
  all.look("libraries", [&] { look_at_libraries(all); });
  all.look("processor", [&] { look_at_processor(all); });
  all.look("speed", [&] { look_at_speed(all); });
  all.look("memory", [&] { look_at_memory(all); });
  all.look("GPU", [&] { look_at_gpus(all); });
  all.look("CUDA", [&] { look_at_cuda(all); });
  all.look("smoke test", [&] { smoke_test(all, "smoke test", "smoke_test", smoke_on_cpu()); });
  for (const DeviceInfo& info : physical_devices())
    if (!info.device.is_cpu()) {
      const std::string name = info.device.name();
      all.look(name.c_str(),
               [&] { smoke_test(all, name.c_str(), name.c_str(), smoke_on(info.device)); });
    }
  return std::move(all).diagnosis();
}

}  // namespace tessera
