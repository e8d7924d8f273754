"""Save a training run atomically in one file, so that it can resume after a kill."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from dr_lib import files
from dr_lib.errors import DrError
from dr_lib.training.resident import STORE

CHECKPOINT = "checkpoint.npz"


def write_checkpoint(
    path: Path, progress: Mapping[str, Any], arrays: Mapping[str, Sequence[np.ndarray]]
) -> None:
    """Write JSON values and named lists of arrays in one step; until then the last checkpoint
    stays.
    """
    numbered = {
        f"{name}/{number}": array
        for name, kept in arrays.items()
        for number, array in enumerate(kept)
    }
    counts = {name: len(kept) for name, kept in arrays.items()}
    meta = json.dumps({"progress": progress, "counts": counts}).encode()
    with files.replace(path) as temporary, temporary.open("wb") as file:
        np.savez(file, meta=np.frombuffer(meta, np.uint8), **numbered)


def read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, list[np.ndarray]]]:
    """Read what `write_checkpoint` wrote; raise DrError if the file is damaged or not a
    checkpoint.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            meta = json.loads(file["meta"].tobytes())
            arrays = {
                name: [file[f"{name}/{k}"] for k in range(n)]
                for name, n in meta["counts"].items()
            }
            return meta["progress"], arrays
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise DrError(
            f"{CHECKPOINT} is damaged ({error!r}): delete it to start again"
        ) from error


def copy_weights(model: keras.Model) -> list[Any]:
    """Copy on the device what `read_weights` reads: no step waits for the host."""
    return [keras.ops.copy(variable) for variable in _changing(model)]


def read_weights(model: keras.Model) -> list[np.ndarray]:
    """Read what training changes in the model: weights, statistics and random state."""
    return [keras.ops.convert_to_numpy(variable) for variable in _changing(model)]


def read_variables(model: keras.Model) -> dict[str, list[np.ndarray]]:
    """Read all that training changes: `read_weights` and the optimiser's variables."""
    optimizer = [keras.ops.convert_to_numpy(variable) for variable in model.optimizer.variables]
    return {"model": read_weights(model), "optimizer": optimizer}


def assign_variables(model: keras.Model, arrays: Mapping[str, Sequence[np.ndarray]]) -> None:
    """Assign what `read_variables` read, or a part of it, to a compiled model.

    Raises:
        DrError: the arrays are those of another network or optimiser.
    """
    known = {"model": _changing(model), "optimizer": model.optimizer.variables}
    for name in (name for name in known if name in arrays):
        shapes = [tuple(variable.shape) for variable in known[name]]
        if shapes != [tuple(array.shape) for array in arrays[name]]:
            raise DrError(
                f"the checkpoint does not fit this model ({name}): delete it to start again"
            )
        for variable, array in zip(known[name], arrays[name], strict=True):
            variable.assign(array)


def _changing(model: keras.Model) -> list[keras.Variable]:
    # photographs kept on the device are a variable of the model, and no state
    return [
        variable for variable in model.variables if not variable.path.startswith(f"{STORE}/")
    ]
