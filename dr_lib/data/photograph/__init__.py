"""From the bytes of a picture file to the crop of its field of view.

headers        tells size, kind and orientation of a picture
damage         mends a file that was cut short
decode         decodes a picture file of any kind, as small as wanted
fov            finds the field of view in a decoded photograph
edge           locates its edge along rays from its centre
fits           circles and ellipses through points, most of which lie on one
plausibility   tells a retina from other things that are round
crop           reads a photograph and crops it
pixels         a crop as it is stored and as a network gets it
compare        compares the ways of finding the field of view
contact_sheet  shows photographs, their circles and their crops
"""
