"""How sure a number is, and what the factors of an experiment do.

intervals  95 % intervals of means, ratios, spreads and AUCs
effects    allocation of variation, effects with intervals, repetitions needed
"""
