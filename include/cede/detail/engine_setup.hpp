// SPDX-License-Identifier: Apache-2.0
// Making and ending a scheduler's inside: threads, workloads, streams, their words.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/engine.hpp>
#include <cede/detail/engine_dispatch.hpp>
#include <cede/detail/engine_foreign.hpp>
#include <cede/detail/engine_guard.hpp>
#include <cede/detail/engine_inline.hpp>
#include <cede/detail/engine_queue.hpp>
#include <cede/detail/registration.hpp>

#include <cmath>

CEDE_BEGIN_NAMESPACE

namespace detail {

inline engine::engine(std::shared_ptr<device> d, scheduler_options o)
    : device_(std::move(d)),
      options_(std::move(o)),
      timeline_(options_.timeline ? options_.timeline_events : 0) {
  if (!device_) throw invalid_argument("scheduler: the device is a null pointer");
  if (!options_.policy) options_.policy = std::make_shared<policy::strict_priority>();
  if (options_.stuck_after.count() < 1) {
    throw invalid_argument("scheduler_options.stuck_after is " +
                           std::to_string(options_.stuck_after.count()) +
                           " ms; it must be at least 1 ms");
  }
  options_.stuck_after =
      std::min<std::chrono::milliseconds>(options_.stuck_after, std::chrono::hours(24 * 365));
  if (options_.timeline && options_.timeline_events == 0) {
    throw invalid_argument(
        "scheduler_options.timeline is set and timeline_events is 0; a timeline holds at least 1 "
        "event");
  }
  if (options_.max_queued < 2) {
    throw invalid_argument("scheduler_options.max_queued is " +
                           std::to_string(options_.max_queued) +
                           "; a stream needs room for at least 2 operations");
  }
  policy_use_.emplace(*options_.policy);
  const device_scope current(*device_);
  for (const kernel_entry* k = entry_list().load(); k != nullptr; k = k->next) device_->prepare(*k);
  cover_stream_ = device_->make_stream(stream_class::cover);
  cover_word_ = static_cast<std::uint64_t*>(device_->words(sizeof(std::uint64_t), true));
  // The first use of a stream memory operation may need the whole device: now it is empty.
  device_->write_value(cover_stream_, cover_word_, 0);
  device_->wait_value(cover_stream_, cover_word_, 0);
  device_->synchronize(cover_stream_);
  probe_stream_ = device_->make_stream(stream_class::cover);
  probe_word_ = static_cast<std::uint64_t*>(device_->words(sizeof(std::uint64_t), true));
  dispatcher_ = std::thread([this] { dispatch_loop(); });
  guard_ = std::thread([this] { guard_loop(); });
  deferred_ = std::thread([this] { deferred_loop(); });
}

inline engine::~engine() {
  shutdown();
  for (cudaEvent_t e : spare_events_) device_->destroy_event(e);
  for (auto* kits : {&spare_lanes_, &spare_inline_}) {
    for (const lane_kit& kit : *kits) device_->destroy_stream(kit.lane);
  }
  for (cudaStream_t s : spare_marks_) device_->destroy_stream(s);
  if (cover_stream_ != nullptr) device_->destroy_stream(cover_stream_);
  if (probe_stream_ != nullptr) device_->destroy_stream(probe_stream_);
}

inline void engine::shutdown() noexcept {
  try {
    std::vector<std::shared_ptr<request_core>> open;
    {
      const std::scoped_lock lock(requests_mutex_);
      gone_.store(true, std::memory_order_release);
      open = open_requests_;
    }
    for (auto& r : open) {
      log("a request of workload '" + r->work->options.name +
          "' was still open when its scheduler ended; closed");
      try {
        close_request(r);
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it is in failure_
      }
    }
    {
      const std::scoped_lock lock(mutex_);
      if (stopping_) return;
      stopping_ = true;
      nudged_.store(true);
      work_.notify_all();
    }
    if (dispatcher_.joinable()) dispatcher_.join();
    await_device();
    {
      const std::scoped_lock lock(mutex_);
      down_ = true;
      guard_wake_.notify_all();
      deferred_wake_.notify_all();
      finished_.notify_all();
    }
    if (guard_.joinable()) guard_.join();
    if (deferred_.joinable()) deferred_.join();
    policy_use_.reset();
    // What holds a stream holds this engine.
    std::vector<blocker> blockers;
    std::vector<answering> unanswered;
    const std::scoped_lock lock(requests_mutex_);
    blockers.swap(blockers_);
    unanswered.swap(answering_);
    open_requests_.clear();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cede: shutting a scheduler down failed: %s\n", e.what());
  }
}

/// What is on the device still uses its callers' memory: nobody is told that the scheduler is gone
/// before it has ended.
inline void engine::await_device() noexcept {
  auto quietly = [](auto&& call) {
    try {
      call();
      return true;
    } catch (const std::exception&) {
      return false;  // a device that has failed has nothing to wait for
    }
  };
  static_cast<void>(quietly([&] {
    const device_scope current(*device_);
    while (!has_failed_.load() && latency_critical_active()) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (!quietly([&] { device_->check(); })) break;
    }
    if (!has_failed_.load()) return;
    std::vector<cudaStream_t> lanes;
    {
      const std::scoped_lock lock(mutex_, requests_mutex_, spares_mutex_);
      lanes.swap(left_running_);
      for (const auto& w : workloads_) {
        for (auto& weak : w->streams) {
          if (auto s = weak.lock()) lanes.push_back(s->lane);
        }
      }
      for (const lane_kit& kit : spare_inline_) lanes.push_back(kit.lane);
    }
    for (cudaStream_t lane : lanes) static_cast<void>(quietly([&] { device_->synchronize(lane); }));
    for (auto& [point, memory] : condemned_) trash_.push_back(memory);
    condemned_.clear();
    for (void* p : trash_) static_cast<void>(quietly([&] { device_->release(p); }));
    trash_.clear();
  }));
}

