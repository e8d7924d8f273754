"""From a trained model to artifacts to serve.

convert   Keras -> SavedModel, LiteRT
runtimes  runs every artifact in the same way
gate      accuracy before and after
losses    bounds of what patients lose and gain
export    model folder -> folders that can be served
timing    latency of runtimes, in turns
"""
