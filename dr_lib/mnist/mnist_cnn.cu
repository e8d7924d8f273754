// A small convolutional network for MNIST, trained whole in one kernel launch; on a GPU or, from the same lines, a CPU.
//
//   image 28 x 28 -> 6 filters 5 x 5, sigmoid -> 6 maps 24 x 24
//                 -> ONE 4 x 4 filter with stride 4, shared by the maps, sigmoid -> 6 maps 6 x 6
//                 -> dense 216 -> 10, sigmoid (or softmax)                        2,343 parameters
//
// The idea. A training step on one image needs 0.38 million operations: a GPU does them in the time that it takes to
// launch one kernel. So nothing may be launched per step, and nothing may travel to the GPU's memory and back:
//   - one block of threads, on one multiprocessor, trains the network, all epochs long;
//   - thread t owns one value of the second layer: map t / 36, tile t % 36. The 4 x 4 values under it, the 8 x 8 pixels
//     under those, the tile's ten dense weights and its share of all gradients live in that thread's registers;
//   - the threads meet only where sums cross tiles: the ten outputs, and the gradients of the weights that all share.
//
// Sums are taken in a fixed order, without atomics, so the same seed gives the same bits on one device.

#include "lanes.cuh"

constexpr int SIDE = 28, PIXELS = SIDE * SIDE, MAPS = 6, TAPS = 25, WINDOW = 16, CLASSES = 10;
constexpr int TILES = 36, UNITS = MAPS * TILES;
constexpr int WARPS = (UNITS + LANES - 1) / LANES, THREADS = WARPS * LANES;
// where each array starts in the flat parameters; arrays have Keras's shapes and order
constexpr int CONV = 0, CONV_BIAS = 150, POOL = 156, POOL_BIAS = 172, DENSE = 173, DENSE_BIAS = 2333, PARAMETERS = 2343;

// ---- what a training is asked for, and what a block keeps -----------------------------------------------------------

struct Training {
  const uint8_t* images;  // (num_images, 28, 28)
  const uint8_t* labels;
  int num_images, batch_size, epochs;
  float learning_rate;
  const float* weights;  // PARAMETERS to start from
  float* snapshots;      // (epochs, PARAMETERS): the weights after each epoch
  double* seconds;       // (epochs,) since the block began
  int* finished;         // epochs that ended with finite weights
  float* gradients;      // if given: PARAMETERS, of the first batch, which then changes no weight
};

constexpr int FILTER = TAPS + 1;                          // a filter's weights and its bias
constexpr int NUM_SHARED = 183;                           // weights that all threads read: all but the dense kernel
constexpr int CONV_SLOTS = slots(FILTER, 4);              // sums over four tiles of a map
constexpr int POOL_SLOTS = slots(WINDOW + 1, LANES);      // and over a warp's tiles
constexpr int OUTPUT_SLOTS = slots(CLASSES, LANES);
constexpr int PITCH = THREADS + 4;                        // 4 more: the slots of a thread lie in different memory banks

#if GPU
// Four rows take 120 floats, 8 more than they need: then the 16-byte loads of neighbouring tiles never share a bank.
struct alignas(16) Image {
  float pixels[7 * 120];
};
#else
// One line for each of the 8 x 8 pixels under a tile: that pixel for all 36 tiles, then the first again, so that the
// vector of any LANES consecutive threads can be loaded at once.
constexpr int LINE = (TILES + LANES + 15) / 16 * 16;
struct alignas(64) Image {
  float pixels[64][LINE];
};
#endif

struct Shared {
  Image image[2];  // the one at work, and the next one arriving
  alignas(64) float conv[MAPS][28];
  float pool[WINDOW + 1], dense_bias[CLASSES];
  float mean[NUM_SHARED], square[NUM_SHARED];  // Adam's moments of the shared weights
  float bias_gradient[CLASSES], sum[CLASSES], power[CLASSES], output[CLASSES], delta[CLASSES];
  int output_at[CLASSES], gradient_at[DENSE];  // where the partial sums of each begin
  alignas(64) float partial_output[WARPS * OUTPUT_SLOTS * LANES];
  float partial[CONV_SLOTS * PITCH + WARPS * POOL_SLOTS * LANES];  // of the gradients: first conv's, then pool's
};

