// One notion for the threads of a GPU and the vector registers of a CPU.
//
// A GPU runs threads in warps of 32 that do the same thing at the same time; a CPU has vector registers whose 4 to 16
// lanes do. Here `vec` is one float of a thread on a GPU, and the LANES floats of a whole warp on a CPU (the compiler's
// vector extension). What is written once with these words becomes threads there and vector instructions here:
//   WARPS_DO(w)   vector code: on a GPU each warp is at its own w, on a CPU a loop over the block's warps
//   FOR(i, n)     scalar code: n pieces of work over the threads of the block, on a CPU a plain loop
//   FOR_LANES(l)  scalar code on each float of a vec
//   SYNC          all threads of the block meet; between two of them, no thread reads what another one writes
//   SYNC_WARP     the same for the 32 threads of a warp, such as those of FOR(i, 10)
// WARPS and THREADS, of a block, are the program's.

#pragma once
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <vector>

#if defined(__CUDACC__) || defined(GPU_ON_THREADS)  // the latter: a test that stands in for CUDA
#define GPU 1
#define LANES 32
#define INLINE __device__ __forceinline__
#define KERNEL(name, ...) __global__ void __launch_bounds__(256) name(__VA_ARGS__)
#define BLOCK blockIdx.x
#define ANY(x) __syncthreads_or(x)
#define UNROLL _Pragma("unroll")
#define SHARED __shared__
#define SYNC __syncthreads()
#define SYNC_WARP __syncwarp()
#define WARPS_DO(w) for (int w = threadIdx.x / LANES, once = 1; once; once = 0)
#define FOR(i, n) for (int i = threadIdx.x; i < (n); i += THREADS)
#else
#define GPU 0
#ifdef __AVX512F__
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
#define INLINE static inline __attribute__((always_inline))
#define KERNEL(name, ...) static void name(__VA_ARGS__, int block)
#define BLOCK block
#define ANY(x) (x)
#define UNROLL _Pragma("GCC unroll 32")
#define SHARED
#define SYNC
#define SYNC_WARP
#define WARPS_DO(w) for (int w = 0; w < WARPS; ++w)
#define FOR(i, n) for (int i = 0; i < (n); ++i)
#endif

static double host_now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

INLINE double now_s() {
#ifdef __CUDACC__
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns * 1e-9;
#else
  return host_now_s();
#endif
}

