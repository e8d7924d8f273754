"""A network of 2,343 parameters for MNIST in CUDA C, one source for GPU and CPU, and in Keras.

cuda                the public functions: train, forward, gradients, initial_weights
build               finds the device and a compiler, builds the source once, caches the library
mnist_cnn.cu        whole trainings in one launch, and the C interface
small_kernels.cuh   the paper's way: many launches for every image
lanes.cuh           one notion for the threads of a GPU and the vectors of a CPU
reference           the same network in Keras
epochs              time to an accuracy, like compared with like
figures             of notebook 41
parameters          of notebook 40
"""
