"""A network in PyTorch, trained as in its tutorials: a plain loop over batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from dr_lib.errors import DrError
from dr_lib.scenarios.frameworks.architecture import Layer, to_channels_first
from dr_lib.scenarios.frameworks.base import MOMENTUM, Network


class TorchNetwork(Network):
    """Eager PyTorch on images with their channels first."""

    def __init__(
        self,
        layers: tuple[Layer, ...],
        weights: list[np.ndarray],
        learning_rate: float,
        accelerator: str,
    ):
        """Build the network on the CPU or the first GPU."""
        on_gpu = accelerator == "gpu"
        if on_gpu and not torch.cuda.is_available():
            raise DrError(
                "PyTorch sees no GPU: install its build for CUDA, or choose accelerator cpu"
            )
        self.device = torch.device("cuda:0" if on_gpu else "cpu")
        self.model = nn.Sequential(*(module for layer in layers for module in _build(layer)))
        with torch.no_grad():
            arrays = to_channels_first(layers, weights)
            for parameter, array in zip(self.model.parameters(), arrays):
                parameter.copy_(torch.from_numpy(array))
        self.model.to(self.device)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=learning_rate, momentum=MOMENTUM
        )

    def _train_epoch(self, epoch: Iterator[tuple[np.ndarray, np.ndarray]]) -> float:
        self.model.train()
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
        self.model.eval()
        with torch.no_grad():
            return self.model(self._load(images)).cpu().numpy()

    def _load(self, images: np.ndarray) -> torch.Tensor:
        """Cast bytes to floats in [0, 1] on the device, which gets a quarter of what they take."""
        floats = torch.from_numpy(images).to(self.device).float() * (1 / 255)
        return floats.permute(0, 3, 1, 2).contiguous()


def _build(layer: Layer) -> list[nn.Module]:
    """Build the modules of a layer."""
    if layer.kind == "pool":
        return [nn.MaxPool2d(2)]
    if layer.kind == "flatten":
        return [nn.Flatten()]
    num_in, num_out = layer.kernel_shape[-2:]
    if layer.kind == "dense":
        weighted = nn.Linear(num_in, num_out)
    else:
        weighted = nn.Conv2d(num_in, num_out, 3, padding=1)
    return [weighted, nn.ReLU()] if layer.relu else [weighted]
