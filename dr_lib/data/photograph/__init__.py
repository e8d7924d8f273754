"""From the bytes of a picture file to a crop of the field of view.

errors         what is raised where a photograph cannot be used
decode         reads a picture file: its header for the limits, then its pixels
tiff           the same for a TIFF
dicom          the same for DICOM, and what it says of eye, patient and day
heic           lets Pillow read HEIC
colour         converts colours to sRGB
fov            finds the field of view in a decoded photograph
edge           finds its edge, fits circles and ellipses to it
plausibility   tells a retina from other things that are round
crop           reads a photograph and crops it to its field of view
pixels         encodes and decodes stored crops, and shrinks them for a network
"""
