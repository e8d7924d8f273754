"""The schema of a row: each column, what its value is, what it means, and its class.

A column tells of the work that was done, of the software stack that did it or of the hardware, or
of neither. Its unit follows from its name, see `find_unit`. A name that starts with `metric_` is a
score of the test split; a notebook of one's own may add columns.
"""

from typing import TypedDict


class Run(TypedDict):
    """In every row."""

    schema: int
    """number of this schema"""
    run_id: str
    """unique in its study"""
    study: str
    """name of the study's file, or adhoc"""
    notebook: str
    """that made the row"""
    notebook_sha256: str
    """of its code; empty if it did not start"""
    scenario: str
    """C1, C2, ... in the order of the factors"""
    repetition: int
    """index of the timed run"""
    order: int
    """position among the planned runs"""
    seed: int
    """the study's seed plus the repetition"""
    session_id: str
    """one call of the runner"""
    started_at: str
    """UTC, ISO 8601"""
    status: str
    """ok, failed or skipped"""
    retries: int
    """number of earlier failures"""
    resumed: int
    """number of times that it resumed from a checkpoint"""
    error: str
    """why it failed or was skipped; else empty"""
    commit: str
    """of the repository; -dirty: its code differs; -edited: other cells ran"""
    wall_s: float
    """from the start of the run to its row"""


class Work(TypedDict):
    """What was done: unlike work has no common mean, and no ratio but over a factor."""

    data_kind: str
    """synthetic or photographs, or what the notebook calls its data"""
    data_sha256: str
    """of the crops"""
    labels_sha256: str
    """of grades and patients, in whatever order"""
    split_sha256: str
    """of what divides the photographs, in whatever order"""
    task: str
    """referable or grades"""
    model: str
    """name of the network"""
    model_code_sha256: str
    """of a network of one's own"""
    weights: str
    """that training began with: none, imagenet or a file's name"""
    recipe: str
    """full: all is trained; few: the head"""
    last_layer: str
    """at which the base of recipe few ends; else empty"""
    epochs: int
    """asked for"""
    batch_size: int
    """photographs, of what batch_size_of says"""
    batch_size_of: str
    """step, over all devices, or replica, of each"""
    image_size: int
    """side of the network's input [px]"""
    optimizer: str
    """adam, rmsprop or rmsprop_voets, with its schedule"""
    learning_rate: float
    """at the start"""
    patience: int
    """epochs without a better AUC before it stops; 0: it never does"""
    augmentation: str
    """none, flip or colour"""
    test_time_augmentation: bool
    """a prediction is the mean with the mirror image"""
    data_share: float
    """of the training photographs that is used"""
    label: str
    """tells apart rows of equal work on purpose"""
    code_sha256: str
    """of the library's code and the notebook's, without parameters"""
    framework: str
    """of papers C and D"""
    dataset: str
    """mnist or cifar10"""
    network: int
    """number of paper C's network"""
    evaluate_every: int
    """epochs between two measurements of the accuracy; 0: at the end"""
    threads_asked: int
    """threads of the framework; 0: its default"""
    format: str
    """of the exported model"""
    num_threads: int
    """of an exported model's interpreter"""
    gap_s: float
    """between two requests, one after the other"""


class Stack(TypedDict):
    """Software: where it differs, a ratio says so."""

    mode: str
    """paper, plain or fast"""
    backend: str
    """of Keras, or the framework"""
    precision: str
    """Keras's policy"""
    jit: bool
    """compiled by XLA"""
    steps_per_execution: int
    """steps of one call; 0: an epoch is one program"""
    input: str
    """memory or stream: where the photographs were during training"""
    on_device: bool
    """photographs in the device's memory"""
    strategy: str
    """that divides a batch over the devices"""
    num_replicas: int
    """devices that a batch is divided over"""
    step_size: int
    """photographs of a step, over all devices"""
    batch_norm: str
    """global: over the whole batch; local: over a replica's part; or none"""
    batch_norm_requested: str
    """auto, local or global"""
    matmul_precision_requested: str
    """default: the platform's own"""
    matmul_precision: str
    """of a Dense layer: float32, tf32, bfloat16, bfloat16_3x, float16"""
    conv_precision: str
    """of a Conv2D layer, likewise"""
    environment_settings: str
    """set variables that change times, and their hash; or none"""
    implementation: str
    """of paper D"""
    threads: int
    """of the server, or of the framework as it says"""


