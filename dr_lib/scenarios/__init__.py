"""Frameworks, their environments, and what factors do to time: paper C.

frameworks  two small networks, the same in Keras, PyTorch and MXNet
environments  of frameworks that need one of their own
threads     gives every framework the same number of threads
trainer     the process of a framework, watched from here
effects     allocation of variation, effects with intervals
costs       what runs cost by the formula against a bill; the cost of an accuracy
figures     of notebook 31
parameters  of notebooks 30 and 31
"""
