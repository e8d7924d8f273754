"""Crops on disk, written once and read by every training.

tfrecord  is the file format, without TensorFlow
records   writes, reads and verifies TFRecord shards
workers   crops photographs in processes of their own
resume    keeps what a killed preparation had finished
prepare   photographs + label table -> shards
sample    the synthetic sample, prepared once
batches   shards -> Keras
"""