struct Own {  // of one thread: registers on a GPU
  vec conv[WINDOW], pooled;                              // values of the first layer under the tile, and of the second
  vec dense[CLASSES], dense_gradient[CLASSES];           // weights from this tile to the ten outputs
  vec conv_gradient[FILTER], pool_gradient[WINDOW + 1];  // the tile's share of them, over the batch
  vec mean[CLASSES], square[CLASSES];                    // Adam's moments of `dense`
#if GPU
  vec pixels[64];
#endif
};

#if GPU
constexpr int OWNERS = 1;
#define OWN(w) own[0]
#else
constexpr int OWNERS = WARPS;
#define OWN(w) own[w]
#endif

INLINE int map_of(int t) { return t < UNITS ? t / TILES : MAPS - 1; }
INLINE int dense_row(int t) { return t % TILES * MAPS + t / TILES; }  // Keras flattens (row, column, map)

// ---- pixels and filters, where each thread wants them ---------------------------------------------------------------

#if GPU
INLINE int thread_of(int w) { return threadIdx.x; }
INLINE bool has_tile(int w) { return threadIdx.x < UNITS; }
INLINE vec filter_of(const Shared& s, int w, int k) { return s.conv[map_of(threadIdx.x)][k]; }

typedef uchar4 Arriving;  // four pixels in a register, on their way from the GPU's memory

INLINE Arriving fetch(const uint8_t* image) {
  return threadIdx.x < PIXELS / 4 ? ((const uchar4*)image)[threadIdx.x] : uchar4{};
}

INLINE void put(Image& image, Arriving four) {
  if (threadIdx.x >= PIXELS / 4) return;
  const int row = threadIdx.x / 7, column = threadIdx.x % 7 * 4;
  const float scale = 1 / 255.0f;
  *(float4*)&image.pixels[row / 4 * 120 + row % 4 * SIDE + column] =
      float4{four.x * scale, four.y * scale, four.z * scale, four.w * scale};
}

INLINE void look(Own& me, const Image& image, int w) {
  const int tile = threadIdx.x % TILES;
  const float* corner = &image.pixels[tile / 6 * 120 + tile % 6 * 4];
  UNROLL for (int r = 0; r < 8; ++r) UNROLL for (int half = 0; half < 2; ++half) {
    const float4 four = *(const float4*)(corner + r / 4 * 120 + r % 4 * SIDE + 4 * half);
    vec* to = &me.pixels[8 * r + 4 * half];
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  }
}
#define PIXEL(r, c) me.pixels[8 * (r) + (c)]
#else
INLINE ivec thread_of(int w) { return lane() + w * LANES; }
INLINE ivec has_tile(int w) { return thread_of(w) < UNITS; }
INLINE vec filter_of(const Shared& s, int w, int k) {
  const int first = w * LANES / TILES, second = first + 1 < MAPS ? first + 1 : first;
  return thread_of(w) < (first + 1) * TILES ? splat(s.conv[first][k]) : splat(s.conv[second][k]);
}

typedef const uint8_t* Arriving;

INLINE Arriving fetch(const uint8_t* image) { return image; }

INLINE void put(Image& image, Arriving bytes) {
  for (int y = 0; y < SIDE; ++y) {
    uint32_t fours[8] = {};
    memcpy(fours, bytes + SIDE * y, SIDE);
    float every_fourth[4][12];  // columns 0, 4, 8 ...; 1, 5, 9 ...: a pixel of neighbouring tiles side by side
    for (int k = 0; k < 4; ++k)
      for (int i = 0; i < 8; ++i) every_fourth[k][i] = (int)(fours[i] >> 8 * k & 255) * (1 / 255.0f);
    for (int r = y % 4; r < 8; r += 4) {
      const int tile_row = (y - r) / 4;
      if (y < r || tile_row > 5) continue;
      for (int c = 0; c < 8; ++c)  // two more than the six: a whole vector, and the next row overwrites them
        memcpy(&image.pixels[8 * r + c][6 * tile_row], &every_fourth[c % 4][c / 4], 8 * sizeof(float));
    }
  }
  for (auto& line : image.pixels) memcpy(line + TILES, line, LANES * sizeof(float));
}

