// SPDX-License-Identifier: Apache-2.0
// The whole public interface at once, by sixteen threads, from seeds: whatever is called beside
// whatever else, every tile runs once, every stream keeps its order, every wait holds and nothing
// hangs. What is right does not depend on time; only how many rounds fit into the limit does.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "scheduler_fixture.hpp"
#include "support/forwarding_device.hpp"
#include "support/random.hpp"
#include "support/sanitized.hpp"

using namespace cede_test;
using cede::detail::stream_class;

namespace {

constexpr unsigned tiles = 12;
constexpr unsigned crowd = 16;

/// What must not be, by kind.
struct tally {
  std::atomic<unsigned> disordered{0};  // a launch found its tile at another step
  std::atomic<unsigned> early{0};       // what follows a wait ran before what was waited for
  std::atomic<unsigned> unequal{0};     // a copy or fill was seen half done, or not at all
  std::atomic<unsigned> unfinished{0};  // a call returned before what it waits for was done
  std::atomic<unsigned> called{0};      // callables of run and defer
};

/// Takes every tile of a cell from `from` to the next number. Plain accesses: the thread sanitizer
/// sees two launches that are not ordered.
struct advance {
  int* values;
  int from;
  std::atomic<long>* ran;
  tally* t;
  void operator()(cede::block b) const {
    int& v = values[b.index().x];
    if (v != from) ++t->disordered;
    v = from + 1;
    ++*ran;
  }
};
/// The same for bodies that are slow, so that they are often preempted.
struct advance_slowly {
  advance one;
  void operator()(cede::block b) const {
    std::this_thread::sleep_for(std::chrono::microseconds(30));
    one(b);
  }
};
/// Finds as many tiles of another stream run as there were when the wait for it was called.
struct behind {
  const std::atomic<long>* ran;
  long least;
  tally* t;
  void operator()(cede::block) const {
    if (ran->load() < least) ++t->early;
  }
};
/// Finds all of a buffer equal to one value.
struct all_equal {
  const int* from;
  int value;
  tally* t;
  void operator()(cede::block b) const {
    if (from[b.index().x] != value) ++t->unequal;
  }
};

/// A stream with what its launches must have done. A shared one is used under its mutex; the order
/// of the calls is then that of the steps.
struct cell {
  std::mutex mutex;
  cede::workload* work = nullptr;
  bool gated = false;
  cudaStream_t adopted = nullptr;
  cede::stream handle;
  std::array<int, tiles> values{};
  int step = 0;
  std::atomic<long> ran{0};
};

/// A host device on which few streams may wait at once.
class crowded_device : public forwarding_device {
 public:
  crowded_device(std::shared_ptr<cede::detail::device> to, unsigned parked_limit)
      : forwarding_device(std::move(to)), facts_(inner().facts()) {
    facts_.parked_limit = parked_limit;
  }
  const cede::detail::device_facts& facts() const override { return facts_; }

 private:
  cede::detail::device_facts facts_;
};

struct arena {
  tally t;
  std::shared_ptr<cede::detail::device> device;
  std::array<std::array<cell, 4>, crowd> own;  // gated and critical, made and adopted
  std::array<cell, 5> shared;
  cede::scheduler cpu;
  std::vector<cede::workload> work;
  std::atomic<unsigned> queued_calls{0};
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> gated_launches{0};
  std::mutex trouble_mutex;
  std::string trouble;

  explicit arena(unsigned parked_limit)
      : device(std::make_shared<crowded_device>(cede::detail::make_host_device({.sms = 3}),
                                                parked_limit)),
        cpu(device, {.timeline = true, .timeline_events = 512, .max_queued = 24}) {
    work.push_back(cpu.workload(critical("serve")));
    work.push_back(cpu.workload(critical("answer")));
    work.push_back(cpu.workload({.name = "train", .weight = 2}));
    work.push_back(cpu.workload({.name = "batch", .hold_off = 50us}));
    work.push_back(cpu.workload({.name = "tune", .priority = cede::priority{500}}));
    unsigned n = 0;
    for (auto& cells : own) {
      for (unsigned kind = 0; kind < cells.size(); ++kind) {
        set_up(cells[kind], kind % 2 == 0 ? 2 + n++ % 3 : n % 2, kind >= 2);
      }
    }
    for (unsigned i = 0; i < shared.size(); ++i) set_up(shared[i], i, false);
  }
  void set_up(cell& c, std::size_t which, bool adopt) {
    c.work = &work[which];
    c.gated = which >= 2;
    if (adopt) c.adopted = device->make_stream(stream_class::lane);
    open(c);
  }
  void open(cell& c) const {
    c.handle = c.adopted != nullptr ? c.work->adopt(c.adopted) : c.work->stream();
  }
  void note_trouble(const std::string& what) {
    const std::scoped_lock lock(trouble_mutex);
    trouble += what + "\n";
  }
};

/// One thread's part.
class visitor {
 public:
  visitor(arena& a, unsigned number, std::uint64_t seed)
      : a_(a),
        number_(number),
        random_(seed * 1000 + number),
        raw_(a.device->make_stream(stream_class::lane)),
        event_(a.device->make_event()) {}

