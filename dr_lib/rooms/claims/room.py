"""What the room claims adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "The papers' claims",
    commands=("claims",),
    plan_notes="commands:list_undecided",
)
