// expect: cede: a kernel's parameters must be trivially copyable
#include <cede/cede.hpp>

struct table {
  float* values = nullptr;
  table() = default;
#ifdef CEDE_EXPECT_OK
  table(const table&) = default;
#else
  __host__ __device__ table(const table& other) : values(other.values) {}
#endif
};

#include <cede/port/begin.hpp>
__global__ void kernel(table t) { t.values[blockIdx.x] = 1; }
#include <cede/port/end.hpp>

void use(cede::stream& s, const table& t) {
  s.launch({.grid = 4, .block = 32}, cede::body<kernel>, t);
}
