"""The same small networks in three frameworks: the same weights, batches, loss and updates.

These modules run in a process of each framework's environment: Python 3.9 to 3.13, the standard
library, NumPy and one framework.

architecture     the two VGG-like networks: their weights, and their layers by these
base             the batches, what a network can do in any framework, and how its epochs are timed
keras_network    Keras on TensorFlow, JAX or PyTorch
torch_network    PyTorch
mxnet_network    MXNet Gluon
program          what that process does: it builds a network, trains it and tests it
"""
