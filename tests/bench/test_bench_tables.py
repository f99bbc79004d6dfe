"""Tables by hand: means, marks and notes."""

import small

from elgo.bench.ablations import VARIANTS
from elgo.bench.published import published
from elgo.bench.tables import Table, instance_table, main_table, reference_gaps, relative_gaps

BIG = {"group": "200-1002", "nodes": 500}
RECORDS = [
    small.record("elg", "a", 101.0, seconds=1.0),
    small.record("elg", "b", 103.0, seconds=1.0),
    small.record("elg", "c", 110.0, seconds=4.0, **BIG),
    small.record("lkh@1", "a", 100.0),
    small.record("lkh@1", "b", None, error="found no feasible solution"),
    small.record("lkh@1", "c", 101.0, seconds=5.5, **BIG),
]


def test_the_papers_layout() -> None:
    config = small.config(["elg", "lkh@1"])
    table = main_table(config, RECORDS)
    assert table.header == ("", "<=200", "200-1002", "all", "seconds", "failed")
    assert table.rows[0] == ("elg", "2.00", "10.00", "4.67", "2.00", "0")
    assert table.rows[1] == ("lkh@1", "0.00", "1.00", "0.50", "2.17", "1")
    assert table.rows[2] == ("LKH3 (published)", "0.00", "0.00", "0.00", "24", "-")
    assert ("ELG (published)", "1.12", "5.90", "3.08", "0.63", "-") in table.rows
    notes = "\n".join(table.notes)
    assert "3 instances, one thread, seed 0; a processor, 2026-01-02" in notes
    assert "lkh@1 took longer than its limit: 2.17 s on average, at most 5.50 s" in notes
    assert "lkh@1 failed on 1, first on b: found no feasible solution" in notes
    assert "tsp225" in notes
    assert len(main_table(config, RECORDS, with_published=False).rows) == 2


def test_a_part_of_a_set_says_so() -> None:
    config = small.config(["elg"], full={"<=200": 29, "200-1002": 20})
    notes = main_table(config, RECORDS[:2]).notes
    assert any("a part of the set (2 of 29, 1 of 20); published figures are for all of it" in note for note in notes)


def test_an_unfinished_method_says_so() -> None:
    config = small.config(["elg", "lkh@1"])
    assert [row[0] for row in main_table(config, RECORDS[:1], False).rows] == ["elg (1 of 2)", "lkh@1 (0 of 3)"]


def test_gaps_to_the_literatures_means() -> None:
    config = small.config(
        ["elg"],
        set="uniform",
        instances={"TSP100": 2},
        full={"TSP100": 2},
    )
    records = [
        small.record("elg", name, cost, group="TSP100", best_known=None) for name, cost in (("a", 7.8), ("b", 8.0))
    ]
    table = main_table(config, records)
    assert table.header == ("", "TSP100 cost", "TSP100 gap", "seconds")
    assert table.rows[0][:3] == ("elg", "7.9000", "1.74")
    assert ("ELG (published)", "-", "0.22", "-") in table.rows


def test_the_literatures_means_say_nothing_about_a_part() -> None:
    config = small.config(["elg"], set="uniform", instances={"TSP100": 2}, full={"TSP100": 10_000})
    records = [small.record("elg", name, 8.0, group="TSP100", best_known=None) for name in "ab"]
    table = main_table(config, records)
    assert table.header == ("", "TSP100 cost", "seconds")
    assert table.rows[0][:2] == ("elg", "8.0000")
    known = [small.record("elg", name, 8.0, group="TSP100", best_known=best) for name, best in (("a", 8.0), ("b", 4.0))]
    assert main_table(config, known).rows[0][:3] == ("elg", "8.0000", "50.00")


def test_without_references_there_are_costs_and_no_gaps() -> None:
    records = [
        small.record("x", "a", 10.0, best_known=None),
        small.record("y", "a", 11.0, best_known=None),
        small.record("x", "b", 11.0, best_known=None),
    ]
    config = small.config(["x", "y"], set="mine", instances={"<=200": 2}, full={})
    table = main_table(config, records)
    assert table.title == "TSPLIB: mean cost"
    assert table.header == ("", "<=200 cost", "seconds")
    assert table.rows == (("x", "10.5000", "0.500"), ("y (1 of 2)", "11.0000", "0.500"))
    assert "pictures show gaps to the best cost of this run" in table.notes[-1]
    assert [row[-2:] for row in instance_table(config, records).rows] == [("cost 10", "cost 11"), ("cost 11", "")]
    assert reference_gaps(records, config) == {}
    assert relative_gaps(records, config) == {("x", "a"): 0.0, ("y", "a"): 10.000000000000009}
    assert relative_gaps(RECORDS, config) == reference_gaps(RECORDS, config)


def test_a_column_of_costs_beside_one_of_gaps() -> None:
    records = [*RECORDS[:2], small.record("elg", "c", 7.0, best_known=None, **BIG)]
    table = main_table(small.config(["elg"], set="mine"), records)
    assert table.header == ("", "<=200", "200-1002 cost", "all", "seconds")
    assert table.rows == (("elg", "2.00", "7.0000", "2.00", "0.833"),)


def test_a_file_called_like_a_set_shows_no_published_figures() -> None:
    config = small.config(["elg"], instances={"tsplib.npz": 1}, full={})
    assert len(main_table(config, [small.record("elg", "a", 101.0, group="tsplib.npz")]).rows) == 1


def test_every_instance() -> None:
    table = instance_table(small.config(["elg", "lkh@1"]), RECORDS)
    assert table.header == ("", "N", "best known", "elg", "lkh@1")
    assert table.rows == (
        ("a", "50", "100", "1.00", "0.00"),
        ("b", "50", "100", "3.00", "failed"),
        ("c", "500", "100", "10.00", "1.00"),
    )


def test_text_markdown_and_html() -> None:
    table = Table("Title", ("", "a"), (("x|y", "1.00"), ("ELG (published)", "10.00")), ("a <note>",))
    assert table.text().splitlines() == [
        "Title",
        "",
        "                     a",
        "----------------------",
        "x|y               1.00",
        "ELG (published)  10.00",
        "",
        "- a <note>",
    ]
    assert table.markdown().splitlines()[2:5] == ["|  | a |", "|---|---:|", "| x/y | 1.00 |"]
    assert '<tr class="published"><td>ELG (published)</td><td>10.00</td></tr>' in table.html()
    assert "a &lt;note&gt;" in table.html()


def test_published_figures() -> None:
    assert published("cvrplib-x")["ELG"] == {"<=200": "4.51", "200-1000": "6.46", "all": "6.03", "seconds": "1.90"}
    assert published("ablations")["ablation-k-20"]["TSPLIB"] == "3.22"
    assert published("synthetic")["ELG*"]["cvrp_rotation_200"] == "2.71"
    assert set(published("ablations")) == set(VARIANTS)
    assert published("cvrplib-xxl")["ReLD, 100 starts, no symmetries"]["all"] == "~11.0"
    assert published("my folder") == {}
