"""One training that is timed honestly.

models       builds the networks, their augmentation and preprocessing
fit          trains and times
metrics      scores predictions of referable disease
"""