class Versions(TypedDict):
    """Versions of packages: a part of the stack."""

    python: str
    """its version"""
    tensorflow: str
    """its version"""
    keras: str
    """its version"""
    jax: str
    """its version"""
    torch: str
    """its version"""
    mxnet: str
    """its version"""
    numpy: str
    """its version"""
    cuda: str
    """its version"""
    ai_edge_litert: str
    """its version"""


class Hardware(TypedDict):
    """The machine as detected."""

    platform: str
    """colab, kaggle or local; remote of an endpoint elsewhere"""
    instance_type: str
    """SageMaker's name of an endpoint's machine; empty if unknown"""
    accelerator: str
    """the device's own name, or cpu"""
    num_accelerators: int
    """devices used for training"""
    cpu: str
    """name of the processor's model"""
    num_cpus: int
    """CPUs that the process may use, rounded up"""
    cpu_quota: float
    """CPUs whose time the container grants; null without a limit"""
    memory_gib: float
    """memory that the process may use"""
    driver: str
    """of the GPU"""
    endpoint: str
    """local, or remote: a server elsewhere"""


class Measured(TypedDict):
    """Null if a run has none; seconds are on a monotonic clock."""

    setup_s: float
    """everything before the training"""
    train_s: float
    """from the call of fit to the end of the device's work and callbacks"""
    first_step_s: float
    """first call in train_s; an epoch's if steps_per_execution is 0"""
    epoch_s: list
    """time of each epoch"""
    training_s: list
    """time of each epoch's steps, without validation and checkpoint"""
    steady_epoch_s: float
    """median of the epochs from the second on"""
    cpu_s: float
    """CPU time of the training's process"""
    formula_usd: float
    """usd_per_hour x train_s / 3600; null without a training"""
    cost_usd: float
    """usd_per_hour x (train_s + setup_s) / 3600; null without one"""


