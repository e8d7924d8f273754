"""Labels of the photographs: grades, patients and splits.

grades           the scale
schema           the columns that tables of photographs share
datasets         knows how public data sets are laid out (datasets.csv)
reader           reads people's tables: texts and workbooks
patients         finds who is one person
label_files      recognises a data set in a folder and reads its label files
tables           reads, matches and checks the label table
near_duplicates  finds the same picture in two files
groups           unites patients who share photographs
splits           divides groups into train, validation and test
privacy          keeps names apart: salt, pseudonyms, private folder
"""
