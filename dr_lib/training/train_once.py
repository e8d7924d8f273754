"""One training run, from a prepared folder to scores on its test split; notebooks, tests and
benches call it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dr_lib.data.labels.grades import GRADES
from dr_lib.data.labels.schema import SIDES
from dr_lib.data.prepared.folder import Photographs, Prepared, hash_file
from dr_lib.errors import DrError
from dr_lib.hardware import Device, Plan, activate, probe
from dr_lib.hardware.devices import measure_device_peak
from dr_lib.hardware.peaks import find_peak
from dr_lib.statistics.intervals import Interval
from dr_lib.training import metrics
from dr_lib.training.arithmetic import detect_arithmetic
from dr_lib.training.config import TrainingConfig
from dr_lib.training.model_folder import ModelFolder, write_trained

if TYPE_CHECKING:  # Keras takes its backend from the plan, so it is imported after that
    import keras
    import pandas as pd

    from dr_lib.data.prepared.batches import Batches
    from dr_lib.training.fit import Timing

BEST = "best.keras"
PREDICTIONS = "predictions.csv"


class Setup(NamedTuple):
    """Everything that a training run needs."""

    device: Device
    splits: dict[str, Photographs]  # those that have photographs
    network: keras.Model  # (batch, size, size, 3) uint8 -> probabilities
    # what is trained: the network, its upper part, or the network fed by row numbers
    model: keras.Model
    last_frozen: str  # last layer of the base that is frozen; empty where none is
    # over which photographs batch normalisation takes its statistics, see `find_batch_norm`
    batch_norm: str
    train_batches: Batches
    validation_batches: Batches | None  # None without that split, as in the paper's 70/30


class Trained(NamedTuple):
    """The results of a training run, and its files."""

    config: TrainingConfig
    folder: Path  # with the files
    device: Device
    splits: dict[str, Photographs]  # those that have photographs
    network: keras.Model  # with its best weights, which BEST holds too
    timing: Timing
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
        return write_trained(self.folder / BEST, self, commit)

    def delete_checkpoint(self) -> None:
        """Delete the file from which a killed training goes on, once its row is written."""
        from dr_lib.training.checkpoint import CHECKPOINT

        # one of several machines wrote it
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
            weights = weigh_grades(self.splits["train"].grade)
            table["weight in the loss"] = weights.round(2)
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
        >>> config = TrainingConfig("data/prepared", epochs=3)
        >>> plan = config.plan(probe(), num_images=400)
        >>> trained = train_once(config, plan, Path("out"))  # doctest: +SKIP
        >>> trained.scores["auc"], trained.timing.train_s  # doctest: +SKIP
        (0.8312, 41.7)
    """
    asked = config.describe()
    if not splits:
        prepared = prepared or Prepared(config.data_dir, config.split)
    data = prepared.describe() if prepared else {}
    work = {**asked, **data}
    device = activate(plan)
    device.machine.check_alike({**work, "code_sha256": code_sha256})
    if not splits:
        is_streamed = plan.input == "stream"
        splits = {
            name: prepared.load(name, config.image_size, stream=is_streamed) for name in SIDES
        }
    metrics.check_sides(splits, config.recipe, config.patience)
    arithmetic = find_arithmetic(device)
    setup = set_up(config, device, splits)

    import keras

    from dr_lib.training import calls, fit, models, resident
    from dr_lib.training.recorder import Recorder

    identity = {**work, "backend": plan.backend}
    identity.pop("num_machines")  # more or fewer may go on: their results are the same
    session = {
        "precision": plan.precision,
        "strategy": plan.strategy,
        **arithmetic,
        "accelerator": device.name,
        "cpu": probe().cpu,
        "commit": commit,
        "code_sha256": code_sha256,
    }
    recorder = Recorder(
        out_dir,
        identity=identity,
        session=session,
        report=report,
        seconds_left=seconds_left,
        writes=device.machine.place.rank == 0,
        broadcast=device.machine.broadcast,
    )
    with device.scope():
        setup_s = elapsed_s()
        with monitor, device.machine.losing_one():
            timing = fit.train(
                setup.model,
                setup.train_batches,
                setup.validation_batches,
                recorder,
                epochs=config.epochs,
                warmup_epochs=config.schedule.warmup_epochs,
                keep_best=config.keep_best,
                halve_on_plateau=config.halve_on_plateau,
                patience=config.patience,
                min_delta=config.min_delta,
            )
        device_peak_mib = measure_device_peak(plan.backend)
        batches = setup.train_batches
        batch = batches[0]
        if not plan.steps_per_execution:  # of what XLA calls in a loop it counts one call
            batch = resident.Epoch(batches)[0]
        step_flop = calls.count_flop(plan.backend, setup.model, batch)
        flop_per_image = step_flop / len(batches[0][1])
        network = setup.network
        if recorder.best_variables:
            models.save_model(network, out_dir / BEST)
        if fault := recorder.fault:
            if recorder.best_variables:
                fault += f"; the best epoch before it, {recorder.best_epoch}, is kept in {BEST}"
            fail(fault, **device.describe(probe()))
            raise DrError(fault)
        if device.machine.leave():
            network = keras.models.load_model(out_dir / BEST)
        probabilities = {
            name: fit.predict(
                network,
                side.images,
                config.schedule.batch_size,
                average_mirrored=config.parts.test_time_augmentation,
            )
            for name, side in setup.splits.items()
            if name != "train"
        }
    if prepared:  # its tables know the photographs
        sides = [
            (setup.splits[name].image_id, values) for name, values in probabilities.items()
        ]
        version = hash_file(out_dir / BEST)[:12]
        prepared.write_predictions(out_dir / PREDICTIONS, sides, network.name, version)
    scores, auc = metrics.score_sides(setup.splits, probabilities, task=config.task)
    images_per_epoch = len(batches) * batches.batch_size
    flop = flop_per_image * images_per_epoch * len(timing.epoch_s)
    peak = sum_peaks(device, arithmetic["conv_precision"])
    row = {
        **device.describe(probe()),
        **data,
        **{f"num_images_{side}": 0 for side in SIDES},
        **{f"num_images_{name}": len(side.grade) for name, side in setup.splits.items()},
        **{
            f"num_patients_{name}": len(set(side.patient_id))
            for name, side in setup.splits.items()
        },
        "num_images_dropped": batches.num_dropped,
        "num_parameters": network.count_params(),
        "batch_norm": setup.batch_norm,
        "last_layer": setup.last_frozen if config.parts.is_cut else "",
        "last_frozen": setup.last_frozen,
        **config.schedule._asdict(),
        **timing.describe(),
        **timing.find_target(recorder.history, config.target_auc),
        "setup_s": setup_s,
        "device_peak_mib": device_peak_mib,
        "images_per_s": images_per_epoch / timing.steady_training_s,
        "flop_per_image": flop_per_image,
        "peak_fraction": flop / (timing.parts["steps_s"] or float("nan")) / peak,
        **{f"metric_{name}_test": value for name, value in scores.items()},
        **auc.columns("metric_auc_test"),
        **timing.done_by,
    }
    return Trained(
        config=config,
        folder=Path(out_dir),
        device=device,
        splits=setup.splits,
        network=network,
        timing=timing,
        history=recorder.history,
        probabilities=probabilities,
        scores=scores,
        auc=auc,
        row=row,
    )


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
    config = TrainingConfig(open_sample(sample), task="grades")
    folder = sample / "runs" / "trained"
    folder.mkdir(parents=True, exist_ok=True)
    train_once(config, config.plan(probe(), 400), folder).write_model()
    return [folder]


