"""The columns that labels.csv, split tables and predictions.csv share, and their values."""

import re
import unicodedata
from collections.abc import Mapping

import pandas as pd

from dr_lib.data.labels.grades import GRADES

SIDES = ("train", "validation", "test")
EXCLUDED = "excluded"  # from the split, for the reason beside it
REJECTED = "rejected"  # could not be cropped, for the reason beside it
# as the label file has them, for subgroups; visits are numbered
FACTS = ("camera", "age", "sex", "quality", "visit")

# predictions.csv: what is known of a photograph, and FACTS; one of the two kinds of probability
KNOWN = ("image_id", "patient_id", "group", "split", "reason", "eye", "grade", "referable")
OF_GRADES = [f"probability_{grade}" for grade in range(len(GRADES))]
OF_REFERABLE = "probability_referable"
# all that an evaluation reads; any other column is the file's own, under a name of its own: no
# folded name has a space
EVALUATED = (
    *KNOWN,
    *FACTS,
    *OF_GRADES,
    OF_REFERABLE,
    "gradable",
    "data_kind",
    "dataset",
    "model",
    "model_version",
)
OWN = "own "
COLUMNS = {  # what people call them, folded
    "image_id": "image imageid id_image imagem id_imagem foto retinografia arquivo file filename",
    "patient_id": "patient_id patient patientid id_patient patient_number mrn record_number"
    " medical_record_number prontuario n_prontuario no_prontuario num_prontuario id_prontuario"
    " numero_prontuario numero_do_prontuario id_paciente paciente_id codigo_paciente"
    " codigo_do_paciente cod_paciente registro subject_id subjectid participant_id cns cpf"
    " subject participant paciente patient_name nome_paciente nome_do_paciente",
    "split": "set particao divisao",
    "eye": "olho laterality lateralidade",
    "grade": "grau grau_de_rd grau_rd grau_de_retinopatia dr_grade adjudicated_grade"
    " grade_adjudicated grau_adjudicado consensus consensus_grade consenso grau_consenso"
    " grau_final final_grade adjudicated adjudicado",
    "referable": "encaminhavel",
    OF_REFERABLE: "probability probabilidade probabilidade_encaminhavel",
    **{column: f"probabilidade_{grade}" for grade, column in enumerate(OF_GRADES)},
    "gradable": "gradavel adjudicated_gradable",
    "reason": "motivo",
    "visit": "visit visita exam_date date_of_exam visit_date study_date acquisition_date date"
    " data_do_exame data_exame data_da_visita data_visita data_da_consulta",
    "camera": "aparelho equipamento retinografo device camera_model",
    "dataset": "base",
    "model": "modelo",
    "age": "idade patient_age",
    "sex": "sexo gender genero patient_sex",
    "quality": "qualidade",
}
# cells that say nothing, folded; none is not among them: it may mean no retinopathy, or no grade
UNKNOWN = {""}.union(
    "nan na n_a n_d nd null s_i unknown not_known not_informed not_available not_recorded missing"
    " desconhecido desconhecida ignorado ignorada nao_informado nao_informada nao_consta"
    " nao_disponivel nao_sabe sem_informacao sem_dados vazio".split()
)
INVISIBLE = "[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
FAULT = r"#[\w/]+[!?]"  # of a spreadsheet: #REF!
ROUNDED = r"\d([.,]\d+)?[eE]\+\d+"  # 1,23E+15
SCALE = ", ".join(f"{grade} {name}" for grade, name in enumerate(GRADES))
SCALE += ", or empty; of grades from 1 to 5 subtract 1; for an ungradable photograph write"
SCALE += " gradable 0 and leave grade empty; show a date or a time as a number"
TRUTH = {"1": "yes y sim s true t verdadeiro v 1_0", "0": "no n nao false f falso 0_0"}
WORDS = {  # what people write in cells, folded, for what is read
    "split": {
        "train": "train training treino treinamento",
        "validation": "validation valid val validacao",
        "test": "test testing teste",
        EXCLUDED: "excluded excluido excluida",
        REJECTED: "rejected rejeitado rejeitada",
    },
    "eye": {
        "left": "left l os oe e esquerdo esquerda",
        "right": "right r od d direito direita",
    },
    "sex": {"female": "female f feminino mulher", "male": "male m masculino homem"},
    "grade": {
        "0": "no_dr nodr no_apparent_dr no_retinopathy no_apparent_retinopathy normal ausente"
        " sem_rd sem_retinopatia",
        "1": "mild mild_npdr mild_dr npdr_mild leve rdnp_leve rd_leve",
        "2": "moderate moderate_npdr moderate_dr npdr_moderate moderada moderado rdnp_moderada"
        " rd_moderada",
        "3": "severe severe_npdr severe_dr npdr_severe grave severa severo rdnp_grave"
        " rdnp_severa rd_grave rd_severa",
        "4": "proliferative proliferative_dr proliferate proliferate_dr pdr proliferativa"
        " rd_proliferativa rdp",
    },
    "referable": {
        "1": f"{TRUTH['1']} rdr referable referable_dr encaminhavel",
        "0": f"{TRUTH['0']} non_rdr nonrdr non_referable non_referable_dr nao_encaminhavel",
    },
    "gradable": {
        "1": f"{TRUTH['1']} gradable gradavel",
        "0": f"{TRUTH['0']} ungradable not_gradable nao_gradavel",
    },
}


def fold_name(text: str) -> str:
    """Fold a name to lower case without accents, with _ between words: grau_de_rd."""
    letters = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text.casefold()))
    return re.sub(r"[\W_]+", "_", letters).strip("_")


def fold_text(text: str) -> str:
    """Fold case, blanks, invisible and composed characters, so that spellings of one name match."""
    visible = re.sub(INVISIBLE, "", unicodedata.normalize("NFKC", text))
    return " ".join(visible.casefold().split())


def fold_id(name: str) -> str:
    """Fold an id, so that 7, 07, 7.0 and 7,00, or pt1, PT1 and PT 1, are equal; 7.000 may be
    7000.
    """
    # zeros within letters, as of a hash, mean something
    number = re.sub(r"(?<![\d.,])0+(?=\d+(?![\da-z]))", "", fold_text(name).replace(" ", ""))
    return re.sub(r"^(\d+)[.,]0{1,2}$", r"\1", number)


def list_words(words: Mapping[str, str]) -> dict[str, str]:
    """Map people's words to ours."""
    return {other: word for word, others in words.items() for other in others.split()}


def read_words(column: str, cells: pd.Series) -> pd.Series:
    """Read what people write in the cells of a column in our words; what says nothing is empty:
    signs alone, a word of UNKNOWN, an error of a spreadsheet, or a number that it rounded for a
    patient.
    """
    words = list_words(WORDS.get(column, {}))
    nothing = re.compile(f"{FAULT}|{ROUNDED}" if column == "patient_id" else FAULT)
    meant = {}
    for cell in cells.unique():
        folded = fold_name(cell)
        is_known = folded not in UNKNOWN and not nothing.fullmatch(cell)
        meant[cell] = words.get(folded, cell) if is_known else ""
    return cells.map(meant)
