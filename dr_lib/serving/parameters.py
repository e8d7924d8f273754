"""Parameters of notebooks 21 to 23."""

from typing import Literal

from pydantic import Field

from dr_lib.parameters import (
    Amount,
    Count,
    DataDir,
    ModelDir,
    PathText,
    Portion,
    RunParameters,
    Side,
)
from dr_lib.report.parameters import Analysis


class Export(RunParameters):
    """Parameters of notebook 21."""

    model_dir: ModelDir
    model: str
    image_size: Side
    data_dir: DataDir
    force: bool
    num_rounds: Count
    num_threads: int = Field(ge=1, le=1024)


class Load(RunParameters):
    """Parameters of notebook 22."""

    served_dir: ModelDir
    model: str
    image_size: Side
    format: Literal["litert_float32", "litert_int8", "savedmodel"]
    photographs: PathText
    url: str = Field(exclude=True)
    threads: Count
    num_requests: int = Field(ge=1, le=1_000_000)
    gap_s: float = Field(ge=0, le=3600)
    bound_ms: float = Field(gt=0, le=3_600_000)
    load_seconds: float = Field(ge=0, le=86_400)
    num_compared: Count
    instance: str = Field(exclude=True)


class ServingCost(Analysis):
    """Parameters of notebook 23."""

    instance: str
    g_per_kwh: Amount
    requests_per_day: Amount
    p99_ms: Amount
    busiest_hour: Portion
