"""How sure a number is, and what the factors of an experiment do.

bootstrap  resamples patients: bounds of AUC, kappa and paired differences
intervals  95 % intervals of means, ratios, spreads and AUCs
effects    allocation of variation, effects with intervals, repetitions needed
"""
