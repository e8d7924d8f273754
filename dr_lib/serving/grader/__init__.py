"""A model folder that grades photographs.

litert       runs a LiteRT model
savedmodel   runs a SavedModel
predict      the bytes of a photograph -> an answer
grade_files  the same for files
"""
