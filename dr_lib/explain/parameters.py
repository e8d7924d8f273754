"""Parameters of notebook 13."""

from dr_lib.parameters import Count, DataDir, ModelDir, Parameters


class Explain(Parameters):
    """Parameters of notebook 13."""

    model_dir: ModelDir
    data_dir: DataDir
    num_photographs: Count
    num_shown: Count
    seed: Count
