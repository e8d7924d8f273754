"""What the room explain adds."""

from dr_lib.parameters import Parameter
from dr_lib.rooms import Room

ROOM = Room(
    "Where a model looks",
    own=("notebooks/13_*",),
    commands=("explain",),
    parameters={"masks_dir": Parameter("", words=("",))},
)