INLINE void look(Own&, const Image&, int) {}
#define PIXEL(r, c) load(image.pixels[8 * (r) + (c)] + w * LANES % TILES)
#endif

// ---- one image: forward and back ------------------------------------------------------------------------------------

// Where threads find the partial sums that they finish: the same for all images.
INLINE void find_sums(Shared& s) {
  FOR(k, CLASSES) {
    const Place place = find_sum(CLASSES, LANES, k);
    s.output_at[k] = place.slot * LANES + place.lane;
  }
  FOR(i, DENSE) {
    if (i < POOL) {
      const Place place = find_sum(FILTER, 4, i < CONV_BIAS ? i / MAPS : TAPS);
      const int map = i < CONV_BIAS ? i % MAPS : i - CONV_BIAS;
      s.gradient_at[i] = place.slot * PITCH + map * TILES + place.lane;
    } else {
      const Place place = find_sum(WINDOW + 1, LANES, i - POOL);
      s.gradient_at[i] = CONV_SLOTS * PITCH + place.slot * LANES + place.lane;
    }
  }
}

template <int NUMBER, int STRIDE>
INLINE float add_up(const float* partial) {
  float total = 0;
  UNROLL for (int j = 0; j < NUMBER; ++j) total += partial[j * STRIDE];
  return total;
}

INLINE float shared_gradient(const Shared& s, int i) {
  if (i >= DENSE) return s.bias_gradient[i - DENSE];
  const float* partial = &s.partial[s.gradient_at[i]];
  return i < POOL ? add_up<TILES / 4, 4>(partial) : add_up<WARPS, POOL_SLOTS * LANES>(partial);
}

// Weights from the flat parameters, and back.
INLINE float* shared_weight(Shared& s, int i) {  // conv kernel, its bias, pool kernel, its bias, dense bias
  if (i < CONV_BIAS) return &s.conv[i % MAPS][i / MAPS];
  if (i < POOL) return &s.conv[i - CONV_BIAS][TAPS];
  return i < DENSE ? &s.pool[i - POOL] : &s.dense_bias[i - DENSE];
}

INLINE int shared_index(int i) { return i < DENSE ? i : DENSE_BIAS + i - DENSE; }

INLINE void read_weights(Shared& s, Own* own, const float* flat) {
  FOR(i, NUM_SHARED) *shared_weight(s, i) = flat[shared_index(i)];
  WARPS_DO(w) FOR_LANES(l) {
    const int t = w * LANES + l;
    UNROLL for (int k = 0; k < CLASSES; ++k)
      at(OWN(w).dense[k], l) = t < UNITS ? flat[DENSE + CLASSES * dense_row(t) + k] : 0.0f;
  }
}

INLINE void write_weights(Shared& s, Own* own, float* flat) {
  FOR(i, NUM_SHARED) flat[shared_index(i)] = *shared_weight(s, i);
  WARPS_DO(w) FOR_LANES(l) {
    const int t = w * LANES + l;
    UNROLL for (int k = 0; k < CLASSES; ++k)
      if (t < UNITS) flat[DENSE + CLASSES * dense_row(t) + k] = at(OWN(w).dense[k], l);
  }
}

