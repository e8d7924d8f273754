"""Uncertainty of numbers, and effects of an experiment's factors.

bootstrap    resamples patients: intervals of scores without a closed form
clustered    AUC, shares and differences of groups where a patient has several photographs
calibration  whether probabilities are what they say
intervals    a value with its bounds, and the mean of scores
times        three rules for times: one mean, two groups of one machine, two machines
equivalence  whether two models are equal within a margin
"""
