"""Where on a photograph a model looks.

grad_cam  Grad-CAM beside its control
figures   photographs with their maps
parameters  of notebook 13
"""