/// Index of a free entry of `activities_`.
inline unsigned engine::room_for_activity(const std::string& who) const {
  const unsigned n = activity_count_.load();
  if (n < activities_.size()) return n;
  throw invalid_argument(who + "a scheduler holds at most " + std::to_string(activities_.size()) +
                         " latency-critical workloads and streams together; keep fewer streams at "
                         "a time, they are used again once their last handle is gone");
}

inline workload_core* engine::add_workload(workload_options o) {
  throw_if_failed();
  if (gone_.load()) throw contract_error("workload '" + o.name + "': its scheduler is gone");
  const std::string who = "workload '" + o.name + "': ";
  if (!(o.weight > 0) || !std::isfinite(o.weight)) {
    throw invalid_argument(who + "weight is " + std::to_string(o.weight) +
                           "; it must be a finite number > 0");
  }
  if (o.turnaround.count() < 0 || o.hold_off.count() < 0 || o.max_hold.count() <= 0) {
    throw invalid_argument(
        who + "turnaround and hold_off must not be negative, max_hold must be positive");
  }
  if (o.priority < best_effort || o.priority > latency_critical) {
    throw invalid_argument(who + "priority is " + std::to_string(static_cast<int>(o.priority)) +
                           "; it lies between " +
                           "cede::best_effort (0) and cede::latency_critical (1000)");
  }
  if (!(o.limit.share > 0 && o.limit.share <= 1) || o.limit.burst.count() <= 0) {
    throw invalid_argument(who + "limit.share is " + std::to_string(o.limit.share) +
                           " and limit.burst " + std::to_string(o.limit.burst.count()) +
                           " ns; the share must be larger than 0 and at most 1, which is no " +
                           "limit, and the burst larger than 0");
  }
  if (o.limit.limits() && o.priority == latency_critical) {
    throw invalid_argument(who +
                           "limit.share of a latency-critical workload, which is never held back; "
                           "give it a lower priority, or launch less");
  }
  const device_scope current(*device_);
  auto w = std::make_unique<workload_core>();
  w->options = std::move(o);
  w->inline_path = w->options.priority == latency_critical;
  w->bucket = policy::token_bucket(w->options.limit);
  w->request_name = "request of " + w->options.name;
  if (!w->inline_path) {
    w->host_gate = static_cast<gate_words*>(device_->words(sizeof(gate_words), true));
    w->device_gate = static_cast<gate_words*>(device_->words(sizeof(gate_words), false));
  }
  const std::scoped_lock lock(mutex_, requests_mutex_);
  if (workloads_.size() >= max_workloads) {
    throw invalid_argument(who + "a scheduler holds at most " + std::to_string(max_workloads) +
                           " workloads");
  }
  if (w->inline_path) {
    const unsigned n = room_for_activity(who);
    activities_[n].store(&w->held);
    sources_of_.push_back({w.get(), "an open request, or a callable of run()"});
    activity_count_.store(n + 1, std::memory_order_release);
  } else {
    w->index = static_cast<unsigned>(gated_.size());
    gated_.push_back(w.get());
    const unsigned n = gate_count_.load();
    gates_[n].store(w->host_gate);
    gate_count_.store(n + 1, std::memory_order_release);
  }
  if (w->inline_path) w->track = timeline_.add_track(w->options.name, "requests");
  workloads_.push_back(std::move(w));
  return workloads_.back().get();
}

