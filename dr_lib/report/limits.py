"""Say what limits a training on a machine, and in what two machines differ."""

import math
from collections.abc import Mapping

import pandas as pd

from dr_lib.numbers import write_number
from dr_lib.report.style import choose_words

PARTS = {  # of train_s, as they are named in a figure
    "compile_s": "compiling",
    "input_s": "input",
    "steps_s": "steps",
    "validation_s": "validation",
    "checkpoint_s": "checkpoints",
    "callbacks_s": "callbacks",
}
BUSY = 0.2  # of the peak: convolutional networks rarely reach 0.4
UNKNOWN = "not known"


def find_limit(row: Mapping[str, float]) -> str:
    """Find what limits a training, given its PARTS [s] and its peak_fraction.

    Compiling or input does if it takes longest. If steps and validation do, it is arithmetic from
    BUSY of the device's peak on, and below that launches: a device of twice the peak would not be
    twice as fast, a larger batch would bring more. Not known where a part is missing, or where the
    rest takes longest.
    """
    if any(math.isnan(row.get(name, math.nan)) for name in PARTS):
        return UNKNOWN
    device_s = row["steps_s"] + row["validation_s"]
    rest_s = row["checkpoint_s"] + row["callbacks_s"]
    seconds = [row["compile_s"], row["input_s"], device_s, rest_s]
    limit = ["compiling", "input", "arithmetic", UNKNOWN][seconds.index(max(seconds))]
    if limit != "arithmetic":
        return limit
    fraction = row.get("peak_fraction", math.nan)
    if math.isnan(fraction):
        return UNKNOWN
    return limit if fraction >= BUSY else "launches"


def divide_times(timed: pd.DataFrame) -> pd.DataFrame:
    """Divide the mean training time of each place.

    Args:
        timed: timed rows of a `Selection`.

    Returns:
        A row per place, as `environment`: the `limit`, see `find_limit`; `n` rows that have all
        PARTS, and over these the means of train_s and PARTS [s], images_per_s, gflop_per_image and
        peak_fraction.
    """
    names = ["train_s", *PARTS, "images_per_s", "flop_per_image", "peak_fraction"]
    lines = []
    for place, rows in timed.groupby("place") if len(timed) else ():
        known = rows.reindex(columns=names).dropna(subset=["train_s", *PARTS]).astype(float)
        means = known.mean()
        means["gflop_per_image"] = means.pop("flop_per_image") / 1e9
        lines.append(
            {"environment": place, "limit": find_limit(means), "n": len(known), **means}
        )
    return pd.DataFrame(lines)


def say_limits(divided: pd.DataFrame, places: pd.DataFrame, lang: str = "en") -> list[str]:
    """Say what limits each place, and in what the most unlike two that did the same work differ.

    Args:
        divided: of `divide_times`.
        places: of `compare_places`.
        lang: en or pt.
    """
    say = choose_words(lang)
    limits = [
        say("{} on {}").format(say(row.limit), row.environment) for row in divided.itertuples()
    ]
    sentences = (
        [say("What limits this training: {}.").format("; ".join(limits))] if limits else []
    )
    if len(places):
        pair = places.sort_values("times_as_long").iloc[-1]
        slower, faster = (
            divided.set_index("environment").loc[pair[side]] for side in ("slower", "faster")
        )
        longer = (slower[list(PARTS)] - faster[list(PARTS)]).astype(float)
        # the ratio is without outliers, and of rows without parts too
        ratio = slower["train_s"] / faster["train_s"]
        is_of_ratio = math.isclose(ratio, pair["times_as_long"], rel_tol=0.05)
        if longer.sum() > 0 and is_of_ratio:
            words = say(
                "On {} it takes {} s longer than on {}, the most in one part: {}, {} s."
            )
            part = longer.idxmax()
            seconds = [write_number(each, lang) for each in (longer.sum(), longer[part])]
            sentences.append(
                words.format(
                    pair["slower"], seconds[0], pair["faster"], say(PARTS[part]), seconds[1]
                )
            )
        else:
            words = say("Which part makes the difference between {} and {} is not known.")
            sentences.append(words.format(pair["slower"], pair["faster"]))
    return sentences
