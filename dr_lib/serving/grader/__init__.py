"""A model folder that grades photographs.

folder       one artifact, its manifest, its card
litert       runs a LiteRT model
predict      the bytes of a photograph -> an answer
grade_files  the same for files
"""
