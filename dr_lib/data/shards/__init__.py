"""Crops on disk, written once and read by every training.

tfrecord  is the file format, without TensorFlow
records   writes, reads and verifies TFRecord shards
workers   crops photographs in processes of their own
resume    finished shards, which a killed preparation finds again
prepare   photographs + label table -> shards
sample    the synthetic sample, prepared once
batches   shards -> Keras (its feed)
"""
