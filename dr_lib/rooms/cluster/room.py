"""What the room cluster adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "Several machines",
    targets=("dask",),
    start="commands:run_on_dask",
)
