"""The papers: the notebooks that make and analyse their rows, and what their studies vary."""

import pandas as pd

from dr_lib.rooms import Paper, find_all, find_rooms

PAPERS = {
    "A": Paper(
        "Araújo et al.",
        ("10_train",),
        ("gpu_vs_tpu",),
        "11_gpu_vs_tpu",
        task="referable",
    ),
}
for _room in find_rooms().values():
    PAPERS.update(_room.papers)
PAPERS = dict(sorted(PAPERS.items()))
# what tells the cells of their designs apart
FACTORS = tuple(dict.fromkeys(name for paper in PAPERS.values() for name in paper.design))
ANALYSES = {  # a notebook that makes rows: the notebook that reads them
    notebook: paper.analysis
    for paper in PAPERS.values()
    for notebook in paper.notebooks
    if paper.analysis
}


def list_published(paper: str) -> pd.DataFrame:
    """List the means that a paper reports.

    Returns:
        A row per number: its `column`, `value` and `tolerance`, the `hardware` in words, and under
        the columns of its conditions what it speaks of; empty where the room claims is absent.
    """
    for list_means in find_all("published"):
        return list_means(paper)
    return pd.DataFrame(columns=["column", "value", "tolerance", "hardware"])
