"""The papers' claims, the verdicts on hand-made rows, and the report."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dr_lib.studies.claims import PublishedError, judge, read_published, write_report
from dr_lib.studies.figures import PUBLISHED, UnlikeRunsError, check_alike, timed_runs

T4 = {"platform": "kaggle", "accelerator": "Tesla T4", "num_accelerators": 2}
TPU = {"platform": "colab", "accelerator": "TPU v2", "num_accelerators": 1}
CPU = {"platform": "local", "accelerator": "cpu", "num_accelerators": 1}
SPREAD = np.linspace(-1, 1, 10)  # ten runs, evenly about their mean


def make_runs(minutes, hardware, **columns):
    """Rows of the paper's work, a run for each time in minutes."""
    row = {"status": "ok", "error": "", "run_id": "r", "data_kind": "photographs", "model": "inception_v3"}
    row |= {"epochs": 200, "batch_size": 8, "image_size": 299, "precision": "float32", "commit": "c" * 40}
    return pd.DataFrame([row | hardware | {"train_s": 60.0 * m} | columns for m in minutes])


def both(gpu=51.33 + SPREAD, tpu=33.24 + SPREAD, **columns):
    """Ten runs on each of the paper's two environments, by default with the paper's means."""
    return pd.concat([make_runs(gpu, T4, **columns), make_runs(tpu, TPU, **columns)], ignore_index=True)


def claim(claim_id):
    """One claim of the table."""
    return read_published().set_index("id", drop=False).loc[claim_id]


def price(instance):
    """What paper B prints, USD an hour."""
    return claims_on("usd_per_hour", "B")[f"instance={instance}"]


def claims_on(column, paper):
    """The printed means of a column, by selector."""
    claims = read_published(paper).query("statistic == 'mean'")
    return claims[claims["column"] == column].set_index("numerator")["value"]


def test_every_paper_has_its_claims():
    """Four papers, and each quotation in both languages."""
    claims = read_published()
    assert set(claims["paper"]) == set("ABCD")
    assert (claims[["quotation", "quotation_pt", "environments"]] != "").all(axis=None)


def test_the_means_of_figure_1_give_35_per_cent_not_36():
    """The text's 36 % (A3) and what its own means give (A4) both stand in the table."""
    saving = 100 * (1 - claim("A2")["value"] / claim("A1")["value"])
    assert claim("A3")["value"] == 36
    assert claim("A4")["value"] == pytest.approx(saving, abs=0.05)


@pytest.mark.parametrize(("cheap", "dear", "printed"), [("m5", "m4", 4.17), ("c7g", "m6g", 5.84), ("c7g", "m5", 24.34)])
def test_the_savings_of_paper_b_follow_from_its_prices(cheap, dear, printed):
    """One minus the ratio of the prices is the printed saving, to its last digit."""
    cheap, dear = f"ml.{cheap}.xlarge", f"ml.{dear}.xlarge"
    assert 100 * (1 - price(cheap) / price(dear)) == pytest.approx(printed, abs=0.01)
    found = read_published("B").query(f"numerator == 'instance={cheap}' and denominator == 'instance={dear}'")
    assert list(found["value"]) == [printed]


def test_the_ratios_of_paper_b_follow_from_its_latencies():
    """Every ratio, saving and increase of latency is that of two printed means, to the printed digits."""
    latency = claims_on("predict_ms", "B")
    derived = read_published("B").query("column == 'predict_ms' and statistic != 'mean'")
    assert len(derived) == 10
    for row in derived.itertuples():
        ratio = latency[row.numerator] / latency[row.denominator]
        expected = {"ratio": ratio, "saving": 100 - 100 * ratio, "increase": 100 * ratio - 100}[row.statistic]
        assert row.value == pytest.approx(expected, abs=0.005 if row.statistic == "ratio" else 0.5), row.id


