"""A convolutional network of 2,343 parameters for MNIST, trained in CUDA C on a GPU or, from the
same source, on a CPU.

mnist               the public functions: train, forward, gradients, initial_weights
build               finds the device and a compiler, builds the source once, keeps the library in a
cache mnist_cnn.cu        whole trainings in one launch, and the C interface
small_kernels.cuh   the paper's way: many launches for every image
lanes.cuh           one notion for the threads of a GPU and the vectors of a CPU
"""
