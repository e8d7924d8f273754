"""The columns that labels.csv, split tables and predictions.csv share, and their values."""

from dr_lib.data.labels.grades import GRADES

SIDES = ("train", "validation", "test")
EXCLUDED = "excluded"  # from the split, for the reason beside it
REJECTED = "rejected"  # could not be cropped, for the reason beside it
FACTS = ("camera", "age", "sex", "quality")  # as the label file has them, for subgroups

# predictions.csv: what is known of a photograph, and FACTS; one of the two kinds of probability
KNOWN = ("image_id", "patient_id", "group", "split", "reason", "eye", "grade", "referable")
OF_GRADES = [f"probability_{grade}" for grade in range(len(GRADES))]
OF_REFERABLE = "probability_referable"