inline std::shared_ptr<stream_core> engine::add_stream(workload_core* w, cudaStream_t adopt) {
  throw_if_failed();
  throw_if_gone(*w);
  const device_scope current(*device_);
  std::unique_lock adopting(adopt_mutex_, std::defer_lock);
  if (adopt != nullptr) {
    adopting.lock();
    if (auto known = known_adoption(w, adopt)) return known;
    check_adoption(w, adopt);
  }
  auto s = std::make_shared<stream_core>();
  s->owner = shared_from_this();
  s->work = w;
  lane_kit kit;
  {
    const std::scoped_lock lock(spares_mutex_);
    auto& spare = w->inline_path ? spare_inline_ : spare_lanes_;
    // A latency-critical lane only if it has ended: what an adopted stream still has to write to
    // the words would go back behind what the new owner writes.
    const auto free = std::find_if(spare.rbegin(), spare.rend(), [](const lane_kit& k) {
      return k.activity == nullptr || !protocol::active<atomics>(*k.activity);
    });
    if (free != spare.rend()) {
      kit = *free;
      spare.erase(std::next(free).base());
    }
  }
  if (kit.done == nullptr) {
    if (w->inline_path) {
      const std::string who = "workload '" + w->options.name + "': ";
      static_cast<void>(room_for_activity(who));  // before anything is made
      kit.lane = device_->make_stream(stream_class::latency_critical);
      kit.activity = static_cast<activity_words*>(device_->words(sizeof(activity_words), true));
      const std::scoped_lock lock(mutex_, requests_mutex_);
      const unsigned n = room_for_activity(who);
      activities_[n].store(kit.activity);
      sources_of_.push_back({w, "a new stream"});
      kit.source = n;
      activity_count_.store(n + 1, std::memory_order_release);
    } else {
      kit.lane = device_->make_stream(stream_class::lane);
      kit.chain = static_cast<chain_words*>(device_->words(sizeof(chain_words), false));
      kit.slots =
          static_cast<slot_words*>(device_->words(sizeof(slot_words) * slots_per_stream, false));
      kit.records = static_cast<record_words*>(
          device_->words(sizeof(record_words) * most_workers(device_->facts()), false));
      kit.published = static_cast<publication_words*>(
          device_->words(sizeof(publication_words) * slots_per_stream, true));
      kit.token = static_cast<std::uint64_t*>(device_->words(sizeof(std::uint64_t), true));
    }
    kit.done = static_cast<std::uint64_t*>(device_->words(sizeof(std::uint64_t), true));
  }
  s->lane = kit.lane;
  s->own_lane = kit.lane;
  s->chain = kit.chain;
  s->slots = kit.slots;
  s->published = kit.published;
  s->records = kit.records;
  s->memory = kit.memory;
  s->memory_bytes = kit.memory_bytes;
  s->token = kit.token;
  s->done = kit.done;
  s->activity = kit.activity;
  s->source = kit.source;
  s->last_ordinal = kit.last_ordinal;
  s->last_id = kit.last_id;
  s->last_token = kit.last_token;
  s->last_number = kit.last_number;
  s->finished.store(kit.last_number);
  s->last_write = kit.last_write;
  if (adopt != nullptr) (w->inline_path ? s->lane : s->adopted) = adopt;
  const std::scoped_lock lock(mutex_, requests_mutex_);
  s->name = w->options.name + "/" + std::to_string(w->streams_made++);
  if (w->inline_path) sources_of_[s->source] = {w, "stream " + s->name};
  std::erase_if(w->streams, [](const auto& weak) { return weak.expired(); });
  w->streams.push_back(s);
  s->track = timeline_.add_track(w->options.name, s->name);
  device_->name_stream(s->lane, s->name);
  return s;
}

