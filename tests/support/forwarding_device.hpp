// SPDX-License-Identifier: Apache-2.0
// A device that hands every call to another one: tests override what they want to watch or to
// change.
#pragma once

#include <cede/device.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace cede_test {

class forwarding_device : public cede::detail::device {
 public:
  explicit forwarding_device(std::shared_ptr<cede::detail::device> to) : to_(std::move(to)) {}

  const cede::detail::device_facts& facts() const override { return to_->facts(); }
  int enter() override { return to_->enter(); }
  void restore(int previous) noexcept override { to_->restore(previous); }
  cudaStream_t make_stream(cede::detail::stream_class c) override { return to_->make_stream(c); }
  void destroy_stream(cudaStream_t s) noexcept override { to_->destroy_stream(s); }
  void* words(std::size_t bytes, bool shared) override { return to_->words(bytes, shared); }
  void* memory(std::size_t bytes) override { return to_->memory(bytes); }
  void* device_address(void* words) override { return to_->device_address(words); }
  void prepare(const cede::detail::kernel_entry& k) override { to_->prepare(k); }
  bool prepared(const cede::detail::kernel_entry& k) const override { return to_->prepared(k); }
  unsigned blocks_per_sm(const cede::detail::kernel_entry& k, const cede::shape& s, cede::form how,
                         std::string* why) override {
    return to_->blocks_per_sm(k, s, how, why);
  }
  void submit(cudaStream_t s, const cede::detail::submission& what) override {
    to_->submit(s, what);
  }
  void copy(cudaStream_t s, void* to, const void* from, std::size_t bytes) override {
    to_->copy(s, to, from, bytes);
  }
  cudaGraphExec_t make_graph(std::span<const cede::detail::graph_item> items) override {
    return to_->make_graph(items);
  }
  void destroy_graph(cudaGraphExec_t g) noexcept override { to_->destroy_graph(g); }
  void launch_graph(cudaStream_t s, cudaGraphExec_t g) override { to_->launch_graph(s, g); }
  void fill(cudaStream_t s, void* to, unsigned char byte, std::size_t bytes) override {
    to_->fill(s, to, byte, bytes);
  }
  void write_value(cudaStream_t s, std::uint64_t* word, std::uint64_t value) override {
    to_->write_value(s, word, value);
  }
  void wait_value(cudaStream_t s, std::uint64_t* word, std::uint64_t value) override {
    to_->wait_value(s, word, value);
  }
  void record_event(cudaStream_t s, cudaEvent_t e) override { to_->record_event(s, e); }
  void wait_event(cudaStream_t s, cudaEvent_t e) override { to_->wait_event(s, e); }
  cudaEvent_t make_event() override { return to_->make_event(); }
  void destroy_event(cudaEvent_t e) noexcept override { to_->destroy_event(e); }
  bool event_done(cudaEvent_t e) override { return to_->event_done(e); }
  bool query(cudaStream_t s) override { return to_->query(s); }
  void synchronize(cudaStream_t s) override { to_->synchronize(s); }
  void check() override { to_->check(); }
  void release(void* memory) override { to_->release(memory); }

 protected:
  [[nodiscard]] cede::detail::device& inner() const { return *to_; }

 private:
  std::shared_ptr<cede::detail::device> to_;
};

}  // namespace cede_test
