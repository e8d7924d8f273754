"""One training run, from a prepared folder to scores on its test split; notebooks, tests and
benches call it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dr_lib.data.labels.grades import GRADES
from dr_lib.data.labels.schema import SIDES
from dr_lib.data.prepared.folder import Photographs, Prepared
from dr_lib.errors import DrError
from dr_lib.files import hash_file
from dr_lib.hardware import Device, Plan, activate, probe
from dr_lib.hardware.devices import measure_device_peak
from dr_lib.statistics.intervals import Interval
from dr_lib.training import metrics
from dr_lib.training.config import TrainingConfig
from dr_lib.training.model_folder import FACTS, ModelFolder, write_folder

if TYPE_CHECKING:  # Keras takes its backend from the plan, so it is imported after that
    import keras
    import pandas as pd

    from dr_lib.data.prepared.batches import Batches
    from dr_lib.training.fit import Timing
    from dr_lib.training.recorder import Recorder

BEST = "best.keras"
PREDICTIONS = "predictions.csv"


class Setup(NamedTuple):
    """Everything that a training run needs."""

    splits: dict[str, Photographs]  # those that have photographs
    network: keras.Model  # (batch, size, size, 3) uint8 -> probabilities
    # what is trained: the network, its head, or the network fed by row numbers
    model: keras.Model
    last_layer: str  # of the base, at which recipe few ends; else empty
    # over which photographs batch normalisation takes its statistics, see `find_batch_norm`
    batch_norm: str
    train_batches: Batches
    validation_batches: Batches | None  # None without that split, as in the paper's 70/30

    def describe(self) -> dict[str, Any]:
        """Describe the data and the network in columns of a run's row."""
        columns = {f"num_images_{name}": 0 for name in SIDES}
        for name, side in self.splits.items():
            columns[f"num_images_{name}"] = len(side.grade)
            columns[f"num_patients_{name}"] = len(set(side.patient_id))
        return {
            **columns,
            "num_images_dropped": self.train_batches.num_dropped,
            "num_parameters": self.network.count_params(),
            "batch_norm": self.batch_norm,
            "last_layer": self.last_layer,
        }


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
            "trained_with": {
                **config.describe(),
                "last_layer": row["last_layer"],
            },
            "commit": commit,
            "versions": {name: row[name] for name in ("keras", "numpy")},
        }
        return write_folder(folder, "model.keras", facts)

    def delete_checkpoint(self) -> None:
        """Delete the file from which a killed training goes on, once its row is written."""
        from dr_lib.training.checkpoint import CHECKPOINT

        (self.folder / CHECKPOINT).unlink(missing_ok=True)

    def count_grades(self) -> pd.DataFrame:
        """Count the photographs of each grade, a column a side, with its weight in the loss."""
        import pandas as pd

        from dr_lib.training.models import weigh_grades

        counts = {
            name: np.bincount(side.grade, minlength=len(GRADES))
            for name, side in self.splits.items()
        }
        table = pd.DataFrame(counts, index=GRADES)
        if self.config.weigh_grades:
            table["weight in the loss"] = weigh_grades(self.splits["train"].grade).round(2)
        return table