  void visit(unsigned rounds, std::chrono::steady_clock::time_point end) {
    try {
      for (unsigned i = 0; i < rounds && std::chrono::steady_clock::now() < end; ++i) {
        maybe_request();
        use_a_cell();
      }
      request_.reset();
      a_.device->synchronize(raw_);
    } catch (const std::exception& e) {
      request_.reset();
      a_.note_trouble(e.what());
    }
  }

 private:
  std::uint64_t pick(std::uint64_t n) { return random_.below(n); }

  void maybe_request() {
    if (request_) {
      if (pick(4) != 0) return;
      if (pick(3) == 0) {
        std::thread([r = std::move(*request_)]() mutable { r.close(); }).join();
      } else if (pick(2) == 0) {
        request_->close();
      }
      request_.reset();
    } else if (pick(6) == 0) {
      request_.emplace(a_.work[pick(2)].request());
      ++a_.requests;
    }
  }

  void use_a_cell() {
    if (pick(3) != 0) {
      act(a_.own[number_][pick(4)]);
      return;
    }
    cell& c = a_.shared[pick(a_.shared.size())];
    std::unique_lock lock(c.mutex, std::try_to_lock);
    // Whoever holds it may wait for gated work, which an open request would keep out: no waiting
    // for a lock of the program's own within one.
    if (!lock.owns_lock() && request_) return;
    if (!lock.owns_lock()) lock.lock();
    act(c);
  }

  void act(cell& c) {
    switch (pick(16)) {
      case 0:
      case 1:
      case 2:
        return launch(c);
      case 3:
        return run(c);
      case 4:
        return defer(c);
      case 5:
        return copy(c);
      case 6:
        return fill(c);
      case 7:
        return wait_for_other(c, false);
      case 8:
        return wait_for_other(c, true);
      case 9:
        return wait_for_raw_work(c);
      case 10:
        return change_handle(c);
      case 11:
        return synchronize(c);
      case 12:
        return suspend(c);
      case 13:
        return look(c);
      case 14:
        return direct(c);
      default:
        return launch_and_check(c);
    }
  }

  advance next(cell& c) { return {c.values.data(), c.step++, &c.ran, &a_.t}; }

