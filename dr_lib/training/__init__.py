"""One training that is timed honestly.

models       builds the networks, their augmentation and preprocessing
resident     keeps photographs on the device and calls it for several steps at a time
checkpoint   one file from which a killed training goes on
recorder     times, history and best weights of a training, and when it is saved
fit          trains and times
frozen       trains only the upper blocks, on cached outputs of the lower ones
metrics      scores predictions of referable disease
frameworks   two small networks, the same in Keras, PyTorch and MXNet
"""
