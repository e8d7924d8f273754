"""What the room explain adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "Where a model looks",
    own=("notebooks/13_*",),
)
