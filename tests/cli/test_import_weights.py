"""`elgo import-weights`: wrong input; tests/model covers the conversion."""

from commands import check_refused, run


def test_import_weights_refuses_a_missing_file(tmp_path) -> None:
    check_refused(run("import-weights", tmp_path / "none.pt", tmp_path / "out.safetensors"), "none.pt")


def test_import_weights_refuses_to_replace_its_input(tmp_path) -> None:
    file = tmp_path / "w.safetensors"
    file.write_text("")
    check_refused(run("import-weights", file), str(file), "own input")
