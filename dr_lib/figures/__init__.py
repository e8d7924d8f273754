"""Draw figures from tables.

style      colours, words in two languages, number formats, panels
page       what an analysis notebook shows: figures, tables, claims, and their files
training_time  training time by hardware, speed-up by the number of machines
scenarios  the factorial study, scenario by scenario, and what its factors do
serving    time of a prediction, cost by rate, response time under load
evaluation the evaluation of predictions
explanations  where a network looks, beside its control
mnist      the CUDA study's figures 1a, 1b and 2
"""
