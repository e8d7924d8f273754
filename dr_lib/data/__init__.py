"""From photographs and a label table to batches; modules are listed in the order of the data flow.

synthetic     draws the sample of fundus photographs
photograph    bytes -> crop
labels        label table -> grades, patients, splits; names kept private
prepared      crops -> TFRecord shards -> batches
small_images  loads MNIST and CIFAR-10, for the studies of frameworks and of CUDA C
parameters    of notebook 01
"""
