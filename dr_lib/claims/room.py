"""What the room claims adds."""

from dr_lib.rooms import Room

ROOM = Room(
    "The papers' claims",
    commands=("claims",),
    judge="dr_lib.claims.verdicts:judge_claims",
    judge_data_sets="dr_lib.claims.verdicts:judge_data_sets",
    show_claims="dr_lib.claims.page:show_claims",
    published="dr_lib.claims.claims:list_printed",
    plan_notes="dr_lib.claims.commands:list_undecided",
)