/// Called when the last handle of a stream is gone and nothing of it is queued.
inline void engine::retire(stream_core& s) noexcept {
  try {
    if (s.dirty) {
      // Launched within a request that is still open: nobody else will leave word of its end.
      const device_scope current(*device_);
      end_inline(s, begin_inline(s));
    }
  } catch (...) {
    fail(std::current_exception());
  }
  try {
    const std::scoped_lock lock(spares_mutex_);
    lane_kit kit;
    kit.lane = s.own_lane;
    kit.chain = s.chain;
    kit.slots = s.slots;
    kit.published = s.published;
    kit.records = s.records;
    kit.memory = s.memory;
    kit.memory_bytes = s.memory_bytes;
    kit.token = s.token;
    kit.done = s.done;
    kit.activity = s.activity;
    kit.source = s.source;
    kit.last_ordinal = s.last_ordinal;
    kit.last_id = s.last_id;
    kit.last_token = s.last_token;
    kit.last_number = s.last_number;
    kit.last_write = s.last_write;
    kit.last_owner = s.work;
    (s.work->inline_path ? spare_inline_ : spare_lanes_).push_back(kit);
    if (s.marks != nullptr) spare_marks_.push_back(s.marks);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): a lane less to reuse
  }
}

inline void engine::prepare(const kernel_entry& k) {
  // Loading code may wait for everything on the device, so gated work leaves first and nothing new
  // is queued meanwhile. Only bodies that came with a library opened later get here: the others
  // were loaded when the scheduler was made.
  const device_scope current(*device_);
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return !quiet_; });
  const bool inside_run = std::any_of(gated_.begin(), gated_.end(), [](const workload_core* w) {
    return std::any_of(w->busy.begin(), w->busy.end(), [](const auto& s) {
      return s->inside_run.load() == std::this_thread::get_id();
    });
  });
  if (inside_run || parked_streams() > 1 || has_failed_.load() || down_) {
    // Streams of the program wait for gated work, or it is this thread's own: it has to go on.
    lock.unlock();
    device_->prepare(k);
    return;
  }
  quiet_ = true;
  for (workload_core* w : gated_) {
    protocol::raise<atomics>(*w->host_gate);
    w->raised = true;
  }
  auto leaving = [&] {
    return placing_ != 0 || std::any_of(gated_.begin(), gated_.end(), [](const workload_core* w) {
             return std::any_of(w->busy.begin(), w->busy.end(),
                                [](const auto& s) { return on_device(*s); });
           });
  };
  nudged_.store(true);
  while (leaving() && !has_failed_.load()) finished_.wait_for(lock, std::chrono::milliseconds(1));
  uncover();
  lock.unlock();
  auto end = [&] {
    lock.lock();
    quiet_ = false;
    lock.unlock();
    nudged_.store(true);
    finished_.notify_all();
  };
  try {
    device_->prepare(k);
  } catch (...) {
    end();
    throw;
  }
  end();
}

inline stream_core::~stream_core() {
  if (owner && done != nullptr) owner->retire(*this);
}

}  // namespace detail

CEDE_END_NAMESPACE
