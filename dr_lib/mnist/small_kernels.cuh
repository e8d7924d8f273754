// The original's way, kept to be measured: many small kernels for every image, all values in the GPU's memory.
//   GRID_FOR(i, n)    a thread for each of n values, in whole grids of 64 x 64 threads
//   GRID_WARPS(i, n)  a warp for each of n sums; WARP_FOR(j, n) shares a sum's terms out to the warp's threads
// Each kernel has one step of one layer, as the program has that the paper most likely ran.

#pragma once
#include "lanes.cuh"

#if GPU
#define SMALL(kernel, ...) LAUNCH(kernel, 64, 64, __VA_ARGS__)
#define GRID_WARPS(i, n) \
  for (int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32; i < (n); i += gridDim.x * blockDim.x / 32)
#define WARP_FOR(j, n) for (int j = threadIdx.x % 32; j < (n); j += 32)
INLINE float warp_sum(float x) {
  for (int mask = 16; mask; mask /= 2) x += __shfl_xor_sync(0xffffffffu, x, mask);
  return x;
}
#define GRID_FOR(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += gridDim.x * blockDim.x)
#else
#define SMALL(kernel, ...) LAUNCH(kernel, 1, 1, __VA_ARGS__)
#define GRID_WARPS(i, n) FOR(i, n)
#define WARP_FOR(j, n) FOR(j, n)
INLINE float warp_sum(float x) { return x; }
#define GRID_FOR(i, n) FOR(i, n)
#endif

constexpr int CONV_VALUES = MAPS * 576;

struct Layers {  // all that the small kernels pass on through the GPU's memory
  float image[PIXELS], image_sum[PIXELS];
  float conv_sum[CONV_VALUES], conv[CONV_VALUES], conv_error[CONV_VALUES], conv_delta[CONV_VALUES];  // map, row, column
  float pool_sum[UNITS], pool[UNITS], pool_error[UNITS], pool_delta[UNITS];
  float output_sum[CLASSES], output[CLASSES], output_error[CLASSES], delta[CLASSES];
  float weights[PARAMETERS], gradient[PARAMETERS];
  float norm;
};

INLINE float logistic(float x) { return 1 / (1 + expf(-x)); }
INLINE int image_at(int place, int k) { return (place / 24 + k / 5) * SIDE + place % 24 + k % 5; }
INLINE int conv_at(int unit, int o) {  // value o of the window under a unit of the second layer
  return unit / TILES * 576 + (unit % TILES / 6 * 4 + o / 4) * 24 + unit % 6 * 4 + o % 4;
}

KERNEL(conv_sums, Layers* n) {
  GRID_FOR(i, CONV_VALUES) {
    float sum = 0;
    for (int k = 0; k < TAPS; ++k) sum += n->weights[k * MAPS + i / 576] * n->image[image_at(i % 576, k)];
    n->conv_sum[i] = sum;
  }
}
KERNEL(conv_biases, Layers* n) { GRID_FOR(i, CONV_VALUES) n->conv_sum[i] += n->weights[CONV_BIAS + i / 576]; }
KERNEL(pool_sums, Layers* n) {
  GRID_FOR(u, UNITS) {
    float sum = 0;
    for (int o = 0; o < WINDOW; ++o) sum += n->weights[POOL + o] * n->conv[conv_at(u, o)];
    n->pool_sum[u] = sum;
  }
}
KERNEL(pool_biases, Layers* n) { GRID_FOR(u, UNITS) n->pool_sum[u] += n->weights[POOL_BIAS]; }
KERNEL(dense_sums, Layers* n) {
  GRID_WARPS(k, CLASSES) {
    float sum = 0;
    WARP_FOR(u, UNITS) sum += n->weights[DENSE + dense_row(u) * CLASSES + k] * n->pool[u];
    n->output_sum[k] = warp_sum(sum);
  }
}
KERNEL(dense_biases, Layers* n) { GRID_FOR(k, CLASSES) n->output_sum[k] += n->weights[DENSE_BIAS + k]; }
KERNEL(sigmoids, const float* sums, float* values, int number) { GRID_FOR(i, number) values[i] = logistic(sums[i]); }
KERNEL(output_deltas, Layers* n, int label) { GRID_FOR(k, CLASSES) n->delta[k] = n->output[k] - (k == label); }
KERNEL(norms, Layers* n) {
  GRID_WARPS(i, 1) {
    float sum = 0;
    WARP_FOR(k, CLASSES) sum += n->delta[k] * n->delta[k];
    n->norm = sqrtf(warp_sum(sum));
  }
}
KERNEL(dense_gradients, Layers* n) {
  GRID_FOR(i, UNITS * CLASSES)
    n->gradient[DENSE + dense_row(i / CLASSES) * CLASSES + i % CLASSES] = n->pool[i / CLASSES] * n->delta[i % CLASSES];
}
KERNEL(dense_bias_gradients, Layers* n) { GRID_FOR(k, CLASSES) n->gradient[DENSE_BIAS + k] = n->delta[k]; }
KERNEL(pool_errors, Layers* n) {
  GRID_FOR(u, UNITS) {
    float sum = 0;
    for (int k = 0; k < CLASSES; ++k) sum += n->weights[DENSE + dense_row(u) * CLASSES + k] * n->delta[k];
    n->pool_error[u] = sum;
  }
}
KERNEL(deltas, const float* errors, const float* sums, float* deltas, int number) {
  GRID_FOR(i, number) {
    const float value = logistic(sums[i]);
    deltas[i] = errors[i] * value * (1 - value);
  }
}
KERNEL(pool_gradients, Layers* n) {
  GRID_WARPS(o, WINDOW) {
    float sum = 0;
    WARP_FOR(u, UNITS) sum += n->pool_delta[u] * n->conv[conv_at(u, o)];
    n->gradient[POOL + o] = warp_sum(sum);
  }
}
KERNEL(pool_bias_gradients, Layers* n) {
  GRID_WARPS(i, 1) {
    float sum = 0;
    WARP_FOR(u, UNITS) sum += n->pool_delta[u];
    n->gradient[POOL_BIAS] = warp_sum(sum) / UNITS;
  }
}
KERNEL(conv_errors, Layers* n) {
  GRID_FOR(i, UNITS * WINDOW)
    n->conv_error[conv_at(i / WINDOW, i % WINDOW)] = n->weights[POOL + i % WINDOW] * n->pool_delta[i / WINDOW];
}
KERNEL(conv_gradients, Layers* n) {
  GRID_WARPS(i, TAPS * MAPS) {
    float sum = 0;
    WARP_FOR(j, 576) sum += n->conv_delta[i % MAPS * 576 + j] * n->image[image_at(j, i / MAPS)];
    n->gradient[CONV + i] = warp_sum(sum) / 576;
  }
}
KERNEL(conv_bias_gradients, Layers* n) {
  GRID_WARPS(map, MAPS) {
    float sum = 0;
    WARP_FOR(j, 576) sum += n->conv_delta[map * 576 + j];
    n->gradient[CONV_BIAS + map] = warp_sum(sum) / 576;
  }
}
KERNEL(descents, Layers* n, int first, int number, float rate) {
  GRID_FOR(i, number) n->weights[first + i] -= rate * n->gradient[first + i];
}

