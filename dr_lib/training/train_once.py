"""One training run, from a prepared folder to scores on its test split.

`train_once` makes the calls of notebook 10 in their order, for tests and benches.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dr_lib.data.labels.grades import GRADES
from dr_lib.data.labels.schema import SIDES
from dr_lib.data.prepared.folder import Photographs, Prepared
from dr_lib.errors import DrError
from dr_lib.files import hash_file
from dr_lib.hardware import Device, Plan, activate, distribute, probe
from dr_lib.hardware.devices import measure_device_peak
from dr_lib.statistics.intervals import Interval
from dr_lib.training import metrics
from dr_lib.training.config import TrainingConfig
from dr_lib.training.model_folder import FACTS, ModelFolder, write_folder

if TYPE_CHECKING:  # Keras takes its backend from the plan, so it is imported after that
    import keras

    from dr_lib.data.prepared.batches import Batches
    from dr_lib.training.callbacks import Checkpoint

BEST = "best.keras"
PREDICTIONS = "predictions.csv"


class Inputs(NamedTuple):
    """What is trained, and what it is fed with."""

    # the network; its head, of recipe few; or the network fed by row numbers, of mode fast
    model: keras.Model
    inputs: dict[str, Any]  # of each side: photographs, cached features or row numbers
    targets: dict[str, np.ndarray]  # (n,) float32, 1 for referable; or (n,) int64 grades


class Setup(NamedTuple):
    """All that is ready before the call of fit."""

    network: keras.Model  # (batch, size, size, 3) uint8 -> probabilities
    fed: Inputs
    train_batches: Batches
    validation_batches: Batches | None  # None without that split, as in the paper's 70/30


class Trained(NamedTuple):
    """The results of a training run, and its files."""

    config: TrainingConfig
    folder: Path  # with the files
    device: Device
    splits: dict[str, Photographs]  # those that have photographs
    network: keras.Model  # with its best weights, which BEST holds too
    history: list[dict[str, float]]  # of each epoch
    # of test and, where there is one, validation: (n, 1) or (n, 5)
    probabilities: dict[str, np.ndarray]
    scores: dict[str, float]  # of the test split
    # of referable disease on the test split, over patients: fellow eyes are dependent
    auc: Interval
    row: dict[str, Any]  # what a run's row says of it; the sessions of a resumed one are joined

    @property
    def predictions(self) -> Path:
        """The file predictions.csv, which `evaluate` reads."""
        return self.folder / PREDICTIONS

    def write_model(self, commit: str = "") -> ModelFolder:
        """Move the best network into `model`, a folder with all that serving needs."""
        config = self.config
        row = self.row
        folder = self.folder / "model"
        folder.mkdir(exist_ok=True)
        (self.folder / BEST).replace(folder / "model.keras")
        threshold_from = "not chosen: there is no validation split"
        if "validation" in self.splits:
            threshold_from = "for a sensitivity of 0.9 on the validation split"
        facts = {
            **{name: row[name] for name in FACTS if name in row},
            "format": "keras",
            "model": config.model,
            "image_size": config.image_size,
            "grades": list(GRADES) if config.task == "grades" else [],
            "threshold": self.scores["threshold"],
            "threshold_from": threshold_from,
            "test_time_augmentation": config.test_time_augmentation,
            "weights": Path(config.weights).name,
            "metrics": self.scores,
            "warning": metrics.find_doubt(self.auc),
            "trained_with": {**config.describe(), "last_layer": row["last_layer"]},
            "commit": commit,
            "versions": {name: row[name] for name in ("keras", "numpy")},
        }
        return write_folder(folder, "model.keras", facts)


def train_once(
    config: TrainingConfig,
    plan: Plan,
    out_dir: Path,
    splits: Mapping[str, Photographs] | None = None,
) -> Trained:
    """Train as notebook 10 does, and score the best weights on the test split.

    The threshold of referral is chosen on the validation split; without one it is 0.5. Started
    again after a kill, with the same configuration and folder, a training goes on from its last
    checkpoint.

    Args:
        config: what is asked for.
        plan: of `config.plan`.
        out_dir: for the history, the checkpoint, the best model and, of a prepared folder, its
            predictions.
        splits: photographs in place of a prepared folder's.

    Raises:
        HardwareError: the devices of the plan are not there.
        ShardError: a shard does not match the manifest.
        DrError: a side of the split is empty or of one class, the network cannot be built, the
            checkpoint in the folder is damaged, or of another training, or it diverged.

    Example:
        >>> config = TrainingConfig(data_dir="data/prepared", epochs=3)
        >>> plan = config.plan(probe(), num_images=400)
        >>> trained = train_once(config, plan, Path("out"))  # doctest: +SKIP
        >>> trained.scores["auc"], trained.row["train_s"]  # doctest: +SKIP
        (0.8312, 41.7)
    """
    prepared = None if splits else Prepared(config.data_dir, config.split)
    device = distribute(activate(plan))

    from dr_lib.training.callbacks import Checkpoint
    from dr_lib.training.fit import make_schedule, train

    sides = load_sides(config, plan, splits or prepared)
    setup = set_up(config, device, sides)
    has_validation = setup.validation_batches is not None
    checkpoint = Checkpoint(
        Path(out_dir),
        *make_schedule(config.optimizer, config.patience, has_validation),
        monitor="val_auc" if has_validation else "auc",
        identity=identify(config, plan, prepared),
        session=describe_session(device),
    )
    batches = setup.train_batches, setup.validation_batches
    with device.scope():
        times = train(setup.fed.model, *batches, checkpoint, epochs=config.epochs)
        trained = score_training(config, device, prepared, sides, setup.network, checkpoint)
    dropped = {"num_images_dropped": setup.train_batches.num_dropped}
    return trained._replace(row={**trained.row, **times, **dropped})


def set_up(config: TrainingConfig, device: Device, sides: Mapping[str, Photographs]) -> Setup:
    """Build and compile the network and make the batches, in the scope of the device."""
    import keras

    plan = device.plan
    keras.utils.set_random_seed(config.run_seed)
    with device.scope():
        network = build_network(config, plan)
        fed = choose_inputs(config, plan, network, sides)
        compile_network(config, plan, fed)
    return Setup(network, fed, *make_batches(config, plan, sides, fed))


def load_sides(
    config: TrainingConfig, plan: Plan, source: Prepared | Mapping[str, Photographs]
) -> dict[str, Photographs]:
    """Load the sides of a split that have photographs, into memory or as a stream as planned.

    Raises:
        ShardError: a shard does not match the manifest.
        DrError: nothing can be trained or scored with this split.
    """
    splits = source
    if isinstance(source, Prepared):
        is_streamed = plan.input == "stream"
        splits = {
            name: source.load(name, config.image_size, stream=is_streamed) for name in SIDES
        }
    metrics.check_sides(splits, config.recipe, config.patience)
    return {name: side for name, side in splits.items() if len(side.grade)}


def build_network(config: TrainingConfig, plan: Plan) -> keras.Model:
    """Build the network of a configuration, with the weights that its recipe starts from."""
    from dr_lib.training.models import build_model

    return build_model(
        config.model,
        config.image_size,
        task=config.task,
        weights=config.weights,
        augmentation=config.augmentation,
        recipe=config.recipe,
        synchronized=plan.strategy == "MirroredStrategy" and plan.batch_norm == "global",
        seed=config.run_seed,
    )


def choose_inputs(
    config: TrainingConfig, plan: Plan, network: keras.Model, sides: Mapping[str, Photographs]
) -> Inputs:
    """Choose what is trained and fed: the network by its photographs; its head by what the frozen
    base gives (recipe few); or the network by the row numbers of photographs on the device.
    """
    from dr_lib.training import frozen, resident

    truth = "grade" if config.task == "grades" else "referable"
    inputs = {name: side.images for name, side in sides.items()}
    targets = {name: getattr(side, truth) for name, side in sides.items()}
    model = network
    if config.recipe == "few":
        model, inputs, targets = frozen.freeze(network, sides, plan.step_size)
    elif plan.on_device:
        inputs = {name: images for name, images in inputs.items() if name != "test"}
        model, inputs = resident.keep_on_device(
            network, inputs, whole_epochs=not plan.steps_per_execution
        )
    return Inputs(model, inputs, targets)


def compile_network(config: TrainingConfig, plan: Plan, fed: Inputs) -> None:
    """Compile what is trained, see `fit.compile_model`."""
    from dr_lib.training.fit import compile_model

    compile_model(
        fed.model,
        optimizer=config.optimizer,
        learning_rate=config.learning_rate,
        task=config.task,
        capacity=plan.step_size + max(map(len, fed.targets.values())),
        jit=plan.jit,
        steps_per_execution=plan.steps_per_execution or 16,  # of validation
    )


def make_batches(
    config: TrainingConfig, plan: Plan, sides: Mapping[str, Photographs], fed: Inputs
) -> tuple[Batches, Batches | None]:
    """Make the batches of training and of validation; None without that split."""
    from dr_lib.data.prepared.batches import Batches
    from dr_lib.training.plain import PlainBatches

    validation_batches = None
    if "validation" in sides:
        data = fed.inputs["validation"], fed.targets["validation"]
        validation_batches = Batches(*data, plan.step_size)
    seed = config.run_seed
    if config.mode == "plain":
        train_batches = PlainBatches(
            sides["train"], fed.targets["train"], plan.step_size, seed=seed
        )
    else:
        data = fed.inputs["train"], fed.targets["train"]
        train_batches = Batches(*data, plan.step_size, shuffle_seed=seed)
    return train_batches, validation_batches


def identify(config: TrainingConfig, plan: Plan, prepared: Prepared | None) -> dict[str, Any]:
    """Identify what is to be trained: a checkpoint of anything else is refused."""
    data = prepared.describe() if prepared else {}
    planned = {name: getattr(plan, name) for name in ("backend", "step_size", "batch_norm")}
    return {**config.describe(), **data, **planned}


def describe_session(device: Device) -> dict[str, str]:
    """Describe what may be another in each session of a training, in columns of its row."""
    return {
        "precision": device.plan.precision,
        **device.plan.arithmetic,
        "strategy": device.plan.strategy,
        "accelerator": device.name,
        "cpu": probe().cpu,
    }


def score_training(
    config: TrainingConfig,
    device: Device,
    prepared: Prepared | None,
    sides: Mapping[str, Photographs],
    network: keras.Model,
    checkpoint: Checkpoint,
) -> Trained:
    """Save the network with its best weights, predict and score; in the scope of the device.

    Raises:
        DrError: the training diverged; the best epoch before it is kept in BEST.
    """
    from dr_lib.training.models import find_normalisations, save_model

    plan = device.plan
    is_normalised = any(find_normalisations(network.get_layer("base")))
    device_peak_mib = measure_device_peak(plan.backend)
    folder = checkpoint.folder
    if checkpoint.best_variables:
        save_model(network, folder / BEST)
    if checkpoint.fault:
        kept = f"; the best epoch before it, {checkpoint.best_epoch}, is kept in {BEST}"
        raise DrError(checkpoint.fault + (kept if checkpoint.best_variables else ""))
    probabilities = predict_sides(config, plan, network, sides)
    if prepared:  # its tables know the photographs
        shown = [(sides[name].image_id, values) for name, values in probabilities.items()]
        version = hash_file(folder / BEST)[:12]
        prepared.write_predictions(folder / PREDICTIONS, shown, network.name, version)
    scores, auc = metrics.score_sides(sides, probabilities, task=config.task)
    row = {
        **device.describe(probe()),
        **(prepared.describe() if prepared else {}),
        **count_sides(sides),
        "num_parameters": network.count_params(),
        "batch_norm": plan.batch_norm if is_normalised else "none",
        "last_layer": (
            network.get_layer("base").layers[-1].name if config.recipe == "few" else ""
        ),
        "device_peak_mib": device_peak_mib,
        **{f"metric_{name}_test": value for name, value in scores.items()},
        **auc.columns("metric_auc_test"),
        **checkpoint.join_sessions(),
    }
    return Trained(
        config=config,
        folder=folder,
        device=device,
        splits=dict(sides),
        network=network,
        history=checkpoint.history,
        probabilities=probabilities,
        scores=scores,
        auc=auc,
        row=row,
    )


def count_sides(sides: Mapping[str, Photographs]) -> dict[str, int]:
    """Count the photographs and patients of each side, in columns of a row."""
    columns = {f"num_images_{name}": 0 for name in SIDES}
    for name, side in sides.items():
        columns[f"num_images_{name}"] = len(side.grade)
        columns[f"num_patients_{name}"] = len(set(side.patient_id))
    return columns


def predict_sides(
    config: TrainingConfig, plan: Plan, network: keras.Model, sides: Mapping[str, Photographs]
) -> dict[str, np.ndarray]:
    """Predict the photographs of all sides but the training's, (n, 1) or (n, 5) each."""
    from dr_lib.training.fit import predict

    return {
        name: predict(
            network,
            side.images,
            plan.step_size,
            average_mirrored=config.test_time_augmentation,
        )
        for name, side in sides.items()
        if name != "train"
    }


def list_trained(root: Path) -> list[Path]:
    """List the folders of this clone's trainings, the latest first; in a clone without one a
    network learns to grade the sample, as notebook 10 does with that task.
    """
    written = root.glob(f"papermill_runs/*/runs/*/{PREDICTIONS}")
    latest = sorted(written, key=lambda path: path.stat().st_mtime, reverse=True)
    if latest:
        return [path.parent for path in latest]
    from dr_lib.data.prepared.sample import open_sample

    sample = root / "papermill_runs" / "sample"
    config = TrainingConfig(data_dir=open_sample(sample), task="grades")
    folder = sample / "runs" / "trained"
    folder.mkdir(parents=True, exist_ok=True)
    train_once(config, config.plan(probe(), 400), folder).write_model()
    return [folder]
