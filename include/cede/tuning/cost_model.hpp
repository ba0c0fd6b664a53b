// SPDX-License-Identifier: Apache-2.0
// What a launch is expected to take in a configuration, and how long a raise may have to wait for
// it, from what was seen of it in others.
#pragma once

#include <cede/config.hpp>
#include <cede/tuning/candidate.hpp>
#include <cede/tuning/record.hpp>
#include <cede/tuning/scaling.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace tuning {

/// What things cost on a device, whatever the body. The defaults are those of one H200; measure
/// `flag_p99` at least.
struct machine_costs {
  nanoseconds flag_p99{
      5000};                 ///< raise to its being seen, and the end of a launch to its being seen
  nanoseconds launch{4000};  ///< a launch without a tile
  nanoseconds piece{4000};   ///< from a slice to the next, and from one group of chunks to the next
  nanoseconds claim{300};    ///< what a claim holds a worker up
  double claim_every_ns = 1;     ///< claims that one counter serves
  double block_start_ns = 0.7;   ///< native blocks that the device starts
  double block_drain_ns = 0.65;  ///< native blocks that fall through
};

/// Not thread-safe; does not wait.
class cost_model {
 public:
  cost_model(const launch_facts& l, const machine_facts& m, const machine_costs& c)
      : launch_(l), machine_(m), costs_(c), claim_(ns(c.claim)) {}

  [[nodiscard]] const launch_facts& launch() const { return launch_; }
  [[nodiscard]] const machine_facts& machine() const { return machine_; }
  [[nodiscard]] const machine_costs& costs() const { return costs_; }
  [[nodiscard]] const std::vector<record>& records() const { return records_; }

  [[nodiscard]] const record* find(const candidate& c) const {
    for (const record& r : records_) {
      if (r.what == c) return &r;
    }
    return nullptr;
  }

  void observe(const candidate& c, const observation& o) {
    const double elapsed = std::max(ns(o.elapsed), 1.0);
    const double longest = longest_of(c, o, elapsed);
    record& r = at(c);
    if (r.stale) renew(r, longest);
    ++r.launches;
    const bool timed = o.complete && o.tiles >= launch_.tiles;
    const bool disturbed = timed && !take_time(r, elapsed);
    const bool guessed = o.longest.count() <= 0;
    if (longest > 0 && !(guessed && disturbed)) {
      r.longest_guessed = guessed;
      r.longest.add(longest);
    }
    if (o.turnaround.count() > 0) r.turnaround.add(ns(o.turnaround));
    refit();
  }

  /// Forgets all times; keeps the longest tiles, until they are measured again.
  void age() {
    for (record& r : records_) {
      r.stale = true;
      r.elapsed.clear();
      r.turnaround.clear();
      r.doubtful = 0;
    }
    claim_ = ns(costs_.claim);
    refit();
  }

  /// Expected time of a whole launch in ns; none before the first complete launch.
  [[nodiscard]] std::optional<double> time(const candidate& c) const {
    if (native_.empty() && persistent_.empty()) return std::nullopt;
    return time_with(c, tile_at(c, bold));
  }

  /// What a raise may have to wait for, as far as is known: until the flag is seen, the pieces that
  /// run to their ends, and the blocks that fall through. Of a candidate that was not launched,
  /// more workers are taken to make tiles longer, as the last ones did and a little more, and fewer
  /// not to make them shorter. None before the first launch.
  [[nodiscard]] std::optional<nanoseconds> bound(const candidate& c) const {
    const record* r = find(c);
    const std::optional<double> piece = piece_of(c, r, false);
    if (!piece) return std::nullopt;
    double b = bound_with(c, *piece);
    if (r != nullptr && r->turnaround.size() >= few_turnarounds) {
      // Measured, it need not be computed.
      const double seen = r->turnaround.high();
      b = r->turnaround.size() >= many_turnarounds ? seen * 1.1 : std::max(b, seen);
    }
    return rounded(b);
  }
  /// What a raise would have had to wait for in one launch, by the longest stretch it showed; none
  /// if that was not measured.
  [[nodiscard]] std::optional<nanoseconds> bound_in(const candidate& c,
                                                    const observation& o) const {
    if (o.longest.count() <= 0) return std::nullopt;
    return rounded(bound_with(c, ns(o.longest)));
  }
  /// The bound if more workers do not make tiles longer and fewer make them shorter: to be hoped
  /// for where nothing else is left.
  [[nodiscard]] std::optional<nanoseconds> hoped_bound(const candidate& c) const {
    const std::optional<double> piece = piece_of(c, find(c), true);
    if (!piece) return std::nullopt;
    return rounded(bound_with(c, *piece));
  }

