"""Where on a photograph a model looks.

grad_cam  Grad-CAM beside its control, compared with masks of lesions
lesions   masks of lesions that a data set has
figures   photographs with their maps
page      a private page of listed photographs
"""
