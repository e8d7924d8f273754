"""What the room scenarios adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "Other frameworks",
    commands=("kernels",),
)