#if GPU
typedef float vec;
typedef int ivec;
INLINE ivec lane() { return threadIdx.x % LANES; }
INLINE vec splat(float x) { return x; }
INLINE vec shuffle_xor(vec x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
INLINE vec exponential(vec x) { return __expf(x); }
INLINE vec reciprocal(vec x) { return __fdividef(1.0f, x); }
INLINE float root(float x) { return sqrtf(x); }
INLINE vec load(const float* shared) { return shared[threadIdx.x % LANES]; }
INLINE void store(float* shared, vec x) { shared[threadIdx.x % LANES] = x; }
#define FOR_LANES(l) for (int l = threadIdx.x % LANES, once_ = 1; once_; once_ = 0)
INLINE float& at(vec& x, int) { return x; }
#else
typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int ivec __attribute__((vector_size(4 * LANES)));
#define FOR_LANES(l) for (int l = 0; l < LANES; ++l)
INLINE float& at(vec& x, int l) { return ((float*)&x)[l]; }
INLINE ivec lane() {
  ivec lanes;
  FOR_LANES(l) lanes[l] = l;
  return lanes;
}
INLINE vec splat(float x) { return x - vec{}; }
INLINE vec shuffle_xor(vec x, int mask) {
#ifdef __clang__
  vec y;
  FOR_LANES(l) y[l] = x[l ^ mask];
  return y;
#else
  return __builtin_shuffle(x, lane() ^ mask);
#endif
}
// e^x = 2^n e^r with |r| <= ln 2 / 2, and e^r by its series; 2 units in the last place
INLINE vec exponential(vec x) {
  x = x > 88.0f ? splat(88.0f) : x;
  x = x < -87.0f ? splat(-87.0f) : x;
  const vec round = splat(12582912.0f);  // 1.5 * 2^23: adding it leaves no bits for a fraction
  vec n = (x * 1.44269504f + round) - round;
  vec r = x - n * 0.693359375f + n * 2.12194440e-4f;
  vec p = 1.0f + r * (1.0f + r * (0.5f + r * (1 / 6.0f + r * (1 / 24.0f + r * (1 / 120.0f + r * (1 / 720.0f))))));
  ivec power = (__builtin_convertvector(n, ivec) + 127) << 23;
  return p * (vec)power;
}
INLINE vec reciprocal(vec x) { return 1.0f / x; }
INLINE float root(float x) { return sqrtf(x); }
INLINE vec root(vec x) {
  FOR_LANES(l) x[l] = sqrtf(x[l]);
  return x;
}
INLINE vec load(const float* from) {
  vec x;
  memcpy(&x, from, sizeof x);
  return x;
}
INLINE void store(float* to, vec x) { memcpy(to, &x, sizeof x); }
#endif

INLINE vec sigmoid(vec x) { return reciprocal(1.0f + exponential(-x)); }

// ---- sums over lanes ------------------------------------------------------------------------------------------------

// Threads add up N values at once by halving: lanes that differ in one bit swap halves of their values, each adds, and
// so on. After log2(SPAN) rounds every lane holds slots(N, SPAN) finished sums, for less than 2 N / SPAN swaps a sum.
constexpr int slots(int n, int span) { return span == 1 ? n : slots((n + 1) / 2, span / 2); }

struct Place {
  int lane, slot;
};

INLINE constexpr Place find_sum(int n, int span, int i) {  // where sum i has ended up
  int at = 0;
  for (; span > 1; span /= 2, n = (n + 1) / 2) {
    if (i >= (n + 1) / 2) at += span / 2, i -= (n + 1) / 2;
  }
  return {at, i};
}

template <int N, int SPAN>
INLINE void add_over_lanes(vec* values) {
  if constexpr (SPAN > 1) {
    constexpr int HALF = (N + 1) / 2, BIT = SPAN / 2;
    const auto upper = (lane() & BIT) != 0;
    UNROLL for (int i = 0; i < HALF; ++i) {
      vec low = values[i], high = i + HALF < N ? values[i + HALF] : splat(0.0f);
      values[i] = (upper ? high : low) + shuffle_xor(upper ? low : high, BIT);
    }
    add_over_lanes<HALF, BIT>(values);
  }
}

// ---- the host's side ------------------------------------------------------------------------------------------------

enum { OK, FAILED, NO_DEVICE };

struct Failure : std::exception {
  int code;
  explicit Failure(int code) : code(code) {}
};

static thread_local char message[512] = "";

#if GPU
static void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  snprintf(message, sizeof message, "%s: %s (%s)", what, cudaGetErrorString(status), cudaGetErrorName(status));
  cudaGetLastError();  // an error that is not sticky ends here
  throw Failure(status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice ? NO_DEVICE : FAILED);
}
#define CHECK(call) check(call, #call)
#ifndef GPU_ON_THREADS
#define LAUNCH(kernel, blocks, threads, ...)        \
  do {                                              \
    kernel<<<blocks, threads>>>(__VA_ARGS__);       \
    check(cudaGetLastError(), "launch of " #kernel); \
  } while (0)
#endif
#else  // the device's memory is the host's
#define CHECK(call) call
enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
static void cudaMemcpy(void* to, const void* from, size_t size, int) { memcpy(to, from, size); }
static void cudaMemsetAsync(void* to, int value, size_t size) { memset(to, value, size); }
static void cudaDeviceSynchronize() {}
static void cudaFree(void* data) { free(data); }
template <typename T>
static void cudaMalloc(T** data, size_t size) {
  *data = (T*)malloc(size);
  if (!*data) throw std::bad_alloc();
}
#define LAUNCH(kernel, blocks, threads, ...) \
  for (int block = 0; block < (blocks); ++block) kernel(__VA_ARGS__, block)
#endif

template <typename T>
static void copy_to_device(T* device, const T* host, size_t number) {
  CHECK(cudaMemcpy(device, host, number * sizeof(T), cudaMemcpyHostToDevice));
}

template <typename T>
static void copy_to_host(T* host, const T* device, size_t number) {
  CHECK(cudaMemcpy(host, device, number * sizeof(T), cudaMemcpyDeviceToHost));
}

template <typename T>
static void clear_device(T* device, size_t number) {
  CHECK(cudaMemsetAsync(device, 0, number * sizeof(T)));
}

static void wait_for_device() { CHECK(cudaDeviceSynchronize()); }

// An array in the device's memory.
template <typename T>
struct Array {
  T* data = nullptr;
  size_t number;
  explicit Array(size_t number) : number(number) { CHECK(cudaMalloc(&data, number * sizeof(T))); }
  ~Array() { cudaFree(data); }
  Array(const T* host, size_t number) : Array(number) { copy_to_device(data, host, number); }
  Array(const Array&) = delete;
  void clear() { clear_device(data, number); }
  void write(T* host) const { copy_to_host(host, data, number); }
};
