"""What the room cluster adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "Several machines",
    own=("docs/clusters.md", "papermill_runs/scaling*.yaml", "extra:dask"),
    targets=("dask",),
    start="dr_lib.cluster.dask_runs:run_on_cluster",
    map_over="dr_lib.cluster.dask_crops:map_on_cluster",
    machines="dr_lib.cluster.machines:Several",
)
