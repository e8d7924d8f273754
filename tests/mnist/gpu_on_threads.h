// Stands in for CUDA, so that the lines written for a GPU run on a CPU: a thread of the system for each thread of a
// block, one block after another. Barriers and shuffles are real, so ThreadSanitizer sees a missing one as a data race.

#pragma once
#include <pthread.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define GPU_ON_THREADS 1
#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(threads)
#define __shared__ static  // blocks run one after another, so one copy is each block's own

struct Index {
  int x;
};
static thread_local Index threadIdx, blockIdx, blockDim, gridDim;

struct uchar4 {
  unsigned char x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

static pthread_barrier_t block_barrier, warp_barriers[32];
static float exchanged[1024];
static int votes[1024];

inline void __syncthreads() { pthread_barrier_wait(&block_barrier); }
inline void __syncwarp() { pthread_barrier_wait(&warp_barriers[threadIdx.x / 32]); }
inline int __syncthreads_or(int vote) {
  votes[threadIdx.x] = vote;
  __syncthreads();
  int any = 0;
  for (int i = 0; i < blockDim.x; ++i) any |= votes[i];
  __syncthreads();
  return any;
}
inline float __shfl_xor_sync(unsigned, float value, int mask) {
  exchanged[threadIdx.x] = value;
  __syncwarp();
  const float other = exchanged[threadIdx.x ^ mask];
  __syncwarp();
  return other;
}
inline float __expf(float x) { return expf(x); }
inline float __fdividef(float x, float y) { return x / y; }

template <typename Kernel>
void run_on_threads(int blocks, int threads, Kernel kernel) {
  pthread_barrier_init(&block_barrier, nullptr, threads);
  for (int w = 0; w < threads / 32; ++w) pthread_barrier_init(&warp_barriers[w], nullptr, 32);
  for (int block = 0; block < blocks; ++block) {
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t)
      all.emplace_back([=] {
        threadIdx = {t}, blockIdx = {block}, blockDim = {threads}, gridDim = {blocks};
        kernel();
      });
    for (auto& thread : all) thread.join();
  }
}
#define LAUNCH(kernel, blocks, threads, ...) run_on_threads(blocks, threads, [=] { kernel(__VA_ARGS__); })

typedef int cudaError_t;
enum { cudaSuccess, cudaErrorMemoryAllocation, cudaErrorInsufficientDriver, cudaErrorNoDevice };
enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
struct cudaDeviceProp {
  const char* name;
};
inline const char* cudaGetErrorString(cudaError_t) { return ""; }
inline const char* cudaGetErrorName(cudaError_t) { return ""; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaFree(void* data) { return free(data), cudaSuccess; }
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t size) { return memset(to, value, size), cudaSuccess; }
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t size, int) {
  memcpy(to, from, size);
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int) {
  *found = {"threads"};
  return cudaSuccess;
}
template <typename T>
cudaError_t cudaMalloc(T** data, size_t size) {
  *data = (T*)malloc(size);
  return *data ? cudaSuccess : cudaErrorMemoryAllocation;
}
