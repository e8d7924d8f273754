"""One training run, timed honestly.

config        what a training is asked for
parameters    of notebooks 00 and 10
train_once    a training from the prepared folder to scores on its test split
models        builds the networks, their augmentation, preprocessing and loss
lite0         EfficientNet-Lite0 and its weights
frozen        trains only the head, on cached outputs of the base
resident      keeps photographs on the device
fit           compiles, trains and predicts
plain         mode plain: the pipeline of tf.data over the shards
callbacks     exact AUCs, the clock, and when a training is saved
calls         divides the seconds of a training
divergence    tells from its losses whether a training diverges
keras_backend the device, clock and gradients of Keras on each of its backends
versions      of what a training imported
checkpoint    one file from which a killed training goes on
metrics       scores predictions of referable disease and of grades
model_folder  the trained model, or one made of it, and a manifest of what serving needs
contact       what a step takes on this machine in each mode
"""
