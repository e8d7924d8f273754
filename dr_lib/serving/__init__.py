"""From a trained model to an endpoint, in the order of the data's way.

folder    a model folder: one artifact, its manifest, its card
litert    runs a LiteRT model
"""