def find_arithmetic(device: Device) -> dict[str, str]:
    """Detect the arithmetic of a device's layers, see `detect_arithmetic`; warn where it is not as
    requested.
    """
    plan = device.plan
    num_replicas = plan.num_replicas if plan.num_machines == 1 else 1
    with device.machine.alone(), device.scope():
        found = detect_arithmetic(jit=plan.jit, num_replicas=num_replicas)
    requested = plan.request.matmul_precision
    unlike = [f"{name} {value}" for name, value in found.items() if value != requested]
    if unlike and requested != "default":
        fault = f"requested was matmul_precision {requested}, detected is {', '.join(unlike)}"
        warnings.warn(f"{fault}; the row names both", stacklevel=3)
    return found


def sum_peaks(device: Device, precision: str) -> float:
    """Sum up the peaks of all devices [FLOP/s], see `find_peak`; a CPU is one of each machine."""
    plan = device.plan
    count = plan.num_replicas
    if device.name == "cpu":
        count = 1 if device.machine.place.is_rehearsed else plan.num_machines
    return count * find_peak(device.name, precision)


def set_up(config: TrainingConfig, device: Device, splits: Mapping[str, Photographs]) -> Setup:
    """Build and compile the network and make the batches; see `train_once`."""
    import keras

    from dr_lib.data.prepared.batches import Batches
    from dr_lib.training import fit, frozen, models, plain, resident

    plan = device.plan
    part = (device.machine.place.rank, plan.num_machines)
    is_plain = config.mode == "plain"
    batch_size = config.schedule.batch_size
    is_grades = config.task == "grades"
    splits = {name: side for name, side in splits.items() if len(side.grade)}
    inputs = {name: side.images for name, side in splits.items()}
    targets = {
        name: side.grade if is_grades else side.referable for name, side in splits.items()
    }

    keras.utils.set_random_seed(config.run_seed)
    with device.scope():
        network = models.build_model(
            config.model,
            config.image_size,
            task=config.task,
            weights=config.weights,
            augmentation=config.augmentation,
            dropout=config.parts.dropout,
            share=config.parts.share if config.parts.is_cut else 1.0,
            is_linear=config.recipe != "full",
            seed=config.run_seed,
            synchronised=device.synchronised and not is_plain,
        )
        loss = "binary_crossentropy"
        if is_grades:
            weights = np.ones(5)
            if config.weigh_grades:
                weights = models.weigh_grades(targets["train"])
            loss = models.weighted_loss(weights)
        model = network
        last_frozen = ""
        if config.parts.share:
            share = 1.0 if config.parts.is_cut else config.parts.share
            last_frozen = models.find_last_layer(network.get_layer("base"), share)
            model, inputs, targets = frozen.freeze(
                network,
                last_frozen,
                splits,
                batch_size,
                probe_grades=config.parts.probe_grades,
            )
        if plan.on_device:
            inputs = {name: images for name, images in inputs.items() if name != "test"}
            model, inputs = resident.keep_on_device(
                network, inputs, whole_epochs=not plan.steps_per_execution
            )
        fit.compile_model(
            model,
            optimizer=config.optimizer,
            learning_rate=config.schedule.learning_rate,
            rho=config.rho,
            epsilon=config.epsilon,
            loss=loss,
            capacity=batch_size + max(map(len, targets.values())),
            jit=plan.jit,
            steps_per_execution=plan.steps_per_execution or 16,  # of validation
        )
    batches = {
        name: Batches(
            inputs[name],
            targets[name],
            batch_size,
            shuffle_seed=config.run_seed if name == "train" else None,
            part=part,
        )
        for name in ("train", "validation")
        if name in inputs
    }
    if is_plain:
        batches["train"] = plain.PlainBatches(
            splits["train"], targets["train"], batch_size, seed=config.run_seed
        )
    with device.scope():
        batch_norm = models.find_batch_norm(
            network,
            batch_size,
            num_replicas=plan.num_replicas,
            part=part,
            jit=plan.jit,
        )
    return Setup(
        device=device,
        splits=splits,
        network=network,
        model=model,
        last_frozen=last_frozen,
        batch_norm=batch_norm,
        train_batches=batches["train"],
        validation_batches=batches.get("validation"),
    )
