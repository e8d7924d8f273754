"""A model folder that grades photographs.

models       run LiteRT and SavedModel
predict      the bytes of a photograph -> an answer
grade_files  the same for files
"""
