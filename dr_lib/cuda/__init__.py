"""A network of 2,343 parameters for MNIST, trained in CUDA C on a GPU, or on a CPU from one source.

mnist               the public functions: train, forward, gradients, initial_weights
build               finds the device and a compiler, builds the source once, caches the library
mnist_cnn.cu        whole trainings in one launch, and the C interface
small_kernels.cuh   the paper's way: many launches for every image
lanes.cuh           one notion for the threads of a GPU and the vectors of a CPU
"""
