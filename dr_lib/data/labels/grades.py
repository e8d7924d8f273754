"""The International Clinical Diabetic Retinopathy scale (Wilkinson et al. 2003)."""

GRADES = ("no retinopathy", "mild", "moderate", "severe", "proliferative")
REFERABLE_FROM = 2  # the first grade that a specialist has to see


def sum_referable(probabilities):
    """(..., 5) array of the grades' probabilities -> (...) probability of referable disease."""
    return probabilities[..., REFERABLE_FROM:].sum(axis=-1)
