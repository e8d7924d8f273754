"""What the room remote adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "Colab and Kaggle",
    own=("tools/bench_remote.py", "extra:remote"),
    targets=("colab", "kaggle"),
    start="dr_lib.rooms.remote.commands:run_on_service",
)