// Both convolutions in one thread's registers: 400 multiply-adds on 64 pixels, nothing written but ten partial sums.
INLINE void forward_tile(Own& me, Shared& s, const Image& image, int w) {
  vec filter[TAPS], sum[WINDOW];
  UNROLL for (int k = 0; k < TAPS; ++k) filter[k] = filter_of(s, w, k);
  UNROLL for (int o = 0; o < WINDOW; ++o) sum[o] = filter_of(s, w, TAPS);
  look(me, image, w);
  UNROLL for (int r = 0; r < 8; ++r) UNROLL for (int c = 0; c < 8; ++c) {
    const vec x = PIXEL(r, c);
    UNROLL for (int i = 0; i < 5; ++i) UNROLL for (int j = 0; j < 5; ++j)
      if (r - i >= 0 && r - i < 4 && c - j >= 0 && c - j < 4) sum[4 * (r - i) + c - j] += filter[5 * i + j] * x;
  }
  vec pooled = splat(s.pool[WINDOW]);
  UNROLL for (int o = 0; o < WINDOW; ++o) {
    me.conv[o] = sigmoid(sum[o]);
    pooled += s.pool[o] * me.conv[o];
  }
  me.pooled = has_tile(w) ? sigmoid(pooled) : splat(0.0f);
  vec products[CLASSES];
  UNROLL for (int k = 0; k < CLASSES; ++k) products[k] = me.dense[k] * me.pooled;
  add_over_lanes<CLASSES, LANES>(products);
  for (int i = 0; i < OUTPUT_SLOTS; ++i)
    store(&s.partial_output[(w * OUTPUT_SLOTS + i) * LANES], products[i]);
}

// The ten outputs from the warps' sums, in three steps of ten threads of one warp.
INLINE void finish_outputs(Shared& s, bool softmax, int label) {
  SYNC;
  FOR(k, CLASSES) s.sum[k] = s.dense_bias[k] + add_up<WARPS, OUTPUT_SLOTS * LANES>(&s.partial_output[s.output_at[k]]);
  SYNC_WARP;
  FOR(k, CLASSES) {
    float largest = s.sum[0];
    for (int j = 1; j < CLASSES; ++j) largest = fmaxf(largest, s.sum[j]);
    s.power[k] = expf(softmax ? s.sum[k] - largest : -s.sum[k]);
  }
  SYNC_WARP;
  FOR(k, CLASSES) {
    float total = 0;
    for (int j = 0; j < CLASSES; ++j) total += s.power[j];
    s.output[k] = softmax ? s.power[k] / total : 1 / (1 + s.power[k]);
    // the gradient of the loss on the sum: of softmax with its cross-entropy, as of sigmoid with binary cross-entropy
    s.delta[k] = s.output[k] - (k == label);
    s.bias_gradient[k] += s.delta[k];
  }
}

// Back through all layers: each thread adds its tile's share to its sums, which nobody else sees until the batch ends.
INLINE void backward_tile(Own& me, const Shared& s, const Image& image, int w) {
  vec error = splat(0.0f);
  UNROLL for (int k = 0; k < CLASSES; ++k) {
    error += me.dense[k] * s.delta[k];
    me.dense_gradient[k] += me.pooled * s.delta[k];
  }
  error *= me.pooled * (1.0f - me.pooled);
  me.pool_gradient[WINDOW] += error;
  vec errors[WINDOW], gradient[FILTER];
  UNROLL for (int k = 0; k < FILTER; ++k) gradient[k] = me.conv_gradient[k];
  UNROLL for (int o = 0; o < WINDOW; ++o) {
    me.pool_gradient[o] += error * me.conv[o];
    errors[o] = error * s.pool[o] * (me.conv[o] * (1.0f - me.conv[o]));
    gradient[TAPS] += errors[o];
  }
  UNROLL for (int r = 0; r < 8; ++r) UNROLL for (int c = 0; c < 8; ++c) {
    const vec x = PIXEL(r, c);
    UNROLL for (int i = 0; i < 5; ++i) UNROLL for (int j = 0; j < 5; ++j)
      if (r - i >= 0 && r - i < 4 && c - j >= 0 && c - j < 4) gradient[5 * i + j] += errors[4 * (r - i) + c - j] * x;
  }
  UNROLL for (int k = 0; k < FILTER; ++k) me.conv_gradient[k] = gradient[k];
}

// ---- the end of a batch ---------------------------------------------------------------------------------------------