  template <class Body>
  void launch(cell& c, const Body& body) {
    constexpr cede::form forms[] = {cede::form::persistent, cede::form::gated, cede::form::sliced,
                                    cede::form::whole};
    cede::launch_options o{.form = forms[pick(4)]};
    if (o.form == cede::form::persistent) o.tiles_per_claim = 1 + static_cast<unsigned>(pick(3));
    if (o.form == cede::form::gated) o.chunk = 1 + pick(tiles);
    if (o.form == cede::form::sliced) o.slices = 1 + pick(5);
    cede::stream copy = c.handle;
    if (pick(3) == 0) {
      copy.launch({.grid = tiles}, body);
    } else {
      copy.launch({.grid = tiles}, o, body);
    }
    if (c.gated) ++a_.gated_launches;
  }
  void launch(cell& c) {
    const unsigned n = 1 + static_cast<unsigned>(pick(3));
    for (unsigned i = 0; i < n; ++i) {
      if (pick(8) == 0) {
        launch(c, advance_slowly{next(c)});
      } else {
        launch(c, next(c));
      }
    }
  }
  /// Native blocks by the program itself, on a raw stream.
  template <class Body>
  static void submit(cede::detail::device& d, cudaStream_t raw, const Body& body) {
    cede::detail::submission what;
    what.kernel = &cede::detail::entry_of<Body, cede::detail::this_compiler, true>();
    what.body = &body;
    what.geometry = {.grid = tiles};
    what.count = tiles;
    d.submit(raw, what);
  }
  void run(cell& c) {
    ++a_.queued_calls;
    const int reached = c.step;
    const advance body = next(c);
    c.handle.run([&](cudaStream_t raw) {
      ++a_.t.called;
      // On a gated stream all before it is done, and seen by this thread.
      if (c.gated && c.values != filled(reached)) ++a_.t.unfinished;
      submit(*a_.device, raw, body);
    });
  }
  void defer(cell& c) {
    ++a_.queued_calls;
    c.handle.defer([&a = a_, body = next(c)](cudaStream_t raw) {
      ++a.t.called;
      submit(*a.device, raw, body);
    });
  }
  void direct(cell& c) {
    // On the program's stream, in its order. cede speaks of what went through cede: so a launch
    // follows, and what waits for that waits for this.
    if (c.adopted != nullptr) submit(*a_.device, c.adopted, next(c));
    launch(c);
  }
  static std::array<int, tiles> filled(int value) {
    std::array<int, tiles> all{};
    all.fill(value);
    return all;
  }

  void copy(cell& c) {
    auto* seen = static_cast<int*>(std::malloc(sizeof c.values));
    c.handle.copy(seen, c.values.data(), sizeof c.values);
    const int copied = c.step;
    launch(c);
    launch(c, all_equal{seen, copied, &a_.t});
    c.handle.free_after(seen);
  }
  void fill(cell& c) {
    auto* memory = static_cast<int*>(std::malloc(sizeof c.values));
    const auto byte = static_cast<unsigned char>(pick(256));
    int value = 0;
    std::memset(&value, byte, sizeof value);
    c.handle.fill(memory, byte, sizeof c.values);
    launch(c, all_equal{memory, value, &a_.t});
    c.handle.free_after(memory);
  }

  /// Another cell's number of tiles run once everything on it so far is done, with an event that
  /// stands for that. False if the cell is in use.
  template <class Take>
  bool with_other(const cell& c, Take take) {
    cell& other = pick(2) == 0 ? a_.own[number_][pick(4)] : a_.shared[pick(a_.shared.size())];
    if (&other == &c) return false;
    const bool is_shared =
        &other >= a_.shared.data() && &other < a_.shared.data() + a_.shared.size();
    std::unique_lock lock(other.mutex, std::defer_lock);
    if (is_shared && !lock.try_lock()) return false;
    take(other, static_cast<long>(tiles) * other.step);
    return true;
  }
  void wait_for_other(cell& c, bool raw_event) {
    long least = 0;
    const std::atomic<long>* ran = nullptr;
    cede::event e;
    const bool waited = with_other(c, [&](cell& other, long target) {
      ran = &other.ran;
      least = target;
      if (raw_event) {
        other.handle.record(event_);
      } else {
        e = other.handle.record();
      }
    });
    if (!waited) return launch(c);
    if (!raw_event) {
      c.handle.wait(e);
      launch(c, behind{ran, least, &a_.t});
      if (pick(4) == 0) {
        e.synchronize();
        if (!e.done() || ran->load() < least) ++a_.t.unfinished;
      }
      return;
    }
    c.handle.wait(event_);
    forget_event();
    launch(c, behind{ran, least, &a_.t});
  }
  /// What was waited for must not change by what becomes of the event.
  void forget_event() {
    if (pick(2) == 0) {
      a_.device->record_event(raw_, event_);
    } else {
      a_.device->destroy_event(event_);
      event_ = a_.device->make_event();
    }
  }
  void wait_for_raw_work(cell& c) {
    submit(*a_.device, raw_, behind{&raw_ran_, raw_target_, &a_.t});
    struct produce {
      std::atomic<long>* ran;
      void operator()(cede::block) const { ++*ran; }
    };
    submit(*a_.device, raw_, produce{&raw_ran_});
    raw_target_ += tiles;
    if (pick(2) == 0) {
      a_.device->record_event(raw_, event_);
      c.handle.wait(event_);
      forget_event();
    } else {
      c.handle.wait(raw_);
    }
    launch(c, behind{&raw_ran_, raw_target_, &a_.t});
  }

