"""Find who is one person: by which column or file name, in how many spellings, on which visit."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import pandas as pd

from dr_lib.data.labels.schema import COLUMNS, fold_id, fold_name, fold_text, read_words

PATIENTS = COLUMNS["patient_id"].split()  # columns that name one, the best first
FILES = "file names"  # by which patients are found


def read_ids(cells: pd.Series) -> pd.Series:
    """Read ids of patients: spelled alike, and empty where a cell names no patient."""
    ids = read_words("patient_id", cells).map(fold_text)
    return ids.mask(find_shared(ids), "")


def find_shared(cells: pd.Series) -> pd.Series:
    """Find the ids that more photographs have than a person can have: whatever they say (None,
    ANON, 999), they name nobody.
    """
    ids = read_words("patient_id", cells).map(fold_id)
    counts = ids.groupby(ids).transform("size")
    return (ids != "") & (counts > limit_photographs(len(ids)))


def limit_photographs(number: int) -> int:
    """How many of a number of photographs one person can have: six, or a twentieth."""
    return max(6, number // 20)


def name_patients(
    table: pd.DataFrame, names: pd.Series, titles: Mapping[str, str] = MappingProxyType({})
) -> tuple[pd.DataFrame, dict[str, pd.Index]]:
    """Find the patient of each photograph in the columns of a table, or else in its file's name.

    The number decides: the first column of which most cells hold digits, unless it is another for
    each photograph. Where it is missing, the number that the same name has elsewhere does, or else
    the name; and then the file's name alike.

    Args:
        table: of which columns may name a patient.
        names: the patients that file names give, empty where they give none.
        titles: of columns, as the table has them.

    Returns:
        patient (empty where it is unknown), person (equal for all spellings of a patient), by (the
        column that decides, or FILES) and cell (of the column, as it is); and sentences on rows
        where columns disagree.
    """
    columns = table[[name for name in PATIENTS if name in table]].rename(columns=titles)
    ids = columns.apply(read_ids)
    by = ""
    patient = cell = pd.Series("", names.index)
    doubts = {}
    if len(ids.columns):
        by = max(ids, key=lambda name: _rate(ids[name][ids[name] != ""]))
        patient = ids[by]
        cell = columns[by]
    for other in ids.columns.drop(by, errors="ignore"):
        known = ids[(ids[by] != "") & (ids[other] != "")]
        person = known[by].map(fold_id)
        name = known[other].map(fold_id).map(fold_name)
        by_length = name.sort_values(key=lambda cells: -cells.str.len(), kind="stable")
        longest = by_length.groupby(person).transform("first")[name.index]
        is_other = [not _is_spelling(*pair) for pair in zip(name, longest, strict=True)]
        others = person.isin(person[is_other])
        several = person.groupby(name).transform("nunique") > 1
        decides = f"{by} decides who is one patient"
        doubts[f"{by} is the same and {other} differs: {decides}"] = name.index[others]
        doubts[f"{other} is the same and {by} differs: {decides}"] = name.index[several]
        patient = fill(patient, ids[other], ids[other].map(fold_name))
    is_unknown = patient == ""
    own = names.map(fold_text)
    patient = fill(patient, own, own)
    is_named = is_unknown & (patient != "") & (patient == own)
    found = {
        "patient": patient,
        "person": patient.map(fold_id),
        "by": pd.Series(by, names.index).mask(is_named, FILES).mask(patient == "", ""),
        "cell": cell,
    }
    return pd.DataFrame(found), doubts


def _rate(ids: pd.Series) -> tuple[bool, bool, bool]:
    """Rate a column by its known ids: it has some, it is not one of photographs, it has numbers."""
    is_shared = ids.map(fold_id).nunique() <= 0.75 * len(ids)
    return len(ids) > 0, is_shared, ids.str.contains(r"\d").mean() > 0.5


def fill(patient: pd.Series, names: pd.Series, keys: pd.Series) -> pd.Series:
    """Fill in unknown patients: with the only one that rows of an equal key have, or the name."""
    known = patient[(patient != "") & (keys != "")]
    by_key = known.groupby(keys[known.index])
    is_only = known.map(fold_id).groupby(keys[known.index]).nunique() == 1
    only = dict(by_key.first()[is_only])
    found = [only.get(key, name) for key, name in zip(keys, names, strict=True)]
    return patient.where(patient != "", pd.Series(found, keys.index))


def _is_spelling(name: str, longer: str) -> bool:
    """Whether each word of a folded name is in a longer name, or an initial is: m_silva."""
    words = longer.split("_")
    return all(
        any(word.startswith(part) or part.startswith(word) for word in words)
        for part in name.split("_")
    )


def number_visits(cells: pd.Series, patients: pd.Series) -> pd.Series:
    """Number the visits of each patient from 0, by day or number, or else as the table lists them.

    Args:
        cells: dates or names of visits; empty where unknown.
        patients: whose they are.

    Returns:
        Texts, which hold no date.
    """
    known = cells[cells != ""]
    days = known.str.replace(r"[T ].*", "", regex=True)
    read = partial(pd.to_datetime, days, errors="coerce")
    forms = ("%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%d-%m-%Y", "%d.%m.%Y")
    orders = [read(format="ISO8601").fillna(read(format=form)) for form in forms]
    orders.append(pd.to_numeric(days, errors="coerce"))
    listed = pd.Series(pd.factorize(known)[0], known.index)
    order = next((order for order in orders if order.notna().all()), listed)
    visits = order.groupby(patients[known.index]).rank("dense") - 1
    return visits.astype(int).astype(str).reindex(cells.index, fill_value="")
