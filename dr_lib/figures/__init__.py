"""Draws tables.

hardware   training time by hardware, and which rows are timed
scenarios  the factorial study, scenario by scenario
effects    what its factors do
serving    time of a prediction, cost by rate, latency under load
cuda       the CUDA study's figures 1a, 1b and 2
"""