// One step of plain gradient descent, or of Adam (Kingma and Ba 2015) in Keras's form.
template <bool ADAM, typename T>
INLINE void descend(T& weight, const T& gradient, T& mean, T& square, float rate) {
  if constexpr (ADAM) {
    mean += 0.1f * (gradient - mean);
    square += 0.001f * (gradient * gradient - square);
    weight -= rate * mean / (root(square) + 1e-7f);
  } else {
    weight -= rate * gradient;
  }
}

template <bool MODERN>
INLINE void finish_batch(const Training& training, Shared& s, Own* own, int size, float rate) {
  WARPS_DO(w) {
    Own& me = OWN(w);
    add_over_lanes<FILTER, 4>(me.conv_gradient);
    UNROLL for (int i = 0; i < CONV_SLOTS; ++i) store(&s.partial[i * PITCH + w * LANES], me.conv_gradient[i]);
    add_over_lanes<WINDOW + 1, LANES>(me.pool_gradient);
    float* pool = &s.partial[CONV_SLOTS * PITCH + w * POOL_SLOTS * LANES];
    for (int i = 0; i < POOL_SLOTS; ++i) store(pool + i * LANES, me.pool_gradient[i]);
    UNROLL for (int k = 0; k < CLASSES; ++k) me.dense_gradient[k] *= 1.0f / size;
    if (training.gradients) FOR_LANES(l) {
      const int t = w * LANES + l;
      UNROLL for (int k = 0; k < CLASSES; ++k)
        if (t < UNITS) training.gradients[DENSE + CLASSES * dense_row(t) + k] = at(me.dense_gradient[k], l);
    } else {
      UNROLL for (int k = 0; k < CLASSES; ++k)
        descend<MODERN>(me.dense[k], me.dense_gradient[k], me.mean[k], me.square[k], rate);
    }
  }
  SYNC;
  FOR(i, NUM_SHARED) {
    // the original program divides by the number of values summed
    const float divisor = MODERN ? 1.0f : i < POOL ? 576.0f : i == DENSE - 1 ? 216.0f : 1.0f;
    const float gradient = shared_gradient(s, i) / (size * divisor);
    if (training.gradients) training.gradients[shared_index(i)] = gradient;
    else descend<MODERN>(*shared_weight(s, i), gradient, s.mean[i], s.square[i], rate);
  }
  SYNC;
}

INLINE void begin_batch(Shared& s, Own* own) {
  FOR(k, CLASSES) s.bias_gradient[k] = 0;
  WARPS_DO(w) {
    Own& me = OWN(w);
    UNROLL for (int k = 0; k < FILTER; ++k) me.conv_gradient[k] = splat(0.0f);
    UNROLL for (int k = 0; k < WINDOW + 1; ++k) me.pool_gradient[k] = splat(0.0f);
    UNROLL for (int k = 0; k < CLASSES; ++k) me.dense_gradient[k] = splat(0.0f);
  }
}

// ---- whole trainings in one launch ----------------------------------------------------------------------------------

INLINE bool is_finite(Shared& s, Own* own) {
  bool broken = false;
  FOR(i, NUM_SHARED) broken |= !(fabsf(*shared_weight(s, i)) <= 3e38f);
  WARPS_DO(w) FOR_LANES(l) {
    UNROLL for (int k = 0; k < CLASSES; ++k) broken |= !(fabsf(at(OWN(w).dense[k], l)) <= 3e38f);
  }
  return !ANY(broken);
}

