// SPDX-License-Identifier: Apache-2.0
// The device seam on CUDA.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/cuda_call.hpp>
#include <cede/detail/cuda_graph.hpp>
#include <cede/detail/cuda_launch.hpp>
#include <cede/detail/cuda_ranges.hpp>
#include <cede/device.hpp>
#include <cede/error.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

class cuda_machine final : public device {
 public:
  explicit cuda_machine(int ordinal) : ordinal_(ordinal) {
    const int known = current_cuda_device();  // also says in a sentence that there is none
    int count = 0;
    check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    if (ordinal_ < 0) ordinal_ = known;
    if (ordinal_ >= count) {
      throw invalid_argument("scheduler: CUDA device " + std::to_string(ordinal_) +
                             " was asked for, there are " + std::to_string(count));
    }
    const int previous = cuda_machine::enter();
    check_cuda(cudaFree(nullptr), "cudaFree(nullptr)");  // makes the primary context
    cudaDeviceProp p{};
    check_cuda(cudaGetDeviceProperties(&p, ordinal_), "cudaGetDeviceProperties");
    int driver_version = 0;
    int runtime_version = 0;
    check_cuda(cudaDriverGetVersion(&driver_version), "cudaDriverGetVersion");
    check_cuda(cudaRuntimeGetVersion(&runtime_version), "cudaRuntimeGetVersion");
    facts_.name = p.name;
    facts_.driver = version_text(driver_version);
    facts_.runtime = version_text(runtime_version);
    facts_.sms = static_cast<unsigned>(p.multiProcessorCount);
    facts_.watchers = 1;
    facts_.clusters = p.clusterLaunch != 0;
    facts_.blocks_per_sm = static_cast<unsigned>(p.maxBlocksPerMultiProcessor);
    facts_.cuda = true;
    facts_.limits.threads = static_cast<std::uint64_t>(p.maxThreadsPerBlock);
    facts_.limits.shared = p.sharedMemPerBlockOptin;
    facts_.limits.grid = {p.maxGridSize[0], p.maxGridSize[1], p.maxGridSize[2]};
    facts_.limits.block = {p.maxThreadsDim[0], p.maxThreadsDim[1], p.maxThreadsDim[2]};
    int least = 0;
    int greatest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
               "cudaDeviceGetStreamPriorityRange");
    priority_[static_cast<int>(stream_class::latency_critical)] = greatest;
    priority_[static_cast<int>(stream_class::lane)] = least;
    priority_[static_cast<int>(stream_class::cover)] = least;
    facts_.parked_limit = std::max(2U, hardware_queues() / 2);
    probe_ = make_stream(stream_class::cover);
    restore(previous);
  }

  ~cuda_machine() override {
    // During process exit the driver may be gone: statuses are looked at by nobody on purpose.
    int previous = 0;
    static_cast<void>(cudaGetDevice(&previous));
    static_cast<void>(cudaSetDevice(ordinal_));
    if (recorder_ != nullptr) static_cast<void>(cudaStreamDestroy(recorder_));
    if (probe_ != nullptr) static_cast<void>(cudaStreamDestroy(probe_));
    for (const slab& s : slabs_) {
      static_cast<void>(s.shared ? cudaFreeHost(s.memory) : cudaFree(s.memory));
    }
    static_cast<void>(cudaSetDevice(previous));
  }

  [[nodiscard]] const device_facts& facts() const override { return facts_; }

  int enter() override {
    int previous = 0;
    check_cuda(cudaGetDevice(&previous), "cudaGetDevice");
    // A thread that has made no call of the runtime yet has no context, and the driver's functions
    // want one; cudaSetDevice binds it.
    static thread_local int bound = -1;
    if (previous != ordinal_ || bound != ordinal_) {
      check_cuda(cudaSetDevice(ordinal_), "cudaSetDevice");
      bound = ordinal_;
    }
    return previous;
  }
  void restore(int previous) noexcept override {
    if (previous != ordinal_) static_cast<void>(cudaSetDevice(previous));
  }

  cudaStream_t make_stream(stream_class c) override {
    cudaStream_t s = nullptr;
    check_cuda(
        cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, priority_[static_cast<int>(c)]),
        "cudaStreamCreateWithPriority");
    return s;
  }
  void destroy_stream(cudaStream_t s) noexcept override { static_cast<void>(cudaStreamDestroy(s)); }

  void* words(std::size_t bytes, bool shared_with_host) override {
    bytes = (bytes + 127) / 128 * 128;  // words of two owners never share a cache line
    const std::scoped_lock lock(words_mutex_);
    for (slab& s : slabs_) {
      if (s.shared == shared_with_host && s.used + bytes <= s.size) {
        void* p = static_cast<char*>(s.memory) + s.used;
        s.used += bytes;
        return p;
      }
    }
    slab s;
    s.shared = shared_with_host;
    s.size = std::max<std::size_t>(bytes, std::size_t{1} << 16U);
    s.used = bytes;
    if (shared_with_host) {
      check_cuda(cudaHostAlloc(&s.memory, s.size, cudaHostAllocMapped | cudaHostAllocPortable),
                 "cudaHostAlloc");
      std::fill_n(static_cast<char*>(s.memory), s.size, '\0');
    } else {
      check_cuda(cudaMalloc(&s.memory, s.size), "cudaMalloc");
      check_cuda(cudaMemset(s.memory, 0, s.size), "cudaMemset");
      check_cuda(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    }
    slabs_.push_back(s);
    return s.memory;
  }
  void* memory(std::size_t bytes) override {
    slab s;
    s.size = s.used = bytes;
    const std::scoped_lock lock(words_mutex_);
    check_cuda(cudaMalloc(&s.memory, bytes), "cudaMalloc");
    slabs_.push_back(s);
    return s.memory;
  }
  void* device_address(void* shared_words) override { return shared_words; }  // unified addressing

  void prepare(const kernel_entry& k) override {
    if (k.cuda == nullptr || prepared(k)) return;
    for (const void* symbol :
         {k.cuda->native, k.cuda->gated, k.cuda->persistent, k.cuda->clustered, k.cuda->closing}) {
      if (symbol == nullptr) continue;
      {
        const std::shared_lock lock(functions_mutex_);
        if (functions_.contains(symbol)) continue;
      }
      void* handle = nullptr;
      const int status = k.cuda->resolve(symbol, &handle);
      check_cuda(static_cast<cudaError_t>(status), "cudaGetFuncBySymbol");
      loaded f;
      f.function = static_cast<CUfunction>(handle);
      int value = 0;
      check_driver(driver().get_attribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f.function),
                   "cuFuncGetAttribute");
      f.static_shared = static_cast<std::size_t>(value);
      check_driver(
          driver().get_attribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f.function),
          "cuFuncGetAttribute");
      f.max_threads = static_cast<unsigned>(value);
      check_driver(driver().get_attribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, f.function),
                   "cuFuncGetAttribute");
      f.registers = value;
      // The architecture the code was written for, not the one it was translated to.
      check_driver(driver().get_attribute(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, f.function),
                   "cuFuncGetAttribute");
      f.since_sm_90 = value >= 90;
      f.name = range_name(std::string(k.name));
      const auto room =
          static_cast<int>(facts_.limits.shared - std::min(facts_.limits.shared, f.static_shared));
      check_driver(
          driver().set_attribute(f.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, room),
          "cuFuncSetAttribute");
      const std::unique_lock lock(functions_mutex_);
      functions_.emplace(symbol, f);
    }
  }
  [[nodiscard]] bool prepared(const kernel_entry& k) const override {
    if (k.cuda == nullptr) return true;
    const std::shared_lock lock(functions_mutex_);
    return functions_.contains(k.cuda->native);
  }

  unsigned blocks_per_sm(const kernel_entry& k, const shape& s, form how,
                         std::string* why) override {
    const loaded& f = function_of(k, how);
    const auto threads = s.threads();
    if (threads > f.max_threads) {
      *why = "a block of " + std::to_string(threads) +
             " threads does not fit: this kernel was compiled for at most " +
             std::to_string(f.max_threads) + " (" + std::to_string(f.registers) +
             " registers a thread); make blocks smaller or declare `static constexpr unsigned "
             "max_threads = " +
             std::to_string(threads) + ";` in the body";
      return 0;
    }
    const bool native = how == form::whole || how == form::sliced;
    const std::size_t shared =
        native ? s.shared : place_own(how, s.shared, f.static_shared, facts_.limits.shared).shared;
    if (f.static_shared + shared > facts_.limits.shared) {
      *why = "it needs " + std::to_string(f.static_shared) + " static and " +
             std::to_string(shared) + " dynamic bytes of shared memory, the device has " +
             std::to_string(facts_.limits.shared) + " a block";
      return 0;
    }
    {
      // Asked at every launch; the driver's answer takes a lock.
      const std::shared_lock lock(functions_mutex_);
      const auto known = occupancy_.find({f.function, threads, shared});
      if (known != occupancy_.end()) return known->second;
    }
    int blocks = 0;
    check_driver(driver().occupancy(&blocks, f.function, static_cast<int>(threads), shared),
                 "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    if (blocks == 0) {
      *why =
          "no block of it fits on a multiprocessor; use fewer threads, registers or shared memory";
      return 0;
    }
    const std::unique_lock lock(functions_mutex_);
    return occupancy_
        .emplace(std::tuple(f.function, threads, shared), static_cast<unsigned>(blocks))
        .first->second;
  }

  std::uint64_t resident_clusters(const kernel_entry& k, const shape& s,
                                  std::string* why) override {
    if (k.cuda == nullptr || k.cuda->clustered == nullptr) {
      function_of(k, form::persistent);  // says why
      *why = "no device code for clusters";
      return 0;
    }
    const loaded& f = find(k.cuda->clustered, k);
    if (!f.since_sm_90) {
      *why = "clusters of workers need code for sm_90 or newer; compile with -arch=sm_90";
      return 0;
    }
    CUlaunchConfig c{};
    CUlaunchAttribute cluster{};
    describe(c, s,
             {static_cast<std::uint32_t>(s.cluster.x), static_cast<std::uint32_t>(s.cluster.y),
              static_cast<std::uint32_t>(s.cluster.z),
              place_own(form::persistent, s.shared, f.static_shared, facts_.limits.shared).shared});
    set_cluster(cluster, s.cluster);
    c.attrs = &cluster;
    c.numAttrs = 1;
    int clusters = 0;
    const CUresult status = driver().clusters(&clusters, f.function, &c);
    if (status != CUDA_SUCCESS || clusters <= 0) {
      *why =
          "no cluster of " + s.cluster.text() +
          " such blocks fits on the device; use smaller clusters, or fewer threads, registers or "
          "shared memory a block";
      return 0;
    }
    return static_cast<std::uint64_t>(clusters);
  }
  [[nodiscard]] bool words_in_memory(const kernel_entry& k, const shape& s) override {
    if (k.cuda == nullptr || k.cuda->persistent == nullptr) return false;
    const loaded& f = function_of(k, form::persistent);
    return !place_own(form::persistent, s.shared, f.static_shared, facts_.limits.shared).fits;
  }

  void submit(cudaStream_t s, const submission& what) override {
    const bool clusters = what.how == form::persistent && what.geometry.cluster != extent{};
    const loaded& f = clusters ? find(what.kernel->cuda->clustered, *what.kernel)
                               : function_of(*what.kernel, what.how);
    const thread_range named(f.name);
    if (what.how == form::whole || what.how == form::sliced) {
      native_args a;
      const native_grid g = plan_native(what, a);
      launch(s, f, *what.kernel, what.geometry, g, what.body, &a);
      return;
    }
    worker_args a;
    const native_grid g = plan_workers(what, f.static_shared, facts_.limits.shared, a);
    launch(s, f, *what.kernel, what.geometry, g, what.body, &a, what.overlap && f.since_sm_90);
    if (what.how == form::gated && what.closes) {
      const shape one{};
      std::array<void*, 1> arguments{&a};
      launch_raw(s, find(what.kernel->cuda->closing, *what.kernel), one, {}, arguments.data(),
                 "the closing step");
    }
  }

  void name_stream(cudaStream_t s, const std::string& name) noexcept override {
    name_raw_stream(s, name);
  }
  std::uint64_t start_range(const std::string& name) noexcept override {
    return detail::start_range(name);
  }
  void end_range(std::uint64_t range) noexcept override { detail::end_range(range); }

  void copy(cudaStream_t s, void* to, const void* from, std::size_t bytes) override {
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s), "cudaMemcpyAsync");
  }
  void fill(cudaStream_t s, void* to, unsigned char byte, std::size_t bytes) override {
    check_cuda(cudaMemsetAsync(to, byte, bytes, s), "cudaMemsetAsync");
  }
  cudaGraphExec_t make_graph(std::span<const graph_item> items) override {
    // What a capture must not do is done before: loading code, making the stream.
    for (const graph_item& i : items)
      if (i.launch != nullptr) function_of(*i.launch->kernel, form::whole);
    const std::scoped_lock lock(graphs_mutex_);
    if (recorder_ == nullptr) recorder_ = make_stream(stream_class::latency_critical);
    return record_graph(recorder_, [&] {
      for (const graph_item& i : items) {
        if (i.launch != nullptr) {
          submit(recorder_, *i.launch);
        } else if (i.from != nullptr) {
          copy(recorder_, i.to, i.from, i.bytes);
        } else {
          fill(recorder_, i.to, i.byte, i.bytes);
        }
      }
    });
  }
  void destroy_graph(cudaGraphExec_t g) noexcept override {
    static_cast<void>(cudaGraphExecDestroy(g));
  }
  void launch_graph(cudaStream_t s, cudaGraphExec_t g) override {
    check_cuda(cudaGraphLaunch(g, s), "cudaGraphLaunch");
  }
  void write_value(cudaStream_t s, std::uint64_t* shared_word, std::uint64_t value) override {
    check_driver(driver().write_value(s, reinterpret_cast<CUdeviceptr>(shared_word), value,
                                      CU_STREAM_WRITE_VALUE_DEFAULT),
                 "cuStreamWriteValue64");
  }
  void wait_value(cudaStream_t s, std::uint64_t* shared_word, std::uint64_t value) override {
    check_driver(driver().wait_value(s, reinterpret_cast<CUdeviceptr>(shared_word), value,
                                     CU_STREAM_WAIT_VALUE_GEQ),
                 "cuStreamWaitValue64");
  }
  void record_event(cudaStream_t s, cudaEvent_t e) override {
    check_cuda(cudaEventRecord(e, s), "cudaEventRecord");
  }
  void wait_event(cudaStream_t s, cudaEvent_t e) override {
    check_cuda(cudaStreamWaitEvent(s, e, 0), "cudaStreamWaitEvent");
  }
  cudaEvent_t make_event() override {
    cudaEvent_t e = nullptr;
    check_cuda(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return e;
  }
  void destroy_event(cudaEvent_t e) noexcept override { static_cast<void>(cudaEventDestroy(e)); }
  bool event_done(cudaEvent_t e) override {
    const cudaError_t status = cudaEventQuery(e);
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    check_cuda(status, "cudaEventQuery");
    return true;
  }
  bool query(cudaStream_t s) override {
    const cudaError_t status = cudaStreamQuery(s);
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    check_cuda(status, "cudaStreamQuery");
    return true;
  }
  void synchronize(cudaStream_t s) override {
    check_cuda(cudaStreamSynchronize(s), "cudaStreamSynchronize");
  }
  void check() override { query(probe_); }
  void release(void* memory) override { check_cuda(cudaFree(memory), "cudaFree"); }

 private:
  struct slab {
    void* memory = nullptr;
    std::size_t size = 0;
    std::size_t used = 0;
    bool shared = false;
  };
  struct loaded {
    CUfunction function = nullptr;
    std::size_t static_shared = 0;
    unsigned max_threads = 0;
    int registers = 0;
    bool since_sm_90 = false;  ///< its workers know clusters and wait for the kernel in front
    range_name name{};         ///< the body's
  };

  /// Queues the driver maps streams to: `CUDA_DEVICE_MAX_CONNECTIONS`, 1 to 32, 8 by default.
  /// Measured on an H200: with as many streams parked in a wait no other stream runs, at any
  /// priority; with half as many all do.
  static unsigned hardware_queues() {
    const char* text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    const long n = text == nullptr ? 8 : std::strtol(text, nullptr, 10);
    return n >= 1 && n <= 32 ? static_cast<unsigned>(n) : 8;
  }
  static std::string version_text(int v) {
    return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
  }

  const loaded& find(const void* symbol, const kernel_entry& k) {
    {
      const std::shared_lock lock(functions_mutex_);
      const auto at = functions_.find(symbol);
      if (at != functions_.end()) return at->second;  // stays: entries are never removed
    }
    prepare(k);
    const std::shared_lock lock(functions_mutex_);
    return functions_.at(symbol);
  }
  const loaded& function_of(const kernel_entry& k, form how) {
    if (k.cuda == nullptr) {
      throw not_supported(
          "launch of " + std::string(k.name) +
          ": a host compiler compiled this launch, so there is no device code; move the call of "
          "launch() into a .cu file compiled by nvcc");
    }
    const void* symbol = how == form::persistent ? k.cuda->persistent
                         : how == form::gated    ? k.cuda->gated
                                                 : k.cuda->native;
    if (symbol == nullptr) {
      throw not_supported("launch of " + std::string(k.name) +
                          ": the body's traits forbid this form");
    }
    return find(symbol, k);
  }

  void launch(cudaStream_t s, const loaded& f, const kernel_entry& k, const shape& geometry,
              const native_grid& g, const void* body, void* args, bool overlap = false) {
    if (geometry.threads() > f.max_threads) {
      std::string why;
      blocks_per_sm(k, geometry, form::whole, &why);
      throw invalid_argument("launch of " + std::string(k.name) + ": " + why);
    }
    if (k.cuda->split) {
      const auto& offsets = k.cuda->parameters;
      std::array<void*, 33> few;
      std::vector<void*> many;
      if (offsets.size() >= few.size()) many.resize(offsets.size() + 1);
      void** arguments = many.empty() ? few.data() : many.data();
      arguments[0] = args;
      for (std::size_t i = 0; i < offsets.size(); ++i) {
        arguments[i + 1] = static_cast<char*>(const_cast<void*>(body)) + offsets[i];
      }
      launch_raw(s, f, geometry, g, arguments, k.name, overlap);
      return;
    }
    std::array<void*, 2> arguments{const_cast<void*>(body), args};
    launch_raw(s, f, geometry, g, arguments.data(), k.name, overlap);
  }
  static void describe(CUlaunchConfig& c, const shape& geometry, const native_grid& g) {
    c.gridDimX = g.x;
    c.gridDimY = g.y;
    c.gridDimZ = g.z;
    c.blockDimX = static_cast<unsigned>(geometry.block.x);
    c.blockDimY = static_cast<unsigned>(geometry.block.y);
    c.blockDimZ = static_cast<unsigned>(geometry.block.z);
    c.sharedMemBytes = static_cast<unsigned>(g.shared);
  }
  static void set_cluster(CUlaunchAttribute& a, const extent& cluster) {
    a.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a.value.clusterDim.x = static_cast<unsigned>(cluster.x);
    a.value.clusterDim.y = static_cast<unsigned>(cluster.y);
    a.value.clusterDim.z = static_cast<unsigned>(cluster.z);
  }
  void launch_raw(cudaStream_t s, const loaded& f, const shape& geometry, const native_grid& g,
                  void** arguments, std::string_view name, bool overlap = false) {
    CUlaunchConfig c{};
    describe(c, geometry, g);
    c.hStream = s;
    std::array<CUlaunchAttribute, 2> attributes{};
    c.attrs = attributes.data();
    if (geometry.cluster != extent{}) set_cluster(attributes[c.numAttrs++], geometry.cluster);
    if (overlap) {
      CUlaunchAttribute& a = attributes[c.numAttrs++];
      a.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      a.value.programmaticStreamSerializationAllowed = 1;
    }
    const CUresult status = driver().launch_kernel(&c, f.function, arguments, nullptr);
    if (status != CUDA_SUCCESS) check_driver(status, "cuLaunchKernelEx of " + std::string(name));
  }

  int ordinal_;
  device_facts facts_;
  std::array<int, 3> priority_{};
  cudaStream_t probe_ = nullptr;
  std::mutex words_mutex_;
  std::vector<slab> slabs_;
  std::mutex graphs_mutex_;
  cudaStream_t recorder_ = nullptr;  ///< where graphs are recorded; guarded by graphs_mutex_
  mutable std::shared_mutex functions_mutex_;
  std::unordered_map<const void*, loaded> functions_;
  std::map<std::tuple<CUfunction, std::uint64_t, std::size_t>, unsigned> occupancy_;
};

}  // namespace detail

CEDE_END_NAMESPACE
