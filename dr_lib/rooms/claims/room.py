"""What the room claims adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "The papers' claims",
    commands=("claims",),
    judge="dr_lib.rooms.claims.verdicts:judge_claims",
    judge_data_sets="dr_lib.rooms.claims.verdicts:judge_data_sets",
    show_claims="dr_lib.rooms.claims.page:show_claims",
    published="dr_lib.rooms.claims.claims:list_printed",
    plan_notes="dr_lib.rooms.claims.commands:list_undecided",
)