// A block trains a network; MODERN with softmax, cross-entropy and Adam, else with sigmoids and plain descent.
template <bool MODERN>
KERNEL(train, const Training training) {
  SHARED Shared s;
  Own own[OWNERS];
  const int number = training.num_images;
  FOR(i, NUM_SHARED) s.mean[i] = s.square[i] = 0;
  WARPS_DO(w) UNROLL for (int k = 0; k < CLASSES; ++k) OWN(w).mean[k] = OWN(w).square[k] = splat(0.0f);
  find_sums(s);
  read_weights(s, own, training.weights);
  const double start_s = now_s();
  float decay_1 = 1, decay_2 = 1, rate = training.learning_rate;
  int use = 0;
  put(s.image[use], fetch(training.images));
  SYNC;
  for (int epoch = 0; epoch < training.epochs; ++epoch) {
    for (int first = 0; first < number; first += training.batch_size) {
      const int size = first + training.batch_size < number ? training.batch_size : number - first;
      begin_batch(s, own);
      for (int i = first; i < first + size; ++i, use ^= 1) {
        // the next image is under way while this one is at work
        const Arriving next = fetch(training.images + (size_t)(i + 1 < number ? i + 1 : 0) * PIXELS);
        const int label = training.labels[i];
        WARPS_DO(w) forward_tile(OWN(w), s, s.image[use], w);
        finish_outputs(s, MODERN, label);
        put(s.image[use ^ 1], next);
        SYNC;
        WARPS_DO(w) backward_tile(OWN(w), s, s.image[use], w);
      }
      if (MODERN) {
        decay_1 *= 0.9f, decay_2 *= 0.999f;
        rate = training.learning_rate * sqrtf(1 - decay_2) / (1 - decay_1);
      }
      finish_batch<MODERN>(training, s, own, size, rate);
      if (training.gradients) return;
    }
    if (!is_finite(s, own)) return;
    write_weights(s, own, training.snapshots + (size_t)epoch * PARAMETERS);
    FOR(one, 1) training.seconds[epoch] = now_s() - start_s, *training.finished = epoch + 1;
  }
}

struct Evaluation {
  const uint8_t* images;
  const uint8_t* labels;
  int num_images;
  bool softmax;
  const float* snapshots;  // (number, PARAMETERS)
  float* outputs;          // if given: (num_images, 10) of the only snapshot
  int* correct;            // (number, CHUNKS)
};

constexpr int CHUNKS = 16;  // a snapshot's images are shared out to so many blocks

KERNEL(evaluate, const Evaluation evaluation) {
  SHARED Shared s;
  Own own[OWNERS];
  const int chunk = BLOCK % CHUNKS, number = evaluation.num_images;
  const int first = (int64_t)number * chunk / CHUNKS, end = (int64_t)number * (chunk + 1) / CHUNKS;
  int correct = 0, use = 0;
  find_sums(s);
  read_weights(s, own, evaluation.snapshots + BLOCK / CHUNKS * PARAMETERS);
  if (first < end) put(s.image[use], fetch(evaluation.images + (size_t)first * PIXELS));
  SYNC;
  for (int i = first; i < end; ++i, use ^= 1) {
    const Arriving next = fetch(evaluation.images + (size_t)(i + 1 < end ? i + 1 : i) * PIXELS);
    const int label = evaluation.labels[i];
    WARPS_DO(w) forward_tile(OWN(w), s, s.image[use], w);
    finish_outputs(s, evaluation.softmax, label);
    put(s.image[use ^ 1], next);
    SYNC;
    int best = 0;
    for (int k = 1; k < CLASSES; ++k) best = s.output[k] > s.output[best] ? k : best;
    correct += best == label;
    if (evaluation.outputs) FOR(k, CLASSES) evaluation.outputs[(size_t)i * CLASSES + k] = s.output[k];
  }
  FOR(one, 1) evaluation.correct[BLOCK] = correct;
}

#include "small_kernels.cuh"  // uses the constants and dense_row above

// ---- the C interface ------------------------------------------------------------------------------------------------

// Runs what may throw; 0, or a code of the errors in lanes.cuh, with cnn_message() saying why.
template <typename Work>
static int guard(Work work) {
  try {
    work();
    return OK;
  } catch (const Failure& failure) {
    return failure.code;
  } catch (const std::bad_alloc&) {
    snprintf(message, sizeof message, "out of memory");
    return FAILED;
  }
}

enum { PAPER, FUSED, MINIBATCH };  // implementations

static void run_train(bool modern, const Training& training) {
  if (modern) LAUNCH(train<true>, 1, THREADS, training);
  else LAUNCH(train<false>, 1, THREADS, training);
  wait_for_device();
}

