"""Draw figures from tables.

style      colours, words in two languages, number formats, panels
page       what an analysis notebook shows: figures, tables, claims, and their files
training_time  training time by hardware, speed-up by the number of machines
"""
