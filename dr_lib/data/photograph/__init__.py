"""From the bytes of a picture file to the crop of its field of view.

errors         what is raised where a photograph cannot be used
headers        reads size, format and orientation of a picture file
decode         decodes a picture file, as small as is enough
fov            finds the field of view in a decoded photograph
edge           locates its edge along rays from its centre, fits circles and ellipses to it
plausibility   tells a retina from other things that are round
crop           reads a photograph and crops it to its field of view
pixels         encodes and decodes stored crops, and shrinks them for a network
contact_sheet  shows photographs, circles and crops; compares the methods
"""
