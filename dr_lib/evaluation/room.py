"""What the room evaluation adds."""

from dr_lib.rooms import Paper, Room

ROOM = Room(
    "Evaluate predictions",
    own=("notebooks/12_*", "docs/evaluation.md"),
    commands=("evaluate", "patients", "recalibrate"),
    papers={"E": Paper("Voets et al.", ("12_evaluate",), ("eyepacs_authors",))},
)