// As the original program does: many small kernels for each image.
static void train_by_small_kernels(const Training& training) {
  SmallKernels network(training.weights);
  const double start_s = host_now_s();
  for (int epoch = 0; epoch < training.epochs; ++epoch) {
    for (int i = 0; i < training.num_images; ++i) {
      const float norm = network.find_gradients(training.images + (size_t)i * PIXELS, training.labels[i]);
      if (!(norm <= 3e38f)) return;
      network.descend(training.learning_rate);
    }
    wait_for_device();
    training.seconds[epoch] = host_now_s() - start_s;
    network.read_weights(training.snapshots + (size_t)epoch * PARAMETERS);
    *training.finished = epoch + 1;
  }
}

extern "C" {

const char* cnn_message() { return message; }

// Wake the device, and find its name; empty on a CPU.
int cnn_open(char* name, int size) {
  return guard([&] {
    snprintf(name, size, "%s", "");
#if GPU
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    CHECK(cudaFree(nullptr));
    snprintf(name, size, "%s", properties.name);
#endif
  });
}

int cnn_train(int implementation, const uint8_t* images, const uint8_t* labels, int number, int batch_size, int epochs,
              float learning_rate, const float* weights, float* snapshots, double* seconds, int* finished) {
  return guard([&] {
    *finished = 0;
    Training training = {images,  labels,    number,  batch_size, epochs, learning_rate,
                         weights, snapshots, seconds, finished,   nullptr};
    if (implementation == PAPER) return train_by_small_kernels(training);
    const double start_s = host_now_s();
    Array<uint8_t> x(images, (size_t)number * PIXELS), y(labels, number);
    Array<float> first(weights, PARAMETERS), kept((size_t)epochs * PARAMETERS);
    Array<double> stamps(epochs);
    Array<int> ended(finished, 1);
    wait_for_device();
    const double copied_s = host_now_s() - start_s;  // part of the training: a framework's time has its copies too
    training = {x.data,     y.data,    number,      batch_size, epochs, learning_rate,
                first.data, kept.data, stamps.data, ended.data, nullptr};
    run_train(implementation == MINIBATCH, training);
    kept.write(snapshots), stamps.write(seconds), ended.write(finished);
    for (int epoch = 0; epoch < epochs; ++epoch) seconds[epoch] += copied_s;
  });
}

// Gradients of one batch; by the small kernels of its first image.
int cnn_gradients(int implementation, const uint8_t* images, const uint8_t* labels, int number, const float* weights,
                  float* gradients) {
  return guard([&] {
    if (implementation == PAPER) {
      SmallKernels network(weights);
      network.find_gradients(images, labels[0]);
      network.read_gradients(gradients);
      return;
    }
    Array<uint8_t> x(images, (size_t)number * PIXELS), y(labels, number);
    Array<float> first(weights, PARAMETERS), found(PARAMETERS);
    run_train(implementation == MINIBATCH,
              {x.data, y.data, number, number, 1, 0, first.data, nullptr, nullptr, nullptr, found.data});
    found.write(gradients);
  });
}

// Count the correct answers of each snapshot; outputs, if given, are those of a single snapshot.
int cnn_evaluate(int softmax, const uint8_t* images, const uint8_t* labels, int number, int num_snapshots,
                 const float* snapshots, int* correct, float* outputs) {
  return guard([&] {
    Array<uint8_t> x(images, (size_t)number * PIXELS), y(labels, number);
    Array<float> weights(snapshots, (size_t)num_snapshots * PARAMETERS), shown(outputs ? (size_t)number * CLASSES : 1);
    Array<int> counts((size_t)num_snapshots * CHUNKS);
    const Evaluation evaluation = {x.data, y.data, number, softmax != 0, weights.data, outputs ? shown.data : nullptr,
                                   counts.data};
    LAUNCH(evaluate, num_snapshots * CHUNKS, THREADS, evaluation);
    wait_for_device();
    std::vector<int> chunks(counts.number);
    counts.write(chunks.data());
    for (int i = 0; i < num_snapshots; ++i) {
      correct[i] = 0;
      for (int chunk = 0; chunk < CHUNKS; ++chunk) correct[i] += chunks[i * CHUNKS + chunk];
    }
    if (outputs) shown.write(outputs);
  });
}
}
