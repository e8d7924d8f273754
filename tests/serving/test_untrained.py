"""An untrained network: a folder that is served, by the seed of its weights."""

from dr_lib.serving.export.runtimes import open_runtime
from dr_lib.serving.untrained import export_untrained
from tests.serving.stand_in import draw_crops


def test_it_answers_by_its_seed(tmp_path):
    """The same by the same seed, others by another."""
    crops = draw_crops(16)
    answers = []
    for seed in (3, 3, 4):
        folder = export_untrained(
            tmp_path, "small_cnn", 32, "litert_int8", examples=crops, seed=seed
        )
        answers.append(open_runtime("litert_int8", folder.artifact, num_threads=0)(crops))
    assert (answers[0] == answers[1]).all() and (answers[0] != answers[2]).any()
