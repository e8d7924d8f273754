"""How many patients a study of accuracy needs, before anything is photographed."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import stats

from dr_lib.errors import DrError
from dr_lib.statistics.clustered import MIN_PATIENTS, Z

ASSURANCE = 0.8  # share of such studies whose interval is as narrow
MOST = 10_000_000  # patients; beyond that no study can be meant


class Design(NamedTuple):
    """What a study is to find, and in whom."""

    width: float  # of the 95 % interval
    prevalence: float  # share of referable eyes
    eyes: int = 1  # photographed, of each patient
    correlation: float = 0.5  # of the answers for the eyes of one patient, from 0 to 1


class Size(NamedTuple):
    """Patients whose photographs a study needs."""

    expected: int  # for the width on average: about half of such studies reach it
    assured: int  # for the width in ASSURANCE of such studies


def find_auc_width(auc: np.ndarray, num_with: np.ndarray, num_eyes: float) -> np.ndarray:
    """Compute the width of the 95 % interval of an AUC, with Newcombe's standard error (2006).

    The variance is that of Hanley and McNeil (1982), with as many eyes of each kind as half of all:
    criterion of Riley et al. (2021, Stat. Med. 40).
    """
    half = num_eyes / 2 - 1
    variance = auc * (1 - auc) * (1 + half * (1 - auc) / (2 - auc) + half * auc / (1 + auc))
    return 2 * Z * np.sqrt(variance / (num_with * (num_eyes - num_with)))


def find_share_width(share: np.ndarray, num_with: np.ndarray, num_eyes: float) -> np.ndarray:
    """Compute the width of the 95 % interval of a share of the eyes of one kind (Riley et al. 2024,
    BMC Med. Res. Methodol. 24); of the other kind give their number.
    """
    return 2 * Z * np.sqrt(share * (1 - share) / num_with)


def find_sizes(expected: Mapping[str, float], design: Design) -> dict[str, Size]:
    """Find how many patients each expected measure needs for an interval of a width.

    The eyes of a patient count by the design effect 1 + (eyes - 1) * correlation, as if they had
    the same label: with others the study is a little larger than need be.

    Args:
        expected: values of AUC, sensitivity and specificity; 0 leaves a measure out.
        design: of the study.

    Raises:
        DrError: a number is no share, no measure is given, or no study is large enough.
    """
    width, prevalence, eyes, correlation = design
    measures = {name: value for name, value in expected.items() if value}
    for name, value in {**measures, "width": width, "prevalence": prevalence}.items():
        if not 0 < value < 1:
            raise DrError(f"{name} must be between 0 and 1, not {value:g}")
    if not measures:
        raise DrError("give what you expect: --auc, --sensitivity or --specificity")
    if not 0 <= correlation <= 1:
        raise DrError(f"correlation must be from 0 to 1, not {correlation:g}")
    per_patient = eyes / (1 + (eyes - 1) * correlation)  # eyes as if they were independent
    sizes = {}
    for name, value in measures.items():
        kind = 1 - prevalence if name == "specificity" else prevalence
        find_width = find_auc_width if name == "AUC" else find_share_width
        reaches = partial(_reaches, find_width, value, kind, width, per_patient)
        sizes[name] = Size(
            expected=_find_least(partial(reaches, assurance=0)),
            assured=_find_least(partial(reaches, assurance=ASSURANCE)),
        )
    return sizes


def _reaches(
    find_width: Callable,
    value: float,
    kind: float,
    width: float,
    per_patient: float,
    n: int,
    *,
    assurance: float,
) -> bool:
    """Whether n patients reach a width on average and, with an assurance, in that share of studies.

    Studies differ in the eyes of the kind that they find and in their estimate, both taken to be
    normal.
    """
    num_eyes = n * per_patient
    num_with = num_eyes * kind
    expected = find_width(value, num_with, num_eyes)
    is_enough = min(num_with, num_eyes - num_with) >= MIN_PATIENTS * per_patient
    if not assurance:
        return is_enough and expected <= width
    quantiles = stats.norm.ppf((np.arange(200) + 0.5) / 200)
    others = num_eyes - 1
    found = np.clip(num_with + quantiles * np.sqrt(num_with * (1 - kind)), 1, others)
    estimates = np.clip(value + quantiles[:, None] * expected / (2 * Z), 0.001, 0.999)
    reached = (find_width(estimates, found, num_eyes) <= width).mean()
    return is_enough and reached >= assurance


def _find_least(is_enough: Callable[[int], bool]) -> int:
    """Find the least number of patients, which more of them keep enough."""
    low = 2
    high = 4
    while not is_enough(high):
        low = high
        high *= 2
        if high > MOST:
            raise DrError("no study is large enough: allow a wider interval")
    while high - low > 1:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return high


def describe_study(
    sizes: dict[str, Size],
    expected: Mapping[str, float],
    design: Design,
) -> str:
    """Describe the size of a study for an ethics committee, in English and in Portuguese."""
    width, prevalence, eyes, correlation = design
    patients = max(size.assured for size in sizes.values())
    values = ", ".join(f"{name} {expected[name]:g}" for name in sizes)
    alike = f" (correlation {correlation:g})" if eyes > 1 else ""
    english = (
        f"Sample size. We expect {values}, and that {prevalence:.0%} of the photographed eyes are "
        f"referable. With {patients} patients, {eyes} photographed eye(s) in each{alike}, the 95 % "
        f"confidence interval will be at most {width:g} wide in {ASSURANCE:.0%} of such studies "
        "(Riley et al. 2021 and 2024; AUC: Newcombe 2006; design effect of the eyes of a patient). "
        "Patients whose photographs cannot be graded come in addition."
    )
    names = {"sensitivity": "sensibilidade", "specificity": "especificidade"}
    values = "; ".join(f"{names.get(name, name)} {expected[name]:g}" for name in sizes)
    alike = f" (correlação de {correlation:g})" if eyes > 1 else ""
    portuguese = (
        f"Tamanho da amostra. Esperamos {values}; e que {prevalence:.0%} dos olhos fotografados "
        f"sejam encaminháveis. Com {patients} pacientes e {eyes} olho(s) fotografado(s) em cada "
        f"um{alike}, o intervalo de confiança de 95 % terá no máximo {width:g} de largura em "
        f"{ASSURANCE:.0%} de estudos assim (Riley et al. 2021 e 2024; AUC: Newcombe 2006; efeito "
        "do delineamento para os olhos de um paciente). Somam-se os pacientes cujas retinografias "
        "não puderem ser avaliadas."
    )
    decimal = re.compile(r"(?<=\d)\.(?=\d)")
    return (
        f"{english}\n\n{decimal.sub(',', portuguese).replace('%', ' %').replace('  %', ' %')}"
    )
