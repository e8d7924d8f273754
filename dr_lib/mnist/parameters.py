"""Parameters of notebooks 40 and 41."""

from dr_lib.parameters import Parameter

PARAMETERS = {
    "implementation": Parameter("may differ"),
    "device": Parameter("may differ", choices=("auto", "gpu", "cpu")),
    "mnist": Parameter("may differ", words=("keras", "synthetic")),
}
