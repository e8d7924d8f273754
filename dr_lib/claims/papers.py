"""The papers that rows are compared with: what makes their rows, and what their studies vary."""

from dr_lib.report.rows import Paper

FACTORS = ("framework", "dataset", "image_size", "network")  # of paper C's design

PAPERS = {
    "A": Paper(
        "Araújo et al.",
        ("10_train",),
        ("gpu_vs_tpu", "gpu_vs_tpu_memory"),
        may_differ=("mode", "batch_size_of", "step_size"),
    ),
    "B": Paper(
        "Camargo et al.",
        ("21_export_quantize", "22_serve_and_load"),
        ("exports", "serving_sagemaker"),
        design={"model": 2},
        derive="dr_lib.serving.costs:add_usd_per_million",
    ),
    "C": Paper(
        "Moura Filho and Sousa",
        ("30_train_scenario",),
        ("scenarios_cpu", "scenarios_gpu"),
        may_differ=(*FACTORS, "backend"),
        design={"framework": 3, "dataset": 2, "image_size": 2, "network": 2},
    ),
    "D": Paper(
        "De Felice Lima and Zola",
        ("40_mnist_cuda",),
        ("mnist_cuda",),
        may_differ=("framework", "implementation", "batch_size", "learning_rate", "backend"),
        derive="dr_lib.mnist.epochs:add_accuracy_columns",
    ),
    "E": Paper("Voets et al.", ("12_evaluate",), ("eyepacs_authors",)),
}
