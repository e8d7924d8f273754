"""What the room remote adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "Colab and Kaggle",
    targets=("colab", "kaggle"),
    start="dr_lib.rooms.remote.commands:run_on_service",
)
