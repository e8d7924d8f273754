"""What the room serving adds."""

from dr_lib.rooms import Paper, Room

ROOM = Room(
    "An endpoint and its price",
    own=(
        "notebooks/2?_*",
        "papermill_runs/exports.yaml",
        "papermill_runs/serving*.yaml",
        "docs/serving.md",
        "docs/api.md",
        "docs/operation.md",
        "tools/bench_server.py",
        "tools/bench_runtimes.py",
        "tools/container.py",
        "make:container",
        "extra:sagemaker",
        "extra:runtimes",
    ),
    commands=("export", "predict", "serve", "load", "price"),
    papers={
        "B": Paper(
            "Camargo et al.",
            ("21_export_quantize", "22_serve_and_load"),
            ("exports", "serving_sagemaker"),
            "23_serving_cost",
            select="dr_lib.rooms.serving.request_log:select_requests",
        )
    },
)
