"""A network in MXNet 1.9.1, trained as in Gluon's tutorials: hybridized, with a Trainer."""

from __future__ import annotations

from functools import partial

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn

from dr_lib.errors import DrError
from dr_lib.scenarios.frameworks.architecture import list_layers, to_channels_first
from dr_lib.scenarios.frameworks.base import MOMENTUM, Epoch, Network, Start

LAYERS = {
    "conv": lambda inputs, filters: nn.Conv2D(filters, 3, padding=1, in_channels=inputs),
    "relu": partial(nn.Activation, "relu"),
    "pool": partial(nn.MaxPool2D, 2),
    "flatten": nn.Flatten,
    "dense": lambda inputs, units: nn.Dense(units, in_units=inputs),
}


class MxnetNetwork(Network):
    """Gluon, compiled to a static graph, on images with their channels first."""

    def __init__(self, start: Start):
        """Build the network on the CPU or the first GPU."""
        on_gpu = start.accelerator == "gpu"
        if on_gpu and not mx.context.num_gpus():
            raise DrError(
                "MXNet sees no GPU: install mxnet-cu117 instead of mxnet, or choose "
                "accelerator cpu"
            )
        self.device = mx.gpu(0) if on_gpu else mx.cpu()
        self.model = nn.HybridSequential()
        for kind, *sizes in list_layers(start.weights):
            self.model.add(LAYERS[kind](*sizes))
        self.model.initialize(ctx=self.device)
        parameters = self.model.collect_params()
        for parameter, array in zip(parameters.values(), to_channels_first(start.weights)):
            parameter.set_data(mx.nd.array(array))
        self.model.hybridize(static_alloc=True)
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()
        self.loss.hybridize(static_alloc=True)
        settings = {"learning_rate": start.learning_rate, "momentum": MOMENTUM, "wd": 0.0}
        self.trainer = gluon.Trainer(parameters, "sgd", settings, kvstore=None)

    def _train_epoch(self, epoch: Epoch) -> float:
        losses = []
        for images, labels in epoch:
            target = mx.nd.array(labels, ctx=self.device)
            with autograd.record():
                loss = self.loss(self.model(self._load(images)), target)
            loss.backward()
            self.trainer.step(len(images))  # divides the sum of the images' gradients
            # stays on the device: reading it would stop the loop at every step
            losses.append(loss.mean())
        mean = float(mx.nd.stack(*losses).mean().asscalar())
        mx.nd.waitall()
        return mean

    def _forward(self, images: np.ndarray) -> np.ndarray:
        return self.model(self._load(images)).asnumpy()

    def _load(self, images: np.ndarray) -> mx.nd.NDArray:
        """Cast bytes to floats in [0, 1] on the device, which gets a quarter of what they take."""
        loaded = mx.nd.array(images.transpose(0, 3, 1, 2), ctx=self.device, dtype="uint8")
        return loaded.astype("float32") * (1 / 255)