class Details(TypedDict):
    """In some rows."""

    epochs_done: int
    """epochs trained; fewer than epochs if it stopped early"""
    compile_s: float
    """part of train_s: what first calls took longer than their steps"""
    input_s: float
    """part of train_s: steps waited for photographs"""
    steps_s: float
    """part of train_s: the steps themselves"""
    validation_s: float
    """part of train_s: validation and its score"""
    rest_s: float
    """part of train_s: the rest, such as checkpoints and best weights"""
    images_per_s: float
    """training images divided by the training time of a steady epoch"""
    session: str
    """session of the cloud service's machine"""
    boot: str
    """boot of the machine"""
    data_dir: str
    """name of the folder with the photographs"""
    crop_size: int
    """side of the stored crops [px]"""
    crop_method: str
    """robust or voets"""
    split: str
    """name of the split table"""
    num_images_train: int
    """photographs trained on"""
    num_images_validation: int
    """photographs validated on"""
    num_images_test: int
    """photographs tested on"""
    num_images_dropped: int
    """photographs of a last batch that was not full"""
    num_patients_train: int
    """patients of the training photographs"""
    num_patients_validation: int
    """patients of the validation photographs"""
    num_patients_test: int
    """patients of the test photographs"""
    num_parameters: int
    """parameters of the network"""
    num_devices: int
    """asked for; 0: all"""
    accelerator_asked: str
    """auto, cpu or gpu"""
    priced_as: str
    """a label: the requested machine's name in the price table"""
    usd_per_hour: float
    """price of that label [USD/h]"""
    price_as_of: str
    """date of the price"""
    device_peak_mib: float
    """largest that the framework's allocator gave out on a device"""
    others_cpu_share: float
    """share of the CPUs that others took during the run, 0 to 1"""
    others_gpu_share: float
    """share of the GPUs that others took just before"""
    cold: bool
    """in its study, no run of its kind had finished since the boot"""
    disturbed: bool
    """others took over a tenth of the CPUs or GPUs"""
    process_s: float
    """whole process, including papermill and the kernel's start"""
    epoch_loss: list
    """training loss of each epoch"""
    epoch_accuracy: list
    """test accuracy of each epoch that was evaluated"""
    samples: str
    """file of the monitor's rows, in the folder of the study"""
    sample_s: float
    """between two rows of the monitor"""
    data_source: str
    """keras, synthetic or a file's name"""
    mnist: str
    """keras, synthetic or a folder's name"""
    device: str
    """asked for: auto, gpu or cpu"""
    forward_error: float
    """largest relative difference from a reference in float64"""
    gradient_error: float
    """largest relative difference from a reference in float64"""
    model_dir: str
    """name of the trained model's folder"""
    model_version: str
    """first 12 digits of the SHA-256 of the model's file"""
    force: bool
    """exports that fail the gate are kept"""
    num_rounds: int
    """of the timed predictions"""
    served_dir: str
    """name of the served model's folder"""
    photographs: str
    """name of the folder that requests come from"""
    num_requests: int
    """one after the other"""
    bound_ms: float
    """of the 99th percentile that the load test keeps to"""
    load_seconds: float
    """of each rate of the load test [s]"""
    num_compared: int
    """photographs whose probability is compared with the model's own"""
    artifact_mib: float
    """size of the model's file"""
    largest_difference: float
    """of a probability from that of the model itself"""
    ready_s: float
    """from a server's start to its first answer"""
    resident_mib: float
    """memory of the server after the load"""
    max_rate_per_s: float
    """largest rate at which the bound holds"""
    load_s: float
    """duration of a server's load test, all rates together"""
    round_trip_ms: float
    """of a request, as the client sees it, mean"""
    decode_ms: float
    """of it, decoding and cropping, mean"""
    predict_ms: float
    """of it, the network, mean"""
    num_predictions: int
    """of a server while its energy was measured"""


class Monitored(TypedDict):
    """While the monitor ran, see `Monitor.summarise`; null if not measured."""

    num_samples: int
    """rows of the monitor"""
    monitored_s: float
    """from the monitor's first row to its last"""
    process_cpu_s: float
    """CPU time of the process and its children"""
    process_peak_mib: float
    """their largest joint memory in a sample"""
    gpu_energy_j: float
    """energy of the GPUs, by NVML's counter"""
    cpu_percent_mean: float
    """use of all CPUs of the machine"""
    memory_percent_mean: float
    """use of the machine's memory"""
    gpu_percent_mean: float
    """time that the GPUs were at work, their mean"""
    gpu_memory_percent_mean: float
    """the GPUs' memory in use or reserved, by NVML"""


RUN = Run.__annotations__
WORK = Work.__annotations__
STACK = Stack.__annotations__
VERSIONS = Versions.__annotations__
HARDWARE = Hardware.__annotations__
MEASURED = Measured.__annotations__
DETAILS = Details.__annotations__
MONITORED = Monitored.__annotations__
COLUMNS = {**RUN, **WORK, **STACK, **VERSIONS, **HARDWARE, **MEASURED, **DETAILS, **MONITORED}
UNITS = {"s": "s", "ms": "ms", "mib": "MiB", "gib": "GiB", "usd": "USD", "j": "J"}


def find_unit(column: str) -> str:
    """Find the unit of a column by its name; nothing for what has none, or says it itself."""
    if "percent" in column:
        return "%"
    stem, _, last = column.removesuffix("_mean").rpartition("_")
    unit = UNITS.get(last, "")
    return f"1/{unit}" if stem.endswith("_per") and unit else unit
