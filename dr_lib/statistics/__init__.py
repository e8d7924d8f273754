"""Uncertainty of numbers, and effects of an experiment's factors.

bootstrap    resamples patients: intervals of scores without a closed form
clustered    AUC, shares and differences of groups where a patient has several photographs
calibration  whether probabilities are what they say
intervals    intervals of means, their ratios and differences
cells        bounds of whatever is computed from the cells of a design
equivalence  equal within a margin, and how many runs that takes
"""
