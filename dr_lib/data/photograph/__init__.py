"""From the bytes of a picture file to a crop of the field of view.

errors         what is raised where a photograph cannot be used
decode         reads the header of a picture file, decodes it as small as is enough
tiff           the same for a TIFF
colour         scales samples to eight bits, converts colours to sRGB
fov            finds the field of view in a decoded photograph
edge           finds its edge, fits circles and ellipses to it
plausibility   tells a retina from other things that are round
crop           reads a photograph and crops it to its field of view
pixels         encodes and decodes stored crops, and shrinks them for a network
"""
