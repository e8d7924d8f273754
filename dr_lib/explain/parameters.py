"""Parameters of notebook 13."""

from dr_lib.parameters import Parameter

PARAMETERS = {"masks_dir": Parameter("", words=("",))}