  void change_handle(cell& c) {
    if (c.adopted != nullptr) {
      if (pick(2) == 0) c.handle = cede::stream();  // what is queued goes on
      a_.open(c);
    } else {
      cede::stream old = std::move(c.handle);
      a_.open(c);
      c.handle.wait(old.record());
    }
    launch(c);
  }
  void synchronize(cell& c) {
    if (pick(2) == 0) {
      static_cast<void>(c.handle.synchronize_for(std::chrono::microseconds(pick(300))));
      return;
    }
    c.handle.synchronize();
    if (c.values != filled(c.step)) ++a_.t.unfinished;
  }
  void suspend(cell& c) {
    if (!c.gated) return launch(c);
    launch(c);
    c.work->suspend();
    std::this_thread::sleep_for(std::chrono::microseconds(pick(200)));
    c.work->resume();
  }
  void look(cell& c) {
    switch (pick(4)) {
      case 0:
        return static_cast<void>(a_.cpu.stats());
      case 1:
        return static_cast<void>(a_.cpu.explain());
      case 2:
        return c.work->synchronize();
      default:
        return static_cast<void>(c.handle.record().done());
    }
  }
  void launch_and_check(cell& c) {
    launch(c);
    const cede::event e = c.handle.record();
    const long least = static_cast<long>(tiles) * c.step;
    if (e.synchronize_for(std::chrono::microseconds(pick(500))) && c.ran.load() < least)
      ++a_.t.unfinished;
  }

  arena& a_;
  unsigned number_;
  cede_test::random random_;
  cudaStream_t raw_;
  cudaEvent_t event_;
  std::atomic<long> raw_ran_{0};
  long raw_target_ = 0;
  std::optional<cede::request> request_;
};

void hammer(unsigned parked_limit, std::uint64_t seed, unsigned rounds,
            std::chrono::steady_clock::time_point end) {
  CAPTURE(seed);
  arena a(parked_limit);
  std::vector<std::unique_ptr<visitor>> visitors;
  for (unsigned n = 0; n < crowd; ++n) visitors.push_back(std::make_unique<visitor>(a, n, seed));
  std::vector<std::thread> threads;
  for (auto& v : visitors) threads.emplace_back([&] { v->visit(rounds, end); });
  for (auto& thread : threads) thread.join();
  CHECK(a.trouble == "");
  auto settle = [&](cell& c) {
    REQUIRE_MESSAGE(c.handle.synchronize_for(patience), a.cpu.explain());
    if (c.adopted != nullptr) a.device->synchronize(c.adopted);
    CHECK(c.ran == static_cast<long>(tiles) * c.step);
    std::array<int, tiles> expected{};
    expected.fill(c.step);
    CHECK(c.values == expected);
  };
  for (auto& cells : a.own) {
    for (cell& c : cells) settle(c);
  }
  for (cell& c : a.shared) settle(c);
  for (auto& w : a.work) w.synchronize();
  CHECK(a.t.disordered == 0);
  CHECK(a.t.early == 0);
  CHECK(a.t.unequal == 0);
  CHECK(a.t.unfinished == 0);
  CHECK(a.t.called == a.queued_calls);
  CHECK(eventually([&] {
    return stats_of(a.cpu, "serve").requests + stats_of(a.cpu, "answer").requests == a.requests;
  }));
  std::uint64_t launches = 0;
  for (const auto& w : a.cpu.stats().workloads) {
    if (w.level == cede::latency_critical) continue;  // not followed to their ends
    launches += w.launches;
    CHECK(w.finished == w.launches);
    CHECK(w.resumes == w.yields);
  }
  CHECK(launches == a.gated_launches);
}

}  // namespace

TEST_CASE("everything at once, by sixteen threads") {
  const auto limit = cede_test::sanitized ? 20s : 4s;
  const unsigned rounds = cede_test::sanitized ? 40 : 150;
  SUBCASE("any number of streams may wait on the device") {
    const auto end = std::chrono::steady_clock::now() + limit;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) hammer(1U << 30U, seed, rounds, end);
  }
  SUBCASE("few may, as on a GPU") {
    const auto end = std::chrono::steady_clock::now() + limit;
    for (std::uint64_t seed = 11; seed <= 14; ++seed) hammer(6, seed, rounds, end);
  }
}
