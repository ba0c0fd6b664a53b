// SPDX-License-Identifier: Apache-2.0
// What is kept in a file: round trips, files that anybody may have written, and several writers.
#include <cede/tuning/cache.hpp>

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "support/folder.hpp"
#include "support/json.hpp"
#include "support/random.hpp"
#include "support/tuning_simulator.hpp"

using namespace cede::tuning;
using cede::form;
using cede::detail::json_reader;
using cede::detail::json_value;
using cede_test::folder;
using cede_test::large_gpu;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

cache_entry entry(const std::string& body, candidate choice = persistent(4, 2)) {
  cache_entry e;
  e.key = {.gpu = "NVIDIA H200",
           .capability = "9.0",
           .sms = 132,
           .body = body,
           .code = fingerprint(body),
           .launch = {.grid = {4096, 2}, .block = {32, 8}, .shared = 1024},
           .budget = 31'600ns};
  e.choice = choice;
  e.measured = {{.what = persistent(4, 2), .elapsed = 100us, .longest = 4us, .launches = 5},
                {.what = gated(4096), .elapsed = 120us, .longest = 0ns, .launches = 1},
                {.what = sliced(8), .elapsed = 130us, .longest = 16us, .launches = 2},
                {.what = whole(), .elapsed = 90us, .longest = 90us, .launches = 3}};
  return e;
}

cache with(std::vector<cache_entry> entries) {
  cache c;
  for (cache_entry& e : entries) c.put(std::move(e));
  return c;
}

std::string refused(const std::string& text) {
  json_reader r(text);
  return r.read() ? std::string() : r.error();
}

}  // namespace

TEST_CASE("json reader: what RFC 8259 allows") {
  const auto read_one = [](const std::string& text) {
    json_reader r(text);
    auto v = r.read();
    REQUIRE_MESSAGE(v, text << ": " << r.error());
    return *std::move(v);
  };
  CHECK(read_one(" \t\r\n null ").what() == json_value::kind::null);
  CHECK(read_one("true").boolean() == true);
  CHECK(read_one("false").boolean() == false);
  CHECK(read_one("12").integer() == 12);
  CHECK(read_one("1.2e1").integer() == 12);
  CHECK(read_one("-0").integer() == 0);
  CHECK_FALSE(read_one("-1").integer());
  CHECK_FALSE(read_one("1.5").integer());
  CHECK_FALSE(read_one("1e300").integer());
  CHECK(read_one("9007199254740992").integer() == 9007199254740992U);
  CHECK_FALSE(read_one("9007199254740994").integer());
  CHECK_FALSE(read_one("\"1\"").integer());
  CHECK_FALSE(read_one("1").string());
  CHECK_FALSE(read_one("1").boolean());
  CHECK(read_one(R"("a\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00")").string() ==
        "a\"\\/\b\f\n\r\tA\u00e9\u20ac\U0001F600");
  CHECK(read_one("\"\u00e9\"").string() == "\u00e9");
  CHECK(read_one("[1, [], {}]").items().size() == 3);
  const json_value object = read_one(R"({"a": 1, "b": {"a": 2}})");
  CHECK(object.find("a")->integer() == 1);
  CHECK(object.find("b")->find("a")->integer() == 2);
  CHECK(object.find("c") == nullptr);
  CHECK(object.items()[1].span() == std::pair<std::size_t, std::size_t>{14, 22});
  CHECK(read_one(std::string(32, '[') + std::string(32, ']')).items().size() == 1);
}

