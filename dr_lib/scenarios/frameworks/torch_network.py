"""A network in PyTorch, trained as in its tutorials: a plain loop over batches."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import nn

from dr_lib.errors import DrError
from dr_lib.scenarios.frameworks.architecture import list_layers, to_channels_first
from dr_lib.scenarios.frameworks.base import MOMENTUM, Epoch, Network, Start

LAYERS = {
    "conv": partial(nn.Conv2d, kernel_size=3, padding=1),
    "relu": nn.ReLU,
    "pool": partial(nn.MaxPool2d, 2),
    "flatten": nn.Flatten,
    "dense": nn.Linear,
}


class TorchNetwork(Network):
    """Eager PyTorch on images with their channels first."""

    def __init__(self, start: Start):
        """Build the network on the CPU or the first GPU."""
        on_gpu = start.accelerator == "gpu"
        if on_gpu and not torch.cuda.is_available():
            raise DrError(
                "PyTorch sees no GPU: install its build for CUDA, or choose accelerator cpu"
            )
        self.device = torch.device("cuda:0" if on_gpu else "cpu")
        parts = [LAYERS[kind](*sizes) for kind, *sizes in list_layers(start.weights)]
        self.model = nn.Sequential(*parts)
        arrays = map(torch.from_numpy, to_channels_first(start.weights))
        self.model.load_state_dict(dict(zip(self.model.state_dict(), arrays)))
        self.model.to(self.device)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=start.learning_rate, momentum=MOMENTUM
        )

    def _train_epoch(self, epoch: Epoch) -> float:
        losses = []
        for images, labels in epoch:
            self.optimizer.zero_grad()
            targets = torch.from_numpy(labels).to(self.device)
            loss = nn.functional.cross_entropy(self.model(self._load(images)), targets)
            loss.backward()
            self.optimizer.step()
            # stays on the device: reading it would stop the loop at every step
            losses.append(loss.detach())
        mean = float(torch.stack(losses).mean())
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return mean

    def _forward(self, images: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return self.model(self._load(images)).cpu().numpy()

    def _load(self, images: np.ndarray) -> torch.Tensor:
        """Cast bytes to floats in [0, 1] on the device, which gets a quarter of what they take."""
        floats = torch.from_numpy(images).to(self.device).float() * (1 / 255)
        return floats.permute(0, 3, 1, 2).contiguous()
