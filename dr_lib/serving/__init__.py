"""From a trained model to an endpoint and what it holds, in the order of the data's way.

folder        a model folder: one artifact, its manifest, its card
untrained     a model folder of a network that nobody trained, for size and time
convert       Keras -> SavedModel, LiteRT, ONNX
litert        runs a LiteRT model
runtimes      runs every artifact in the same way
gate          accuracy before and after
export        model folder -> folders that can be served
timing        latency of runtimes, by instruction set and by layer
predict       the bytes of a photograph -> an answer
grade_files   the same for files
app           HTTP, in SageMaker's contract
server        the process: model, sockets, signals
caller        one connection to an endpoint
load          requests in sequence and at a rate
"""