TEST_CASE("json reader: what it does not, and what is meant to hurt") {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[",
                           "]",
                           "}",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "[1,]",
                           "[1 2]",
                           "1 2",
                           "nul",
                           "True",
                           "NaN",
                           "nan",
                           "-nan",
                           "Infinity",
                           "-Infinity",
                           "inf",
                           "+1",
                           "01",
                           "1.",
                           ".5",
                           "1e",
                           "1e+",
                           "0x10",
                           "'a'",
                           "\"a",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\u12g4\"",
                           "\"\\ud800\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\udc00\"",
                           "\"\n\"",
                           "\"\x80\"",
                           "\"\xc0\xaf\"",
                           "\"\xed\xa0\x80\"",
                           "{1:2}",
                           "{a:1}",
                           "// a\n1",
                           "1,",
                           "[1]]",
                           "\xef\xbb\xbf{}"}) {
    CAPTURE(text);
    CHECK_FALSE(refused(text).empty());
  }
  CHECK(refused(std::string("\"a\0b\"", 5)) == "a control character in a string at offset 2");
  CHECK(refused("1e400") == "a number is too large or too small at offset 5");
  CHECK(refused("-1e400").find("too large") != std::string::npos);
  CHECK(refused(std::string(5000, '9')).find("too large") != std::string::npos);
  CHECK(refused(R"({"a": 1, "b": 2, "a": 3})") == "a key stands twice in one object at offset 20");
  CHECK(refused(R"({"a": 1, "\u0061": 3})").find("twice") != std::string::npos);
  CHECK(refused(std::string(34, '[') + std::string(34, ']')) == "nested too deeply at offset 33");
  CHECK(refused(std::string(1'000'000, '[')).find("nested too deeply") == 0);
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  CHECK(refused(deep).find("nested too deeply") == 0);
  std::string many = "{";
  for (int i = 0; i < 300; ++i) many += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
  CHECK(refused(many + "}").find("too many members") != std::string::npos);
  std::string long_list = "[0";
  for (int i = 0; i < 1'000'001; ++i) long_list += ",0";
  CHECK(refused(long_list + "]").find("too many values") != std::string::npos);
}

TEST_CASE("tuning cache: what is written is read back, and is JSON") {
  cache_entry odd = entry("a \"body\" <of\\{tem,plates}\n\t\xff\u00e9>", gated(1U << 30U));
  odd.pinned = true;
  odd.measured.clear();
  odd.key.capability.clear();
  odd.key.launch.grid = {1, 2, 65535};
  const cache before = with({entry("saxpy"), odd, entry("scan", whole())});
  cache after;
  CHECK(after.parse(before.text()).empty());
  REQUIRE(after.entries().size() == 3);
  CHECK(after.entries()[0] == before.entries()[0]);
  CHECK(after.entries()[2] == before.entries()[2]);
  // Bytes that are no UTF-8 cannot be written.
  odd.key.body = "a \"body\" <of\\{tem,plates}\n\t\uFFFD\u00e9>";
  CHECK(after.entries()[1] == odd);
  CHECK(after.text() == cache(after).text());

  const auto json = cede_test::json::parse(before.text());  // another parser
  CHECK(json["version"].number() == 1);
  CHECK(json["entries"][0]["choice"]["form"].string() == "persistent");
  CHECK(json["entries"][0]["measured"].size() == 4);
  CHECK(cede_test::json::parse(cache().text())["entries"].size() == 0);
}

TEST_CASE("tuning cache: an entry belongs to one device, body, shape and budget") {
  const cache c = with({entry("saxpy")});
  const cache_key k = entry("saxpy").key;
  CHECK(c.find(k) != nullptr);
  const auto other = [&](auto change) {
    cache_key different = k;
    change(different);
    return c.find(different) == nullptr;
  };
  CHECK(other([](cache_key& x) { x.gpu = "NVIDIA H100"; }));
  CHECK(other([](cache_key& x) { x.capability = "9.1"; }));
  CHECK(other([](cache_key& x) { x.sms = 114; }));
  CHECK(other([](cache_key& x) { x.body = "saxpy2"; }));
  CHECK(other([](cache_key& x) { x.code = fingerprint("x"); }));
  CHECK(other([](cache_key& x) { x.launch.grid.x = 1; }));
  CHECK(other([](cache_key& x) { x.launch.block.y = 1; }));
  CHECK(other([](cache_key& x) { x.launch.shared = 0; }));
  CHECK(other([](cache_key& x) { x.launch.cluster.x = 2; }));
  CHECK(other([](cache_key& x) { x.budget = 10us; }));
}

