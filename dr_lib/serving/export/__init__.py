"""From a trained model to artifacts to serve.

convert  Keras -> SavedModel, LiteRT
gate     which patients lose their right answer
export   model folder -> folders that can be served
"""

FORMATS = {  # with the name of the file, or of SavedModel's folder
    "savedmodel": "saved_model",
    "litert_float32": "model.tflite",
    "litert_int8": "model.tflite",  # every operation, with scales from calibration
}
