"""Uncertainty of numbers, and effects of an experiment's factors.

bootstrap    resamples patients: bands of curves
clustered    AUC, Brier, kappa, shares, differences where a patient has several photographs
calibration  whether probabilities are what they say
recalibration  probabilities moved on the logit scale
intervals    intervals of means, their ratios and differences
cells        bounds of whatever is computed from the cells of a design
equivalence  equal within a margin, and how many runs that takes
"""