TEST_CASE("tuning cache: a pin is replaced by a pin alone") {
  cache c;
  cache_entry pinned = entry("saxpy", gated(1024));
  pinned.pinned = true;
  c.put(pinned);
  c.put(entry("saxpy"));
  CHECK(c.find(pinned.key)->choice == gated(1024));
  pinned.choice = whole();
  c.put(pinned);
  CHECK(c.find(pinned.key)->choice == whole());
  CHECK(c.entries().size() == 1);
}

TEST_CASE("tuning cache: fingerprints are those of FNV-1a") {
  CHECK(fingerprint("") == "cbf29ce484222325");
  CHECK(fingerprint("a") == "af63dc4c8601ec8c");
  CHECK(fingerprint("foobar") == "85944171f73967e8");
}

TEST_CASE("tuning cache: entries that are not as they should be are left out, and kept") {
  const std::string good = with({entry("saxpy")}).text();
  const auto change = [&](const std::string& from, const std::string& to) {
    const auto at = good.find(from);
    REQUIRE(at != std::string::npos);
    return good.substr(0, at) + to + good.substr(at + from.size());
  };
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"sms\": 132", "\"sms\": \"132\""},
           {"\"sms\": 132", "\"sms\": 0"},
           {"\"sms\": 132", "\"sms\": 1e300"},
           {"\"sms\": 132, ", ""},
           {"\"grid\": [4096, 2, 1]", "\"grid\": [4096, 2]"},
           {"\"grid\": [4096, 2, 1]", "\"grid\": [4096, 2, 0]"},
           {"\"grid\": [4096, 2, 1]", "\"grid\": [4096, 2, -1]"},
           {"\"grid\": [4096, 2, 1]", "\"grid\": {\"x\": 1}"},
           {"\"budget_ns\": 31600", "\"budget_ns\": 31600.5"},
           {"\"pinned\": false", "\"pinned\": \"no\""},
           {"\"form\": \"persistent\"", "\"form\": \"perpetual\""},
           {"\"form\": \"persistent\"", "\"form\": 3"},
           {"\"workers_per_sm\": 4", "\"workers_per_sm\": 0"},
           {"\"workers_per_sm\": 4", "\"workers_per_sm\": 4294967297"},
           {"\"batch\": 2", "\"batch\": 65536"},
           {"\"chunk\": 4096", "\"chunk\": 0"},
           {"\"elapsed_ns\": 100000", "\"elapsed_ns\": 0"},
           {"\"elapsed_ns\": 100000", "\"elapsed_ns\": null"},
           {"\"launches\": 5", "\"launches\": 0"},
           {"\"measured\": [", "\"measured\": [7, "},
           {"\"choice\": {", "\"choice\": [{"},
       }) {
    CAPTURE(to);
    std::string text = change(from, to);
    if (to == "\"choice\": [{") {
      const auto at = text.find("},\n   \"measured\"");
      text.insert(at + 1, "]");
    }
    cache c;
    CHECK(
        c.parse(text) ==
        "1 entry is not as they should be and ignored; correct or remove what was written by hand");
    CHECK(c.entries().empty());
    // What somebody wrote is not thrown away with what was not understood of it.
    c.put(entry("scan"));
    cache again;
    CHECK_FALSE(again.parse(c.text()).empty());
    CHECK(again.entries().size() == 1);
    CHECK(again.text() == c.text());
  }
  // What a later version may add does not hurt.
  cache c;
  CHECK(c.parse(change("\"sms\": 132", "\"new\": [1, {}], \"sms\": 132")).empty());
  CHECK(c.entries().size() == 1);
}