def train_once(
    config: TrainingConfig,
    plan: Plan,
    out_dir: Path,
    *,
    prepared: Prepared | None = None,
    splits: Mapping[str, Photographs] | None = None,
    commit: str = "",
    code_sha256: str = "",
    elapsed_s: Callable[[], float] = lambda: float("nan"),
    report: Callable[[int, int], None] | None = None,
    seconds_left: Callable[[], float] | None = None,
    monitor: AbstractContextManager = nullcontext(),  # noqa: B008
    fail: Callable[..., Any] = lambda fault, **machine: None,
) -> Trained:
    """Set up a training run, train, and score the best weights on the test split.

    The threshold of referral is chosen on the validation split; without one it is 0.5. Started
    again after a kill, with the same configuration and folder, a training goes on from its last
    checkpoint.

    Args:
        config: what is asked for.
        plan: of `config.plan`.
        out_dir: for the history, the checkpoint, the best model and, of a prepared folder, its
            predictions.
        prepared: the folder and split of `config`, where it is open already.
        splits: photographs in place of a prepared folder's.
        commit: this and code_sha256 name the code, for the row of a training that is resumed by
            other code.
        elapsed_s: seconds since the run began, for the row's setup_s.
        report: this and seconds_left as in `Recorder`.
        monitor: entered just before the timed part and left behind it.
        fail: called with the reason and the machine's columns where the training diverges.

    Raises:
        HardwareError: the devices of the plan are not there.
        ShardError: a shard does not match the manifest.
        OutOfTimeError: the time was up before the last epoch.
        DrError: a side of the split is empty or of one class, the network cannot be built, the
            checkpoint in the folder is damaged, or of another training, or it diverged.

    Example:
        >>> config = TrainingConfig(data_dir="data/prepared", epochs=3)
        >>> plan = config.plan(probe(), num_images=400)
        >>> trained = train_once(config, plan, Path("out"))  # doctest: +SKIP
        >>> trained.scores["auc"], trained.row["train_s"]  # doctest: +SKIP
        (0.8312, 41.7)
    """
    if not splits:
        prepared = prepared or Prepared(config.data_dir, config.split)
    data = prepared.describe() if prepared else {}
    work = {**config.describe(), **data}

    device = activate(plan)
    if not splits:
        is_streamed = plan.input == "stream"
        splits = {
            name: prepared.load(name, config.image_size, stream=is_streamed) for name in SIDES
        }
    metrics.check_sides(splits, config.recipe, config.patience)
    setup = set_up(config, device, splits)

    from dr_lib.training.recorder import Recorder

    identity = {**work, "backend": plan.backend}
    code = {"commit": commit, "code_sha256": code_sha256}
    recorder = Recorder(
        out_dir,
        identity=identity,
        session={**describe_session(device), **code},
        report=report,
        seconds_left=seconds_left,
    )
    with device.scope():
        setup_s = elapsed_s()
        with monitor:
            timing = fit_model(config, setup, recorder)
        speed = measure_speed(device, setup, timing)
        network = save_best(setup.network, recorder, device, fail)
        probabilities = predict_sides(config, network, setup.splits)

    if prepared:  # its tables know the photographs
        sides = [
            (setup.splits[name].image_id, values) for name, values in probabilities.items()
        ]
        version = hash_file(out_dir / BEST)[:12]
        prepared.write_predictions(out_dir / PREDICTIONS, sides, network.name, version)
    scores, auc = metrics.score_sides(setup.splits, probabilities, task=config.task)
    row = {
        **device.describe(probe()),
        **data,
        **setup.describe(),
        **timing.describe(),
        "setup_s": setup_s,
        **speed,
        **{f"metric_{name}_test": value for name, value in scores.items()},
        **auc.columns("metric_auc_test"),
        **recorder.join_sessions(),
    }
    return Trained(
        config=config,
        folder=Path(out_dir),
        device=device,
        splits=setup.splits,
        network=network,
        history=recorder.history,
        probabilities=probabilities,
        scores=scores,
        auc=auc,
        row=row,
    )


def describe_session(device: Device) -> dict[str, str]:
    """Describe what may be another in each session of a training, in columns of its row."""
    return {
        "precision": device.plan.precision,
        **device.plan.arithmetic,
        "strategy": device.plan.strategy,
        "accelerator": device.name,
        "cpu": probe().cpu,
    }


def fit_model(config: TrainingConfig, setup: Setup, recorder: Recorder) -> Timing:
    """Train as a configuration says; see `fit.train`."""
    from dr_lib.training import fit

    return fit.train(
        setup.model,
        setup.train_batches,
        setup.validation_batches,
        recorder,
        epochs=config.epochs,
        keep_best=config.keep_best,
        halve_on_plateau=config.halve_on_plateau,
        patience=config.patience,
        min_delta=config.min_delta,
    )


def predict_sides(
    config: TrainingConfig, network: keras.Model, splits: Mapping[str, Photographs]
) -> dict[str, np.ndarray]:
    """Predict the photographs of all sides but the training's, (n, 1) or (n, 5) each."""
    from dr_lib.training.fit import predict

    return {
        name: predict(
            network,
            side.images,
            config.batch_size,
            average_mirrored=config.test_time_augmentation,
        )
        for name, side in splits.items()
        if name != "train"
    }