  static double ns(nanoseconds t) { return static_cast<double>(t.count()); }

 private:
  static constexpr std::size_t few_turnarounds = 8;
  static constexpr std::size_t many_turnarounds = 32;
  /// Longest tile by mean tile, where only the mean is known.
  static constexpr double unmeasured_skew = 2;
  /// Time by expected time from which on a single one is doubted.
  static constexpr double surprise = 1.3;
  /// How many times as many blocks a trend is followed for: a time that is not as expected costs
  /// one slow launch, a tile that is longer than expected delays somebody.
  static constexpr double bold = 8;
  static constexpr double careful = 1.5;
  /// What a piece not yet timed may take beyond what is expected.
  static constexpr double unmeasured_piece = 1.15;

  static nanoseconds rounded(double t) {
    return nanoseconds{static_cast<std::int64_t>(std::min(std::ceil(t), 9e18))};
  }

  record& at(const candidate& c) {
    for (record& r : records_) {
      if (r.what == c) return r;
    }
    records_.emplace_back().what = c;
    return records_.back();
  }

  /// A first time that is much longer than all others let expect may have been disturbed: it is set
  /// aside until there is a second one, and false is returned.
  bool take_time(record& r, double elapsed) {
    if (r.elapsed.empty() && r.doubtful == 0) {
      const std::optional<double> expected = time(r.what);
      if (expected && elapsed > surprise * *expected) {
        r.doubtful = elapsed;
        return false;
      }
    }
    if (r.doubtful != 0) r.elapsed.add(std::exchange(r.doubtful, 0.0));
    r.elapsed.add(elapsed);
    return true;
  }

  /// The first launch of a candidate since its tiles were said to have changed: those of others,
  /// until they are launched again, are taken to have changed likewise.
  void renew(record& r, double longest) {
    const double before = r.longest.empty() ? 0 : longest_known(r);
    r.stale = false;
    r.longest.clear();
    if (longest <= 0 || before <= 0) return;
    for (record& other : records_) {
      if (other.stale) other.longest.scale(longest / before);
    }
  }

  [[nodiscard]] double blocks_per_sm(const candidate& c) const {
    return c.how == form::persistent ? c.workers_per_sm : std::max(1U, launch_.native_fit);
  }
  [[nodiscard]] double places(const candidate& c) const {
    const auto tiles = static_cast<double>(launch_.tiles);
    if (c.how == form::persistent) return static_cast<double>(workers_of(c, launch_, machine_));
    return std::min(tiles, static_cast<double>(machine_.sms) * std::max(1U, launch_.native_fit));
  }
  /// How often each place takes a tile, until the last is through with its last.
  static double rounds(double tiles, double places) {
    const double even = tiles / places;
    return even < 16 ? std::ceil(even) : even + 0.5;
  }
  /// Groups of chunks that are queued one after another.
  [[nodiscard]] double groups(const candidate& c) const {
    const double chunks =
        std::ceil(static_cast<double>(launch_.tiles) / static_cast<double>(c.chunk));
    return std::ceil(chunks / std::max(1U, machine_.chunks_in_flight));
  }
  /// What it takes the device to start all native blocks, and those of the gated form to look at
  /// their gate; or one counter to hand out all claims.
  [[nodiscard]] double starting(const candidate& c) const {
    const auto tiles = static_cast<double>(launch_.tiles);
    if (c.how == form::persistent) return tiles / c.batch * costs_.claim_every_ns;
    return tiles * costs_.block_start_ns * (c.how == form::gated ? 1.5 : 1);
  }

