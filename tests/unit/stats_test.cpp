// SPDX-License-Identifier: Apache-2.0
#include <cede/stats.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "support/random.hpp"

using cede::histogram;
using cede::scheduler_stats;
using cede::workload_stats;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

namespace {

/// Characters (not bytes) of the longest line.
std::size_t widest(const std::string& text) {
  std::size_t best = 0;
  std::size_t line = 0;
  for (const char c : text) {
    if (c == '\n')
      line = 0;
    else if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U)
      best = std::max(best, ++line);
  }
  return best;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("histogram: buckets cover every duration once, in order") {
  for (std::size_t b = 0; b < histogram::buckets; ++b) {
    const nanoseconds low = histogram::lower_bound(b);
    REQUIRE(histogram::bucket_of(low) == b);
    if (b == 0) continue;
    REQUIRE(low > histogram::lower_bound(b - 1));
    REQUIRE(histogram::bucket_of(low - 1ns) == b - 1);
  }
  CHECK(histogram::lower_bound(0) == 0ns);
}

TEST_CASE("histogram: a bucket is no wider than 1/32 of what it holds") {
  for (std::size_t b = 0; b + 1 < histogram::buckets; ++b) {
    const auto low = histogram::lower_bound(b).count();
    const auto width = histogram::lower_bound(b + 1).count() - low;
    REQUIRE((width == 1 || width * 32 <= low));
  }
}

TEST_CASE("histogram: it is a constant expression") {
  constexpr nanoseconds median = [] {
    histogram h;
    for (int i = 1; i <= 9; ++i) h.add(nanoseconds{i});
    return h.quantile(0.5);
  }();
  static_assert(median == nanoseconds{4} || median == nanoseconds{5});
  static_assert(histogram{}.empty());
  CHECK(median >= 4ns);
}

TEST_CASE("histogram: empty") {
  const histogram h;
  CHECK(h.empty());
  CHECK(h.count() == 0);
  CHECK(h.quantile(0.99) == 0ns);
  CHECK(h.mean() == 0ns);
  CHECK(h.min() == 0ns);
  CHECK(h.max() == 0ns);
}

TEST_CASE("histogram: one value is every quantile") {
  for (const nanoseconds d : {0ns, 1ns, 31ns, 32ns, 33ns, 1234567ns, nanoseconds{30min}}) {
    histogram h;
    h.add(d);
    CAPTURE(d.count());
    for (const double q : {0.0, 0.5, 0.99, 1.0}) CHECK(h.quantile(q) == d);
    CHECK(h.min() == d);
    CHECK(h.max() == d);
    CHECK(h.mean() == d);
  }
}

TEST_CASE("histogram: quantiles are within 1/32 of the sorted sample's") {
  cede_test::random rng(1);
  for (int run = 0; run < 200; ++run) {
    histogram h;
    std::vector<nanoseconds> all;
    const auto n = 1 + rng.below(2000);
    for (std::uint64_t i = 0; i < n; ++i) {
      all.push_back(nanoseconds{static_cast<std::int64_t>(rng.next() >> (24 + rng.below(40)))});
      h.add(all.back());
    }
    std::sort(all.begin(), all.end());
    REQUIRE(h.count() == n);
    for (const double q : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
      const auto rank =
          static_cast<std::size_t>(std::max(1.0, std::ceil(q * static_cast<double>(n))));
      const auto exact = static_cast<double>(all[rank - 1].count());
      const auto told = static_cast<double>(h.quantile(q).count());
      REQUIRE(told <= exact * (1 + 1.0 / 32) + 1);
      REQUIRE(told >= exact * (1 - 1.0 / 32) - 1);
    }
    REQUIRE(h.quantile(1) == all.back());
  }
}

TEST_CASE("histogram: quantiles do not fall as q rises") {
  cede_test::random rng(2);
  histogram h;
  for (int i = 0; i < 500; ++i) h.add(nanoseconds{static_cast<std::int64_t>(rng.below(1'000'000))});
  nanoseconds last{0};
  for (int i = 0; i <= 1000; ++i) {
    const nanoseconds here = h.quantile(i / 1000.0);
    REQUIRE(here >= last);
    last = here;
  }
}

TEST_CASE("histogram: merging is the same as adding everything to one") {
  cede_test::random rng(3);
  histogram parts[3];
  histogram whole;
  for (int i = 0; i < 3000; ++i) {
    const nanoseconds d{static_cast<std::int64_t>(rng.below(1U << 30U))};
    parts[rng.below(3)].add(d);
    whole.add(d);
  }
  histogram merged;
  for (const histogram& p : parts) merged.merge(p);
  merged.merge(histogram{});
  CHECK(merged == whole);
}

TEST_CASE("histogram: merging into an empty one keeps the smallest") {
  histogram a;
  histogram b;
  b.add(50ns);
  a.merge(b);
  CHECK(a.min() == 50ns);
  b.add(20ns);
  a.merge(b);
  CHECK(a.min() == 20ns);
  CHECK(a.max() == 50ns);
  CHECK(a.count() == 3);
}

TEST_CASE("histogram: times and extremes") {
  histogram h;
  h.add(100ns, 0);
  CHECK(h.empty());
  h.add(100ns, 99);
  h.add(nanoseconds::max());
  CHECK(h.count() == 100);
  CHECK(h.max() == nanoseconds::max());
  CHECK(h.quantile(0.5) <= 101ns);
  CHECK(h.quantile(0.5) >= 97ns);
  CHECK(h.quantile(1) == nanoseconds::max());
  h.add(-5ns);
  CHECK(h.min() == 0ns);
  CHECK(h.quantile(0) == 0ns);
}

TEST_CASE("histogram: a quantile outside 0 to 1 is refused") {
  histogram h;
  h.add(1us);
  for (const double q : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN(),
                         std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_AS((void)h.quantile(q), cede::invalid_argument);
  }
  CHECK_THROWS_WITH_AS((void)histogram{}.quantile(2),
                       "histogram::quantile: 2.000000 is not between 0 and 1",
                       cede::invalid_argument);
}

TEST_CASE("to_text: says what it was given") {
  scheduler_stats s;
  s.device = "a device";
  s.raises = 7;
  s.busy = 1500us;
  s.idle = 2s;
  s.harvested = 1900ms;
  s.lost = 99ms;
  workload_stats w;
  w.name = "train";
  w.launches = 11;
  w.finished = 10;
  w.submissions = 23;
  w.yields = 13;
  w.resumes = 12;
  w.tiles = 123'456;
  w.gpu_time = 1999us;
  w.turnaround.add(9us);
  s.workloads.push_back(w);
  const std::string text = to_text(s);
  CAPTURE(text);
  for (const char* part : {"device a device\n", "busy 1.50ms", "idle 2.00s", "raises 7",
                           "harvested 1.90s", "lost 99.0ms", "train", " 11 ", " 10 ", " 23 ",
                           " 13 ", " 12 ", "123k", "2.00ms", "9.00us", "effort"})
    CHECK(contains(text, part));
  CHECK_FALSE(contains(text, "request"));
  CHECK_FALSE(contains(text, "cleared"));
  CHECK(text.back() == '\n');
}

TEST_CASE("to_text: requests get a table when there are some") {
  scheduler_stats s;
  workload_stats w;
  w.name = "serve";
  w.level = cede::latency_critical;
  w.requests = 3;
  w.service.add(100us, 3);
  w.response.add(250us, 3);
  s.workloads = {w, workload_stats{}};
  s.lost = 30us;
  s.cleared.add(13us, 7);
  const std::string text = to_text(s);
  CAPTURE(text);
  CHECK(contains(text, "critical"));
  CHECK(contains(text, "requests"));
  CHECK(contains(text, "100us"));
  CHECK(contains(text, "250us"));
  CHECK(contains(text, "lost 30.0us, per request 10.0us"));
  CHECK(contains(text, "cleared within 13.0us, P99 13.0us"));
}

TEST_CASE("to_text: what is not counted of latency-critical launches is a dash, not a nought") {
  scheduler_stats s;
  workload_stats w;
  w.name = "serve";
  w.level = cede::latency_critical;
  w.launches = 20;
  w.submissions = 20;
  w.tiles = 80;
  s.workloads = {w};
  const std::string text = to_text(s);
  CAPTURE(text);
  CHECK(contains(text, "critical       20        -       20        -        -       80\n"));
}

TEST_CASE("to_text: fits 80 columns whatever the numbers and names") {
  cede_test::random rng(4);
  const std::string names[] = {"",
                               "x",
                               "exactly seventeen",
                               std::string(500, 'n'),
                               "new\nline\tand\x01",
                               "\u00fcber\u20ac\U0001F600 with many more letters"};
  for (int run = 0; run < 300; ++run) {
    const auto any = [&] { return rng.next() >> rng.below(64); };
    const auto time = [&] { return nanoseconds{static_cast<std::int64_t>(any() >> 1U)}; };
    scheduler_stats s{names[rng.below(6)], any(), time(), time(), time(), time(), {}, {}};
    s.cleared.add(time());
    const auto n = rng.below(4);
    for (std::uint64_t i = 0; i < n; ++i) {
      workload_stats w;
      w.name = names[rng.below(6)];
      w.level = static_cast<cede::priority>(static_cast<int>(rng.next()));
      for (auto* c :
           {&w.launches, &w.finished, &w.submissions, &w.yields, &w.resumes, &w.tiles, &w.requests})
        *c = any();
      for (auto* t : {&w.gpu_time, &w.longest_tile, &w.opaque_time, &w.waits.time[1]}) *t = time();
      for (auto* h : {&w.turnaround, &w.service, &w.response}) h->add(time());
      s.workloads.push_back(w);
    }
    const std::string text = to_text(s);
    CAPTURE(text);
    REQUIRE(widest(text) <= 80);
    // Neither a control character nor half a character of UTF-8 gets through.
    REQUIRE(std::none_of(text.begin(), text.end(),
                         [](char c) { return c != '\n' && static_cast<unsigned char>(c) < 0x20; }));
  }
}

TEST_CASE("to_text: a name that is too long is cut between characters") {
  scheduler_stats s;
  workload_stats w;
  w.name = "1234567890123456\u20ac789";
  s.workloads.push_back(w);
  w.name = "1234567890123456\u20ac";
  s.workloads.push_back(w);
  const std::string text = to_text(s);
  CHECK(contains(text, "1234567890123456~ "));
  CHECK(contains(text, "1234567890123456\u20ac "));
}

TEST_CASE("numbers are rounded to three digits") {
  using cede::detail::short_count;
  using cede::detail::short_time;
  CHECK(short_count(0) == "0");
  CHECK(short_count(99'999) == "99999");
  CHECK(short_count(100'000) == "100k");
  CHECK(short_count(999'499) == "999k");
  CHECK(short_count(999'500) == "1.00M");
  CHECK(short_count(12'345'678) == "12.3M");
  CHECK(short_time(0ns) == "-");
  CHECK(short_time(-1ns) == "-");
  CHECK(short_time(999ns) == "999ns");
  CHECK(short_time(1000ns) == "1.00us");
  CHECK(short_time(9'994ns) == "9.99us");
  CHECK(short_time(9'996ns) == "10.0us");
  CHECK(short_time(99'960ns) == "100us");
  CHECK(short_time(1h) == "3.60ks");
}
