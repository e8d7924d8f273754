"""Frameworks, their kernels, and what factors do to time: paper C.

frameworks  two small networks, the same in Keras, PyTorch and MXNet
kernels     Jupyter kernels for frameworks that need an environment of their own
effects     allocation of variation, effects with intervals
costs       what runs cost by the formula against a bill; the cost of an accuracy
figures     of notebook 31
parameters  of notebooks 30 and 31
"""
