"""What the room serving adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "An endpoint and its price",
    commands=("export", "predict", "serve", "load", "price"),
)
