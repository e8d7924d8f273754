"""What the room cluster adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "Several machines",
    targets=("dask",),
    start="dr_lib.rooms.cluster.commands:run_on_dask",
)