TEST_CASE("tuning cache: files that are none are ignored with a sentence, and left alone") {
  const folder f;
  const std::string path = f / "cache.json";
  cache c;
  CHECK(c.load(path).empty());  // not there: nothing to say
  for (const auto& [text, said] : std::vector<std::pair<std::string, std::string>>{
           {"hello", "it is no JSON: "},
           {"[]", "something else than a tuning cache"},
           {"{\"format\": \"other\"}", "something else than a tuning cache"},
           {"{\"format\": 1}", "something else than a tuning cache"},
           {"{\"format\": \"cede tuning cache\", \"version\": 2, \"entries\": []}",
            "written by another version"},
           {"{\"format\": \"cede tuning cache\", \"entries\": []}", "written by another version"},
           {"{\"format\": \"cede tuning cache\",\"version\": 1}", "it has no list of entries"},
           {"{\"format\": \"cede tuning cache\",\"version\": 1, \"entries\": {}}",
            "it has no list of entries"},
       }) {
    CAPTURE(text);
    f.write("cache.json", text);
    const std::string warning = c.load(path);
    CHECK(warning.find("cede: the tuning cache " + path + " was not used") == 0);
    CHECK(warning.find(said) != std::string::npos);
    CHECK(c.entries().empty());
    const std::string refusal = with({entry("saxpy")}).save(path);
    CHECK(refusal.find("cede: the tuning cache " + path + " was not written: ") == 0);
    CHECK(f.read("cache.json") == text);
  }
  fs::remove(path);
  fs::create_directory(path);
  CHECK(c.load(path).find("no regular file") != std::string::npos);
  CHECK_FALSE(with({entry("saxpy")}).save(path).empty());
  f.write("large.json", std::string(9'000'000, ' '));
  CHECK(c.load(f / "large.json").find("larger than") != std::string::npos);
  CHECK_FALSE(c.load("/dev/null").empty());
  CHECK_FALSE(with({entry("saxpy")}).save(f / "no/such/folder.json").empty());
}

TEST_CASE("tuning cache: a file cut short anywhere is ignored, and begun anew") {
  const folder f;
  const std::string path = f / "cache.json";
  const std::string all = with({entry("saxpy"), entry("scan")}).text();
  for (std::size_t length = 0; length + 2 < all.size(); length += 37) {
    f.write("cache.json", all.substr(0, length));
    cache c;
    CHECK(c.load(path).empty() == (length == 0));
    CHECK(c.entries().empty());
    const bool ours = length == 0 || length > 50;  // its beginning says whose it is
    CHECK(with({entry("new")}).save(path).empty() == ours);
    if (!ours) continue;
    CHECK(c.load(path).empty());
    CHECK(c.entries().size() == 1);
  }
}

TEST_CASE("tuning cache: random changes of a file never do more than leave something out") {
  const std::string all = with({entry("saxpy"), entry("scan", gated(4096))}).text();
  cede_test::random r(77);
  unsigned good = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = all;
    for (std::uint64_t n = 1 + r.below(4); n > 0; --n) {
      const auto at = static_cast<std::size_t>(r.below(text.size()));
      switch (r.below(4)) {
        case 0:
          text[at] = static_cast<char>(r.below(256));
          break;
        case 1:
          text.erase(at, 1 + r.below(20));
          break;
        case 2:
          text.insert(at, text.substr(r.below(text.size()), r.below(30)));
          break;
        default:
          text.insert(at, std::string(1, "{}[]\",:0129.-eE\\"[r.below(16)]));
          break;
      }
      if (text.empty()) text = " ";
    }
    cache c;
    c.parse(text);
    for (const cache_entry& e : c.entries()) {
      CHECK(e.key.sms >= 1);
      CHECK(e.key.launch.tiles() >= 1);
      CHECK(e.key.budget.count() >= 0);
      for (const cache_measurement& m : e.measured) CHECK(m.elapsed.count() > 0);
    }
    cache again;
    again.parse(c.text());
    CHECK(again.entries() == c.entries());
    good += c.entries().empty() ? 0 : 1;
  }
  CHECK(good > 100);  // names changed, numbers within range
}

TEST_CASE("tuning cache: saving adds to what others have written, and pins stand") {
  const folder f;
  const std::string path = f / "cache.json";
  CHECK(with({entry("a"), entry("b")}).save(path).empty());
  cache_entry pinned = entry("c", gated(1024));
  pinned.pinned = true;
  CHECK(with({pinned}).save(path).empty());
  cache_entry newer = entry("b", sliced(4));
  CHECK(with({newer, entry("c")}).save(path).empty());
  cache c;
  CHECK(c.load(path).empty());
  CHECK(c.entries().size() == 3);
  CHECK(c.find(newer.key)->choice == sliced(4));
  CHECK(c.find(pinned.key)->choice == gated(1024));
  CHECK(c.find(pinned.key)->pinned);
  CHECK(f.count() == 2);  // the file and its lock, nothing left over
}