def test_the_costs_per_million_follow_from_price_and_latency():
    """price / 3600 x latency: c7g is 14 % dearer than m5 for VGG19, and 12 % cheaper for MobileNet."""
    latency = claims_on("predict_ms", "B")
    for row in read_published("B").query("column == 'usd_per_million'").itertuples():
        cost = [latency[side] * price(side.split("instance=")[1]) for side in (row.numerator, row.denominator)]
        assert row.value == pytest.approx(100 * abs(cost[0] / cost[1] - 1), abs=0.5)


def test_the_speed_up_of_paper_d_follows_from_its_times():
    """621 s over 219 s is 2.84, which the text calls about 3."""
    assert claim("D4")["value"] == pytest.approx(claim("D2")["value"] / claim("D1")["value"], abs=0.005)


def test_the_costs_of_paper_c_imply_a_ratio_within_its_own_4_to_6():
    """C20 (CPU) over C44 (GPU), the same cell: 14.00 / 2.50 = 5.6."""
    costs = read_published("C").query("column == 'cost_usd' and statistic == 'mean'")["value"].tolist()
    assert costs[0] / costs[1] == pytest.approx(14.00 / 2.50, rel=1e-3)
    assert costs[0] == pytest.approx(14.00 / 5 / 4.865, rel=1e-3)


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("statistic", "median", "statistic"),
        ("relation", ">", "relation"),
        ("id", "A2", "twice"),
        ("denominator", "platform=colab", "denominator"),
        ("value", "much", "number"),
        ("numerator", "Tesla T4", "selector"),
    ],
)
def test_refuses_a_table_that_could_not_be_judged(tmp_path, column, value, told):
    """A slip in the table is found on reading, and the claim named."""
    table = pd.read_csv(PUBLISHED, dtype=str, keep_default_na=False)
    table.loc[0, column] = value
    table.to_csv(tmp_path / "published.csv", index=False)
    with pytest.raises(PublishedError, match=f"A[12]: .*{told}"):
        read_published(path=tmp_path / "published.csv")


def test_refuses_an_unknown_paper():
    """The papers that there are, are named."""
    with pytest.raises(PublishedError, match="'A', 'B', 'C', 'D'"):
        read_published("E")


def test_a_saving_inside_the_tolerance_holds():
    """The interval is one minus SciPy's Welch interval of the log times, in per cent."""
    runs, verdict = both(), judge(claim("A3"), both())
    log = np.log(runs["train_s"])
    welch = stats.ttest_ind(log[10:], log[:10], equal_var=False).confidence_interval()
    assert verdict.verdict == "holds"
    assert (verdict.ours.low, verdict.ours.high) == pytest.approx(
        (100 - 100 * np.exp(welch.high), 100 - 100 * np.exp(welch.low))
    )
    assert verdict.n == 10


def test_a_mean_is_judged_in_the_unit_of_the_claim():
    """Rows hold seconds, the paper minutes."""
    verdict = judge(claim("A1"), both())
    assert verdict.ours.value == pytest.approx(51.33)
    assert verdict.verdict == "holds"


def test_an_interval_outside_the_tolerance_does_not_hold():
    """A TPU as slow as the GPUs saves nothing like 36 %."""
    assert judge(claim("A3"), both(tpu=51.33 + SPREAD)).verdict == "does not hold"


@pytest.mark.parametrize("share", [0.60, 0.575])
def test_an_interval_across_the_border_is_undecided(share):
    """Savings of 40 and 42.5 %, each give or take 4 points, may lie on either side of 36 + 5."""
    assert judge(claim("A3"), both(tpu=51.33 * share + 5 * SPREAD)).verdict == "undecided"


@pytest.mark.parametrize(("n", "verdict"), [(2, "undecided"), (3, "holds")])
def test_two_runs_decide_nothing(n, verdict):
    """However close together they lie."""
    runs = both(gpu=51.33 + 0.01 * SPREAD[:n], tpu=33.24 + 0.01 * SPREAD)
    assert judge(claim("A3"), runs)[2:4] == (verdict, n)