  /// Time of a launch whose tiles take `tile`.
  [[nodiscard]] double time_with(const candidate& c, double tile) const {
    const auto tiles = static_cast<double>(launch_.tiles);
    const double p = places(c);
    const double fixed = ns(costs_.launch);
    switch (c.how) {
      case form::persistent:
        return fixed + std::max(rounds(tiles, p) * (tile + claim_ / c.batch), starting(c));
      case form::gated:
        return fixed + groups(c) * ns(costs_.piece) +
               std::max(rounds(tiles, p) * (tile + ns(costs_.claim)), starting(c));
      case form::sliced: {
        const auto k = static_cast<double>(c.slices);
        return k * (ns(costs_.piece) + rounds(std::ceil(tiles / k), p) * tile);
      }
      default:
        return fixed + std::max(rounds(tiles, p) * tile, starting(c));
    }
  }
  /// The reverse: how long tiles took, claims left out. Where something else was the limit, such as
  /// how many blocks the device starts, that counts as the tiles' own.
  [[nodiscard]] double tile_from(const candidate& c, double elapsed) const {
    const auto tiles = static_cast<double>(launch_.tiles);
    const double p = places(c);
    double each = 0;
    double claim = 0;
    switch (c.how) {
      case form::persistent:
        each = (elapsed - ns(costs_.launch)) / rounds(tiles, p);
        claim = claim_ / c.batch;
        break;
      case form::gated:
        each = (elapsed - ns(costs_.launch) - groups(c) * ns(costs_.piece)) / rounds(tiles, p);
        claim = ns(costs_.claim);
        break;
      case form::sliced: {
        const auto k = static_cast<double>(c.slices);
        each = (elapsed / k - ns(costs_.piece)) / rounds(std::ceil(tiles / k), p);
        break;
      }
      default:
        each = (elapsed - ns(costs_.launch)) / rounds(tiles, p);
        break;
    }
    // At least a part of what was measured: the costs are those of another machine, maybe.
    const double least = 0.1 * elapsed / rounds(tiles, p);
    return std::max({each - claim, 0.3 * each, least});
  }

  /// Takes the costs of a claim and of a tile out of what was measured.
  void refit() {
    fit_claim();
    persistent_.clear();
    native_.clear();
    for (const record& r : records_) {
      if (r.elapsed.empty()) continue;
      auto& into = r.what.how == form::persistent ? persistent_ : native_;
      const double t = r.elapsed.median();
      merge(into, {blocks_per_sm(r.what), tile_from(r.what, t), t < 1.5 * starting(r.what)});
    }
  }
  /// From batches of two sizes with the same workers.
  void fit_claim() {
    double sum = ns(costs_.claim);
    double weight = 1;
    for (const record& a : records_) {
      for (const record& b : records_) {
        if (a.what.how != form::persistent || b.what.how != form::persistent) continue;
        if (a.what.workers_per_sm != b.what.workers_per_sm || a.what.batch >= b.what.batch)
          continue;
        if (a.elapsed.empty() || b.elapsed.empty()) continue;
        const double r = rounds(static_cast<double>(launch_.tiles), places(a.what));
        const double share = 1.0 / a.what.batch - 1.0 / b.what.batch;
        const double claim = (a.elapsed.median() - b.elapsed.median()) / r / share;
        const double certain = 4 * share;
        sum += certain * std::clamp(claim, 0.0, 20 * ns(costs_.claim));
        weight += certain;
      }
    }
    claim_ = sum / weight;
  }

  /// Expected time of a tile, from those of the same kind, and of the other where none was measured
  /// with as many blocks.
  [[nodiscard]] double tile_at(const candidate& c, double reach) const {
    const bool workers = c.how == form::persistent;
    return tile_between(workers ? persistent_ : native_, workers ? native_ : persistent_,
                        blocks_per_sm(c), reach);
  }

  [[nodiscard]] double longest_of(const candidate& c, const observation& o, double elapsed) const {
    if (o.longest.count() > 0) return ns(o.longest);
    // Not of a launch that something else disturbed.
    const std::optional<double> whole = time(c);
    const double share = static_cast<double>(o.tiles) / static_cast<double>(launch_.tiles);
    if (whole && elapsed > surprise * (*whole * share + ns(costs_.launch))) return 0;
    if (c.how == form::sliced) return o.complete ? elapsed / static_cast<double>(c.slices) : 0;
    if (c.how == form::whole) return o.complete ? elapsed : 0;
    const double each = static_cast<double>(o.tiles) / places(c);
    if (each < 1) return 0;
    return skew() * elapsed / std::ceil(each);
  }
  /// Longest tile by mean tile.
  [[nodiscard]] double skew() const {
    const double s = measured_skew();
    return s == 0 ? unmeasured_skew : 1.1 * std::max(s, 1.0);
  }
  /// From where both were measured; 0 = nowhere.
  [[nodiscard]] double measured_skew() const {
    double most = 0;
    for (const record& r : records_) {
      if (r.what.how != form::persistent || r.what.batch != 1) continue;
      if (r.elapsed.empty() || r.longest.empty()) continue;
      most = std::max(most, longest_known(r) / tile_from(r.what, r.elapsed.median()));
    }
    return most;
  }

  [[nodiscard]] double bound_with(const candidate& c, double piece) const {
    const double drain =
        static_cast<double>(blocks_after_raise(c, launch_, machine_)) * costs_.block_drain_ns;
    return ns(costs_.flag_p99) + pieces_after_raise(c, launch_, machine_) * piece + drain;
  }

