"""What the room evaluation adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "Evaluate predictions",
    commands=("evaluate",),
)
