"""From a trained model to artifacts to serve.

convert   Keras -> SavedModel, LiteRT
runtimes  runs every artifact in the same way
gate      which patients lose their right answer
export    model folder -> folders that can be served
timing    latency of runtimes, in turns
"""
