"""What the room cluster adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "Several machines",
    own=("docs/clusters.md", "papermill_runs/scaling*.yaml", "extra:dask"),
    targets=("dask",),
    start="dr_lib.rooms.cluster.commands:run_on_dask",
    machines="dr_lib.rooms.cluster.machines:Several",
)