TEST_CASE("tuning cache: threads that save at once lose nothing, and readers see no half of it") {
  const folder f;
  const std::string path = f / "cache.json";
  constexpr int writers = 4;
  constexpr int each = 6;
  std::vector<std::string> said(writers);
  std::vector<std::thread> threads;
  for (int w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] {
      for (int i = 0; i < each; ++i) {
        said[static_cast<std::size_t>(w)] +=
            with({entry("body " + std::to_string(w) + ' ' + std::to_string(i))}).save(path, 120s);
      }
    });
  }
  std::size_t seen = 0;
  for (int i = 0; i < 100; ++i) {
    cache c;
    CHECK(c.load(path).empty());
    CHECK(c.entries().size() >= seen);
    seen = c.entries().size();
  }
  for (std::thread& t : threads) t.join();
  for (const std::string& s : said) CHECK(s.empty());
  cache c;
  CHECK(c.load(path).empty());
  CHECK(c.entries().size() == writers * each);
  CHECK(f.count() == 2);
}

TEST_CASE("tuning cache: processes that save at once lose nothing") {
  const folder f;
  const std::string path = f / "cache.json";
  std::vector<pid_t> children;
  for (int w = 0; w < 3; ++w) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      bool good = true;
      for (int i = 0; i < 5; ++i) {
        good = good && with({entry("body " + std::to_string(w) + ' ' + std::to_string(i))})
                           .save(path, 120s)
                           .empty();
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  cache c;
  CHECK(c.load(path).empty());
  CHECK(c.entries().size() == 15);
}

TEST_CASE("tuning cache: who holds the lock for too long is not waited for") {
  const folder f;
  const std::string path = f / "cache.json";
  const cede::detail::open_file lock(path + ".lock", O_RDWR | O_CREAT);
  REQUIRE(flock(lock.get(), LOCK_EX) == 0);
  CHECK(with({entry("a")}).save(path, 20ms) == "cede: the tuning cache " + path +
                                                   " was not written: another process holds " +
                                                   path + ".lock");
  CHECK_FALSE(fs::exists(path));
  REQUIRE(flock(lock.get(), LOCK_UN) == 0);
  CHECK(with({entry("a")}).save(path, 0ms).empty());
}

TEST_CASE("tuning cache: a search that begins with what was kept has nothing to search") {
  const auto bodies = cede_test::simulated_bodies();
  for (const auto& body : bodies) {
    CAPTURE(body.name);
    cede_test::tuning_simulator gpu(body, large_gpu(), {}, 3);
    search first(body.launch, gpu.machine(), {}, {.budget = 31'600ns});
    CHECK_FALSE(entry_of(first, {}));
    for (int i = 0; i < 200 && !first.settled(); ++i) {
      const candidate c = first.next();
      first.observe(c, gpu.run(c));
    }
    const auto kept = entry_of(first, entry(body.name).key);
    REQUIRE(kept);
    cache c = with({*kept});
    cache read_back;
    REQUIRE(read_back.parse(c.text()).empty());

    search second(body.launch, gpu.machine(), {}, {.budget = 31'600ns});
    REQUIRE(resume(second, *read_back.find(kept->key)));
    CHECK(second.settled());
    CHECK(second.state() == first.state());
    CHECK(second.current() == first.current());
    CHECK(second.next() == first.current());
  }
}

TEST_CASE("tuning cache: pins of a file, and choices that a body no longer allows") {
  const auto body = cede_test::simulated_bodies().front();
  cache_entry e = entry("saxpy", gated(2048));
  e.pinned = true;
  search s(body.launch, large_gpu());
  CHECK(resume(s, e));
  CHECK(s.state() == search_state::pinned);
  CHECK(s.next() == gated(2048));
  const auto kept = entry_of(s, e.key);
  REQUIRE(kept);
  CHECK(kept->pinned);
  CHECK(kept->choice == gated(2048));

  search other(body.launch, large_gpu());
  CHECK_FALSE(resume(other, entry("saxpy", persistent(16, 1))));
  CHECK(other.state() == search_state::searching);
  CHECK(other.model().records().empty());
}