// One image after another through the kernels above: 24 launches, 17 clears and two copies each, one of which the host
// waits for.
class SmallKernels {
 public:
  explicit SmallKernels(const float* weights) : layers_(1), at_(layers_.data) {
    layers_.clear();
    copy_to_device(at_->weights, weights, PARAMETERS);
  }

  // Forward and back; the gradients stay on the device. Returns the length of the outputs' error.
  float find_gradients(const uint8_t* pixels, int label) {
    float image[PIXELS], norm;
    for (int i = 0; i < PIXELS; ++i) image[i] = pixels[i] * (1 / 255.0f);
    Layers* n = at_;
    clear(n->image), clear(n->image_sum), clear(n->conv), clear(n->conv_sum);
    clear(n->pool), clear(n->pool_sum), clear(n->output), clear(n->output_sum);
    copy_to_device(n->image, image, PIXELS);
    SMALL(conv_sums, n);
    SMALL(conv_biases, n);
    SMALL(sigmoids, n->conv_sum, n->conv, CONV_VALUES);
    SMALL(pool_sums, n);
    SMALL(pool_biases, n);
    SMALL(sigmoids, n->pool_sum, n->pool, UNITS);
    SMALL(dense_sums, n);
    SMALL(dense_biases, n);
    SMALL(sigmoids, n->output_sum, n->output, CLASSES);
    clear(n->conv_error), clear(n->conv_delta), clear(n->pool_error), clear(n->pool_delta), clear(n->output_error);
    clear(n->delta), clear_device(n->gradient, POOL), clear_device(n->gradient + POOL, DENSE - POOL);
    clear_device(n->gradient + DENSE, PARAMETERS - DENSE);
    SMALL(output_deltas, n, label);
    SMALL(norms, n);
    copy_to_host(&norm, &n->norm, 1);
    SMALL(dense_gradients, n);
    SMALL(dense_bias_gradients, n);
    SMALL(pool_errors, n);
    SMALL(deltas, n->pool_error, n->pool_sum, n->pool_delta, UNITS);
    SMALL(pool_gradients, n);
    SMALL(pool_bias_gradients, n);
    SMALL(conv_errors, n);
    SMALL(deltas, n->conv_error, n->conv_sum, n->conv_delta, CONV_VALUES);
    SMALL(conv_gradients, n);
    SMALL(conv_bias_gradients, n);
    return norm;
  }

  void descend(float rate) {
    SMALL(descents, at_, CONV, POOL - CONV, rate);
    SMALL(descents, at_, POOL, DENSE - POOL, rate);
    SMALL(descents, at_, DENSE, PARAMETERS - DENSE, rate);
  }

  void read_weights(float* host) { copy_to_host(host, at_->weights, PARAMETERS); }
  void read_gradients(float* host) { copy_to_host(host, at_->gradient, PARAMETERS); }

 private:
  template <size_t N>
  static void clear(float (&values)[N]) {
    clear_device(values, N);
  }

  Array<Layers> layers_;
  Layers* at_;
};