@pytest.mark.parametrize(
    ("relation", "verdict"), [(">=", "holds"), ("<=", "does not hold"), ("within", "does not hold")]
)
def test_one_sided_relations_leave_the_other_side_open(relation, verdict):
    """A saving of 54 % is at least 36 %, not at most, and not within 5 points of it."""
    asked = claim("A3").copy()
    asked["relation"] = relation
    assert judge(asked, both(tpu=51.33 * 0.46 + 0.1 * SPREAD)).verdict == verdict


def test_a_ratio_of_spreads_is_judged():
    """Ten times the spread is not twice the spread, even with the F interval's factor of two."""
    verdict = judge(claim("A5"), both(tpu=33.24 + 10 * SPREAD))
    assert verdict.ours.value == pytest.approx(10)
    assert verdict.verdict == "does not hold"


def test_other_hardware_is_shown_but_not_comparable():
    """One CPU's mean stands beside the paper's, without a verdict on it; a ratio needs two machines."""
    runs = make_runs([20, 21, 22], CPU)
    shown = judge(claim("A1"), runs)
    assert (shown.verdict, shown.n, shown.ours.value) == ("not comparable", 3, pytest.approx(21))
    assert "local, CPU" in shown.reason
    assert "accelerator=Tesla T4" in shown.reason
    ratio = judge(claim("A3"), runs)
    assert (ratio.verdict, ratio.n) == ("not comparable", 0)


def test_the_nearest_hardware_is_chosen():
    """Kaggle's TPU stands in for Colab's before any CPU does, and only the platform is missed."""
    runs = pd.concat([both(tpu=[]), make_runs([30, 31, 32], TPU | {"platform": "kaggle"}), make_runs([90] * 3, CPU)])
    verdict = judge(claim("A2"), runs)
    assert (verdict.verdict, verdict.ours.value) == ("not comparable", pytest.approx(31))
    assert verdict.reason.endswith("vs platform=colab")


def test_other_work_on_the_same_hardware_is_not_comparable():
    """Three epochs of a demonstration say nothing of the paper's 200."""
    verdict = judge(claim("A3"), both(epochs=3))
    assert verdict.verdict == "not comparable"
    assert verdict.reason.endswith("vs epochs=200")


def test_two_kinds_of_tpu_are_not_one_environment():
    """A mean over a v2 and a v5e would be the mean of nothing."""
    runs = pd.concat([both(), make_runs([20, 21, 22], TPU | {"accelerator": "TPU v5 lite"})])
    assert judge(claim("A2"), runs)[2:4] == ("not comparable", 0)


@pytest.mark.parametrize("runs", [pd.DataFrame(), both(status="failed"), both(train_s=None)])
def test_without_rows_nothing_is_measured(runs):
    """No rows, failed rows only, and rows without the column."""
    assert judge(claim("A3"), runs)[2:4] == ("not measured", 0)


def test_a_free_machine_has_no_ratio_of_costs():
    """Zero USD has no logarithm: that is said, and crashes nothing."""
    t4 = {"accelerator": "Tesla T4", "num_accelerators": 1, "platform": "colab"}
    runs = pd.concat([make_runs([1, 2, 3], CPU, cost_usd=0.0), make_runs([1, 2, 3], t4, cost_usd=0.0)])
    verdict = judge(claim("C8"), runs)
    assert verdict.verdict == "not measured"
    assert "positive" in verdict.reason


def test_resumed_and_contended_runs_are_left_out_unless_asked():
    """A run that was interrupted or shared its machine has another time than the rest."""
    runs = both().assign(resumed=[1] + [0] * 19, contended=[False, True, None] + [False] * 17)
    assert len(timed_runs(runs)) == 18
    assert len(timed_runs(runs, keep=["resumed", "contended"])) == 20
    assert judge(claim("A1"), runs).n == 8
    assert judge(claim("A1"), runs, keep=["contended"]).n == 9


def test_environments_are_told_apart_by_instance_where_they_must_be():
    """Two instances of one platform and processor get their names."""
    runs = pd.concat([both(instance=""), make_runs([1], CPU, instance="a"), make_runs([2], CPU, instance="b")])
    assert list(timed_runs(runs)["environment"].unique()) == [
        "kaggle, 2 x Tesla T4",
        "colab, TPU v2",
        "local, CPU, a",
        "local, CPU, b",
    ]


