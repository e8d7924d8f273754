"""What the room claims adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "The papers' claims",
    commands=("claims",),
    plan_notes="dr_lib.rooms.claims.commands:list_undecided",
)