  /// The longest stretch of a candidate that a raise cannot cut.
  [[nodiscard]] std::optional<double> piece_of(const candidate& c, const record* r,
                                               bool hoping) const {
    std::optional<double> piece = piece_seen(c, r, hoping);
    const double s = measured_skew();
    // Of several tiles a claim only the mean is measured; that is not what a single one takes.
    if (piece && gives_back(c, launch_) && c.batch > 1 && s > 0) {
      piece = std::max(*piece, s * tile_at(c, careful));
    }
    return piece;
  }
  [[nodiscard]] std::optional<double> piece_seen(const candidate& c, const record* r,
                                                 bool hoping) const {
    if (r != nullptr && !r->longest.empty()) return longest_known(*r);
    if (c.how == form::whole || c.how == form::sliced) {
      if (native_.empty() && persistent_.empty()) return std::nullopt;
      return time_with(c, tile_at(c, 1)) * unmeasured_piece /
             static_cast<double>(std::max<std::uint64_t>(c.slices, 1));
    }
    const std::vector<level> known = longest_tiles(c);
    if (known.empty()) return std::nullopt;
    const double blocks = blocks_per_sm(c);
    const level* below = nullptr;
    const level* above = nullptr;
    for (const level& l : known) {
      if (l.blocks <= blocks && (below == nullptr || l.blocks > below->blocks)) below = &l;
      if (l.blocks >= blocks && (above == nullptr || l.blocks < above->blocks)) above = &l;
    }
    if (below == nullptr) {
      return hoping ? above->value * std::sqrt(blocks / above->blocks) : above->value;
    }
    if (below->blocks == blocks || hoping) return below->value;
    const double longer = below->value * growth(below->blocks, blocks);
    if (above == nullptr) return longer;
    // Tiles first keep their length and then grow in proportion: never beyond the line between two.
    return std::min(longer,
                    between(*below, {above->blocks, std::max(above->value, below->value)}, blocks));
  }

  /// Longest tiles by blocks per SM, as they bear on the batch of a candidate.
  [[nodiscard]] std::vector<level> longest_tiles(const candidate& c) const {
    std::vector<level> own;
    std::vector<level> other;
    for (const record& r : records_) {
      if (r.longest.empty() || (r.what.how != form::persistent && r.what.how != form::gated)) {
        continue;
      }
      level l{blocks_per_sm(r.what), longest_known(r)};
      // The mean over a claim is no longer than that over the half of it that took longer. A whole
      // claim takes longer than a part of it. Where single tiles are given back, all that was seen
      // of them counts.
      const bool single = launch_.traits.independent;
      if (c.how == form::persistent && r.what.batch > c.batch && !single) {
        l.value *= static_cast<double>(r.what.batch) / c.batch;
      }
      merge(r.what.how == c.how ? own : other, l, single);
    }
    if (c.how == form::gated && !own.empty()) return own;
    // Workers that nothing is known of are like native blocks, and the other way round.
    for (const level& l : other) {
      if (std::none_of(own.begin(), own.end(),
                       [&](const level& o) { return o.blocks == l.blocks; })) {
        own.push_back(l);
      }
    }
    return own;
  }

  /// How many times longer tiles are taken to be with more blocks: as the times say, where those of
  /// as many were measured; else as the last ones grew, and a little more.
  [[nodiscard]] double growth(double from, double to) const {
    const auto at_least = [&](const std::vector<level>& known) {
      return std::any_of(known.begin(), known.end(),
                         [&](const level& l) { return l.blocks >= to; });
    };
    if (at_least(persistent_) || at_least(native_)) {
      const double longer = tile_between(persistent_, native_, to, careful) /
                            tile_between(persistent_, native_, from, careful);
      return 1.1 * std::max(longer, 1.0);
    }
    // Of single tiles, so that means over claims do not come in.
    const level* last = nullptr;
    const level* before = nullptr;
    const std::vector<level> known = longest_tiles(persistent(1, 1));
    for (const level& l : known) {
      if (l.blocks <= from && (last == nullptr || l.blocks > last->blocks)) last = &l;
    }
    for (const level& l : known) {
      if (last != nullptr && l.blocks < last->blocks &&
          (before == nullptr || l.blocks > before->blocks)) {
        before = &l;
      }
    }
    if (last == nullptr) return to / from;
    return extrapolated(before, *last, to, careful) / extrapolated(before, *last, from, careful);
  }
  launch_facts launch_;
  machine_facts machine_;
  machine_costs costs_;
  double claim_;  ///< learned
  std::vector<record> records_;
  std::vector<level> persistent_;  ///< time of a tile in workers, claims left out
  std::vector<level> native_;      ///< in native blocks
};

}  // namespace tuning

CEDE_END_NAMESPACE