def test_unlike_runs_are_refused_by_column_and_value():
    """Neither a model nor a dirty commit slips into a mean."""
    runs = timed_runs(pd.concat([both(), both(model="small_cnn", commit="c" * 40 + "-dirty")]))
    with pytest.raises(UnlikeRunsError, match=r"commit .*c-dirty.*model \(inception_v3, small_cnn\)"):
        check_alike(runs)
    with pytest.raises(UnlikeRunsError, match="commit"):
        check_alike(runs, allow=["model"])
    check_alike(runs, allow=["model", "commit"])


def test_precision_may_differ_between_machines_not_on_one():
    """The fast mode takes float16 on a GPU and bfloat16 on a TPU; that is its plan, not a slip."""
    gpu, tpu = make_runs([1], T4, precision="mixed_float16"), make_runs([2], TPU, precision="mixed_bfloat16")
    check_alike(timed_runs(pd.concat([gpu, tpu])))
    with pytest.raises(UnlikeRunsError, match="precision"):
        check_alike(timed_runs(pd.concat([gpu, gpu.assign(precision="float32")])))


@pytest.mark.parametrize(
    ("lang", "words"),
    [
        (
            "en",
            ["# Paper A", "DRAWN SAMPLE, NOT PHOTOGRAPHS", "TPU needs 36 %", "| holds |", "## Failed runs"],
        ),
        (
            "pt",
            ["# Artigo A", "AMOSTRA DESENHADA", "TPU precisa de 36 %", "| vale |", "## Execuções com falha"],
        ),
    ],
)
def test_the_report_tells_it_all(tmp_path, lang, words):
    """Drawn data in capitals, the counts left out, environments, verdicts, metrics and the failed run."""
    runs = both(data_kind="drawn", steady_epoch_s=9.0, metric_auc_test=0.9).assign(resumed=[1] + [0] * 19)
    failed = make_runs([1], CPU, data_kind="drawn", status="failed", error="no | memory\nleft", run_id="f1")
    verdicts = write_report(pd.concat([runs, failed]), tmp_path / "report.md", lang=lang)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert [v.id for v in verdicts] == ["A1", "A2", "A3", "A4", "A5"]
    for word in [*words, "![](figure_1.png)", "| 1 | 0 |", "metric_auc_test", r"| f1 | no \| memory left |"]:
        assert word in text
    fast, slow = [line.split(" | ") for line in text.splitlines() if line.startswith(("| colab", "| kaggle"))]
    assert slow[:2] == ["| kaggle, 2 x Tesla T4", "9"]
    assert (slow[4], fast[4][:6]) == ("1", "0.6461")  # SciPy: gmean(33.24 + SPREAD) / gmean((51.33 + SPREAD)[1:])
    assert "nan" not in text


def test_the_report_of_nothing_says_so(tmp_path):
    """Before any run, every claim of every paper is not measured."""
    for paper in "ABCD":
        verdicts = write_report(pd.DataFrame(), tmp_path / "report.md", paper=paper)
        assert {v.verdict for v in verdicts} == {"not measured"}


def test_the_report_refuses_unlike_runs_and_unknown_languages(tmp_path):
    """Nothing is written then; allowed columns get a line of their own in the table of environments."""
    runs = pd.concat([both(), both(model="small_cnn")])
    with pytest.raises(UnlikeRunsError, match="model"):
        write_report(runs, tmp_path / "report.md")
    with pytest.raises(ValueError, match="lang"):
        write_report(both(), tmp_path / "report.md", lang="de")
    assert not (tmp_path / "report.md").exists()
    write_report(runs, tmp_path / "report.md", allow=["model"])
    assert "| kaggle, 2 x Tesla T4 | small_cnn | 10 |" in (tmp_path / "report.md").read_text(encoding="utf-8")