def save_best(
    network: keras.Model, recorder: Recorder, device: Device, fail: Callable[..., Any]
) -> keras.Model:
    """Save the network with its best weights as BEST; raise the fault of one that diverged."""
    from dr_lib.training.models import save_model

    path = recorder.out_dir / BEST
    fault = recorder.fault
    if recorder.best_variables:
        save_model(network, path)
        if fault:
            fault += f"; the best epoch before it, {recorder.best_epoch}, is kept in {BEST}"
    if fault:
        fail(fault, **device.describe(probe()))
        raise DrError(fault)
    return network


def measure_speed(device: Device, setup: Setup, timing: Timing) -> dict[str, float | None]:
    """Measure how fast a training was and how much memory it took, in columns of its row."""
    batches = setup.train_batches
    images_per_epoch = len(batches) * batches.batch_size
    return {
        "device_peak_mib": measure_device_peak(device.plan.backend),
        "images_per_s": images_per_epoch / timing.steady_training_s,
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


def set_up(config: TrainingConfig, device: Device, splits: Mapping[str, Photographs]) -> Setup:
    """Build and compile the network and make the batches; see `train_once`."""
    import keras

    from dr_lib.data.prepared.batches import Batches
    from dr_lib.training import fit, frozen, models, plain, resident

    plan = device.plan
    seed = config.run_seed
    batch_size = config.batch_size
    truth = "grade" if config.task == "grades" else "referable"
    splits = {name: side for name, side in splits.items() if len(side.grade)}
    inputs = {name: side.images for name, side in splits.items()}
    targets = {name: getattr(side, truth) for name, side in splits.items()}

    keras.utils.set_random_seed(seed)
    with device.scope():
        network = build_network(config)
        model = network
        last_layer = ""
        if config.recipe == "few":
            last_layer = network.get_layer("base").layers[-1].name
            model, inputs, targets = frozen.freeze(network, splits, batch_size)
        if plan.on_device:
            inputs = {name: images for name, images in inputs.items() if name != "test"}
            model, inputs = resident.keep_on_device(
                network, inputs, whole_epochs=not plan.steps_per_execution
            )
        fit.compile_model(
            model,
            optimizer=config.optimizer,
            learning_rate=config.learning_rate,
            rho=config.rho,
            epsilon=config.epsilon,
            loss=choose_loss(config, targets["train"]),
            capacity=batch_size + max(map(len, targets.values())),
            jit=plan.jit,
            steps_per_execution=plan.steps_per_execution or 16,  # of validation
        )

    validation_batches = None
    if "validation" in splits:
        validation_batches = Batches(inputs["validation"], targets["validation"], batch_size)
    if config.mode == "plain":
        train_batches = plain.PlainBatches(
            splits["train"], targets["train"], batch_size, seed=seed
        )
    else:
        train_batches = Batches(
            inputs["train"], targets["train"], batch_size, shuffle_seed=seed
        )
    return Setup(
        splits=splits,
        network=network,
        model=model,
        last_layer=last_layer,
        batch_norm=models.find_batch_norm(network, plan.strategy),
        train_batches=train_batches,
        validation_batches=validation_batches,
    )


def build_network(config: TrainingConfig) -> keras.Model:
    """Build the network of a configuration, with the weights that its recipe starts from."""
    from dr_lib.training.models import build_model

    return build_model(
        config.model,
        config.image_size,
        task=config.task,
        weights=config.weights,
        augmentation=config.augmentation,
        recipe=config.recipe,
        seed=config.run_seed,
    )


def choose_loss(config: TrainingConfig, targets: np.ndarray) -> str | Callable:
    """Choose the loss of a task; on request grades are weighed by those of the training split."""
    from dr_lib.training.models import weigh_grades, weighted_loss

    if config.task == "referable":
        return "binary_crossentropy"
    weights = weigh_grades(targets) if config.weigh_grades else np.ones(len(GRADES))
    return weighted_loss(weights)
