"""The papers: the notebooks that make and analyse their rows, and what their studies vary."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Paper(NamedTuple):
    """A paper that rows are compared with."""

    authors: str
    notebooks: tuple[str, ...]  # that make the rows of its study
    studies: tuple[str, ...]  # their study files: together they judge each of its claims
    analysis: str = ""  # the notebook that reads these rows; none where the same one makes them
    task: str = ""  # of its rows, where its notebooks have several
    may_differ: tuple[str, ...] = ()  # columns in which rows of its study differ on purpose
    design: tuple[str, ...] = ("model",)  # one cell of its design has one level of each
    versions: Mapping[str, str] = MappingProxyType({})  # that it names


FACTORS = ("framework", "dataset", "image_size", "network")

PAPERS = {
    "A": Paper(
        "Araújo et al.",
        ("10_train",),
        ("gpu_vs_tpu",),
        "11_gpu_vs_tpu",
        task="referable",
    ),
    "B": Paper(
        "Camargo et al.",
        ("21_export_quantize", "22_serve_and_load"),
        ("exports", "serving_sagemaker"),
        "23_serving_cost",
    ),
    "C": Paper(
        "Moura Filho and Sousa",
        ("30_train_scenario",),
        ("scenarios_cpu", "scenarios_gpu"),
        "31_factor_effects",
        may_differ=(*FACTORS, "backend"),
        design=FACTORS,
        versions={
            "tensorflow": "2.14.0",
            "torch": "2.2.0",
            "mxnet": "1.9.1",
            "python": "3.9",
            "cuda": "11.7",
        },
    ),
    "D": Paper(
        "De Felice Lima and Zola",
        ("40_mnist_cuda",),
        ("mnist_cuda",),
        "41_cuda_vs_keras",
        may_differ=("framework", "implementation", "batch_size", "learning_rate", "backend"),
    ),
    "E": Paper("Voets et al.", ("12_evaluate",), ("eyepacs_authors",)),
}
ANALYSES = {  # a notebook that makes rows: the notebook that reads them
    notebook: paper.analysis
    for paper in PAPERS.values()
    for notebook in paper.notebooks
    if paper.analysis
}
