"""One training, from a prepared folder to scores on its test split: notebooks, tests and benches
all call this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dr_lib.data.labels.grades import sum_referable
from dr_lib.data.labels.schema import SIDES
from dr_lib.data.prepared.folder import Photographs, Prepared, hash_file
from dr_lib.hardware import Device, Plan, activate, machines, probe
from dr_lib.statistics.bootstrap import bootstrap_patients, score_auc
from dr_lib.statistics.intervals import Interval
from dr_lib.training import metrics
from dr_lib.training.config import TrainingConfig

if TYPE_CHECKING:  # Keras takes its backend from the plan, so it is imported after that
    import keras

    from dr_lib.data.prepared.batches import Batches
    from dr_lib.data.prepared.stream import StoredCrops
    from dr_lib.training.fit import Timing

BEST = "best.keras"
PREDICTIONS = "predictions.csv"


class Setup(NamedTuple):
    """All that a training needs."""

    device: Device
    splits: dict[str, Photographs]  # those that have photographs
    network: keras.Model  # (batch, size, size, 3) uint8 -> probabilities
    # what is trained: the network, its upper part, or the network fed by row numbers
    model: keras.Model
    train_batches: Batches
    validation_batches: Batches | None  # None without that split, as in the paper's 70/30
    # of the test split, on the frozen features; not a number where nothing is frozen
    linear_probe_auc: float


class Trained(NamedTuple):
    """What a training leaves, beside its files."""

    device: Device
    splits: dict[str, Photographs]
    network: keras.Model  # with its best weights, which BEST holds too
    timing: Timing
    history: list[dict[str, float]]  # of each epoch
    # of test and, where there is one, validation: (n, 1) or (n, 5)
    probabilities: dict[str, np.ndarray]
    scores: dict[str, float]  # of the test split
    # of referable disease on the test split, bootstrapped over patients: fellow eyes are dependent
    auc: Interval
    row: dict[str, Any]  # all of these in the columns of a run's row


def train_once(
    config: TrainingConfig,
    plan: Plan,
    out_dir: Path,
    *,
    prepared: Prepared | None = None,
    splits: Mapping[str, Photographs] | None = None,
    commit: str = "",
    elapsed_s: Callable[[], float] | None = None,
    report: Callable[[int, int], None] | None = None,
    seconds_left: Callable[[], float] | None = None,
    monitor: AbstractContextManager = nullcontext(),  # noqa: B008
) -> Trained:
    """Set a training up, train, and score the best weights on the test split.

    The threshold of referral is chosen on the validation split; without one it is 0.5. Started
    again after a kill, with the same configuration and folder, a training goes on from its last
    checkpoint.

    Args:
        out_dir: for the history, the checkpoint, the best model and, of a prepared folder, its
            predictions.
        prepared: the folder and split of `config`, where it is open already.
        splits: photographs in place of a prepared folder's.
        commit: of the code, for the row of a training that is resumed by other code.
        elapsed_s: seconds since the run began, for the row's setup_s.
        report: this and seconds_left as in `Recorder`.
        monitor: entered just before the timed part and left behind it.

    Raises:
        HardwareError: the devices of the plan are not there.
        ModelError: the network cannot be built.
        ShardError: a shard does not match the manifest.
        OutOfTimeError: the time was up before the last epoch.
        CheckpointError: the checkpoint in the folder is damaged, or of another training.
    """
    if not splits:
        prepared = prepared or Prepared(config.data_dir, config.split)
    data = prepared.describe() if prepared else {}
    if plan.num_machines > 1:
        activate(plan).check_alike(config.describe() | data | {"commit": commit})
    setup = set_up(config, plan, splits or load_splits(config, plan, prepared))
    from dr_lib.training import fit, models
    from dr_lib.training.recorder import Recorder

    facts = probe()
    device = setup.device
    network = setup.network
    schedule = config.schedule
    session = {"precision": plan.precision, "strategy": plan.strategy, "accelerator": device.name}
    session |= {"cpu": facts.cpu, "commit": commit}
    identity = config.describe() | data | {"backend": plan.backend}
    identity.pop("num_machines")  # others may go on, or fewer: their results are the same
    how = {
        "report": report,
        "seconds_left": seconds_left,
        "writes": not device.rank,
        "share": device.share,
    }
    recorder = Recorder(out_dir, identity=identity, session=session, **how)
    with device.scope():
        setup_s = elapsed_s() if elapsed_s else float("nan")
        batches = setup.train_batches, setup.validation_batches
        how = {"epochs": config.epochs, "warmup_epochs": schedule.warmup_epochs}
        how |= {"keep_best": config.keep_best, "tensorboard": config.tensorboard}
        how |= {"average_weights": config.ema_momentum > 0}
        with monitor, machines.losing_one(plan.num_machines):
            timing = fit.train(setup.model, *batches, recorder, **how)
        models.save_model(network, out_dir / BEST)
        if plan.num_machines > 1:
            machines.leave(plan.num_machines)
            network = models.load_alone(out_dir / BEST)
        predicted = {
            name: predict(config, network, s.images)
            for name, s in setup.splits.items()
            if name != "train"
        }
    if prepared:  # its tables know the photographs
        found = {name: (setup.splits[name].image_id, values) for name, values in predicted.items()}
        model = network.name, hash_file(out_dir / BEST)[:12]
        prepared.write_predictions(out_dir / PREDICTIONS, found.values(), *model)
    scores, auc = _evaluate(config, setup.splits, predicted)
    times = timing._asdict() | {"setup_s": setup_s, "steady_epoch_s": timing.steady_epoch_s}
    times["images_per_s"] = (
        len(setup.train_batches) * schedule.batch_size / timing.steady_training_s
    )
    done_by = times.pop("done_by")
    data |= {
        f"num_images_{name}": len(setup.splits[name].grade) if name in setup.splits else 0
        for name in SIDES
    }
    for name, photographs in setup.splits.items():
        data[f"num_patients_{name}"] = len(set(photographs.patient_id))
    data |= {
        "num_images_dropped": setup.train_batches.num_dropped,
        "num_parameters": network.count_params(),
    }
    metric = {f"metric_{name}_test": value for name, value in scores.items()}
    metric |= {"metric_auc_test_low": auc.low, "metric_auc_test_high": auc.high}
    metric |= {"metric_linear_probe_auc_test": setup.linear_probe_auc}
    row = device.describe(facts) | data | schedule._asdict() | times | metric | done_by
    return Trained(
        device, setup.splits, network, timing, recorder.history, predicted, scores, auc, row
    )


def load_splits(config: TrainingConfig, plan: Plan, prepared: Prepared) -> dict[str, Photographs]:
    """Read the sides of a split, into memory or to be streamed, as the plan says."""
    stream = plan.input == "stream"
    return {name: prepared.load(name, config.image_size, stream=stream) for name in SIDES}


def set_up(config: TrainingConfig, plan: Plan, splits: Mapping[str, Photographs]) -> Setup:
    """Activate the plan, build and compile the network; see `train_once`."""
    device = activate(plan)
    import keras

    from dr_lib.data.prepared.batches import Batches
    from dr_lib.training import fit, frozen, graders, models, resident

    splits = {name: photographs for name, photographs in splits.items() if len(photographs.grade)}
    batch_size = config.schedule.batch_size
    linear_probe_auc = float("nan")
    inputs = {name: photographs.images for name, photographs in splits.items()}
    how = {
        "weights": config.weights,
        "augmentation": config.augmentation,
        "synchronised": device.synchronised,
    }
    how |= {"seed": config.run_seed}
    keras.utils.set_random_seed(config.run_seed)
    learning = {"optimizer": config.optimizer, "learning_rate": config.schedule.learning_rate}
    learning |= {"ema_momentum": config.ema_momentum}
    learning |= {"jit": plan.jit, "steps_per_execution": plan.steps_per_execution}
    with device.scope():
        if config.task == "grades":
            targets = {name: photographs.grade for name, photographs in splits.items()}
            network = graders.build_grader(config.model, config.image_size, **how)
            weights = graders.weigh_grades(targets["train"]) if config.weigh_grades else np.ones(5)
            learning |= {
                "loss": graders.weighted_loss(weights),
                "auc": graders.ReferableAUC(1000, name="auc"),
            }
        else:
            targets = {name: photographs.referable for name, photographs in splits.items()}
            how |= {"dropout": config.dropout, "last_layer": config.last_layer}
            network = models.build_model(config.model, config.image_size, **how)
            if config.weigh_classes:
                weights = graders.weigh_grades(targets["train"].astype(int))
                learning |= {
                    "loss": graders.weighted_loss(weights, keras.losses.binary_crossentropy)
                }
        model = network
        if config.last_frozen:
            how = {"probe_grades": config.probe_grades}
            frozen_part = frozen.freeze(network, config.last_frozen, splits, batch_size, **how)
            model, inputs, targets, linear_probe_auc = frozen_part
        if plan.on_device:
            inputs.pop("test", None)
            model, inputs = resident.keep_on_device(network, inputs)
        fit.compile_model(model, **learning)
    part = (device.rank, plan.num_machines)
    validation = None
    train_batches = Batches(
        inputs["train"], targets["train"], batch_size, shuffle_seed=config.run_seed, part=part
    )
    if "validation" in inputs:
        validation = Batches(inputs["validation"], targets["validation"], batch_size, part=part)
    return Setup(device, splits, network, model, train_batches, validation, linear_probe_auc)


def predict(
    config: TrainingConfig, network: keras.Model, images: np.ndarray | StoredCrops
) -> np.ndarray:
    """Predict photographs, averaged over their mirror images where the configuration says so:
    (n, outputs).
    """
    from dr_lib.data.prepared.batches import Mirrored
    from dr_lib.training import fit

    views = [images, Mirrored(images)] if config.test_time_augmentation else [images]
    return np.mean(
        [fit.predict(network, view, config.schedule.batch_size) for view in views], axis=0
    )


def _evaluate(
    config: TrainingConfig,
    splits: Mapping[str, Photographs],
    probabilities: Mapping[str, np.ndarray],
):
    """Scores of the test split at a threshold from the validation split, and its AUC with an
    interval.
    """
    is_grades = config.task == "grades"
    test = splits["test"]
    threshold = 0.5
    suspected = {
        name: sum_referable(p) if is_grades else p[:, 0] for name, p in probabilities.items()
    }
    if "validation" in splits:
        threshold = metrics.choose_threshold(
            splits["validation"].referable, suspected["validation"]
        )
    if is_grades:
        scores = metrics.score_grades(test.grade, probabilities["test"], threshold)
    else:
        scores = metrics.score(test.referable, suspected["test"], threshold)
    auc = score_auc(test.referable, suspected["test"])
    return scores, bootstrap_patients(auc, test.patient_id, seed=config.run_seed)
