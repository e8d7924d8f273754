"""From photographs and a label table to batches, in the order of the data's way.

synthetic    draws the sample of fundus photographs
grades       the scale
headers      tells size, kind and orientation of a picture
decode       decodes a picture file of any kind, as small as wanted
disc         finds the disc in a decoded photograph
fits         circles and ellipses through points, most of which lie on one
fundus       reads a photograph and crops it to its disc
layouts      knows how public data sets are laid out
label_files  finds a data set in a folder and reads its label files
tables       reads, checks and splits the label table
tfrecord     is the file format, without TensorFlow
crops        a crop as it is stored and as a network gets it
records      writes, reads and verifies TFRecord shards
privacy      keeps names apart: salt, pseudonyms, private folder
workers      crops photographs in processes of their own
prepare      photographs + label table -> shards
sample       the drawn sample, prepared once
batches      shards -> Keras
"""
