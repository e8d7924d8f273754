"""The same small networks in three frameworks, for timing them: the same weights, batches, loss and updates.

These modules run in Jupyter kernels of their own: Python 3.9 to 3.13, the standard library, NumPy and one framework.

networks       the two VGG-like networks as data, their first weights and what an image costs
image_sets     MNIST and CIFAR-10, or drawn images of their shapes, at the size asked for
batches        full batches in an order of their own in each epoch
threads        gives every framework the same number of threads
network        what a network can do in any framework, and how its epochs are timed
layouts        weights between channels last and channels first
keras_network  Keras on TensorFlow, JAX or PyTorch
torch_network  PyTorch
mxnet_network  MXNet Gluon
mnist_peer     the MNIST network of the CUDA C study, in Keras
opening        opens a network in the framework asked for, or says what is missing
"""
