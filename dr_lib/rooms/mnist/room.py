"""What the room mnist adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "A network in CUDA C",
)
