"""Crops on disk, made once and read by every training run.

records   makes a TFRecord of a crop, without TensorFlow
workers   crops photographs in processes of their own
crops     photographs -> shards of crops; goes on where it stopped
stream    shards -> pixels of any rows, decoded when they are indexed
folder    is what a prepared folder holds: Prepared opens, reads and verifies it
split     labels + groups -> split tables; labelled shards for other tools
prepare   photographs + label table -> prepared folder
sample    the synthetic sample, prepared once
batches   photographs, in memory or streamed -> Keras (its feed)
"""
