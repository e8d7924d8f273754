"""What the room remote adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "Colab and Kaggle",
    own=("extra:remote",),
    targets=("colab", "kaggle"),
    start="dr_lib.remote.commands:run_on_service",
)
