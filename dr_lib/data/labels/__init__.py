"""What is known of the photographs: their grades, patients and splits.

grades           the scale
datasets         knows how public data sets are laid out
label_files      finds a data set in a folder and reads its label files
tables           reads, checks and splits the label table
duplicates       finds the same file under two names
near_duplicates  finds the same picture in two files
privacy          keeps names apart: salt, pseudonyms, private folder
"""
