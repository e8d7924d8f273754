"""From photographs and a label table to batches, in the order of the data's way.

synthetic        draws the sample of fundus photographs
grades           the scale
headers          tells size, kind and orientation of a picture
decode           decodes a picture file of any kind, as small as wanted
disc             finds the disc in a decoded photograph
edge             locates the edge of a disc along rays from its centre
fits             circles and ellipses through points, most of which lie on one
retina           tells a retina from other things that are round
fundus           reads a photograph and crops it to its disc
methods          compares the ways of finding the disc
layouts          knows how public data sets are laid out
label_files      finds a data set in a folder and reads its label files
tables           reads, checks and splits the label table
tfrecord         is the file format, without TensorFlow
crops            a crop as it is stored and as a network gets it
records          writes, reads and verifies TFRecord shards
privacy          keeps names apart: salt, pseudonyms, private folder
duplicates       finds the same file under two names
near_duplicates  finds the same picture in two files
workers          crops photographs in processes of their own
unfinished       keeps what a killed preparation had finished
prepare          photographs + label table -> shards
contact_sheet    shows photographs, their circles and their crops
sample           the drawn sample, prepared once
batches          shards -> Keras
"""
