"""Documents say what is: commands run, programs run, tables agree with the code, what is named exists."""

from __future__ import annotations

import json
import os
import pkgutil
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import click
import pytest
from commands import module_of
from pages import blocks, commands, spans, table

import onnx_models
from egrl.cli.listing import KINDS
from egrl.cli.main import COMMANDS, cli, main
from egrl.cli.run import exact_hint
from egrl.core import mapping_file
from egrl.core.contracts import DEFAULT_GENERATIONS, GENERATION, policy_is_due
from egrl.methods import METHODS
from egrl.problems import PROBLEMS, build_problem
from egrl.runs import summary
from egrl.runs.config import RunOptions, resolve
from workloads.load import load, load_program, names

ROOT = Path(__file__).resolve().parents[1]
PLACES = (
    "*.md", "docs/**/*.md", "plugins/*/*.md", "plugins/*/docs/**/*.md",
    "benchmarks/log/*.md", "papers/*/log/*.md", "plugins/*/log/*.md",
)  # fmt: skip
DOCUMENTS = sorted(path for place in PLACES for path in ROOT.glob(place))
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = (
    "start", "guides/searching", "guides/results", "guides/chips", "guides/transfer", "guides/placing",
    "guides/programs", "guides/modules", "results/index",
)  # fmt: skip
"""Pages whose commands are run, after the README's and in this order, in one folder."""
REPORTED = [README, *((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in PAGES)]
SEARCHING = (ROOT / "docs" / "guides" / "searching.md").read_text(encoding="utf-8")
SITE_PAGES = module_of(ROOT / "tools" / "site_pages.py")
CODE_SHOWN = [
    (path, (path.parent / name).resolve())
    for path in DOCUMENTS
    for name in SITE_PAGES.CODE.findall(path.read_text(encoding="utf-8"))
]
"""Pages, and the files of the code that they show."""
MOST_WORDS, MOST_WORDS_OF_DOCS = 800, 50_000
GLOSSARY = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
RUN_FOLDER = (ROOT / "docs" / "reference" / "run-folder.md").read_text(encoding="utf-8")
ROOMS = ("workloads", "hwsim", "policies", "population", "analysis", "egrl")
PACKAGES = (*ROOMS, *(path.parent.name for path in ROOT.glob("plugins/*/*/__init__.py")))
"""Those of plug-ins among them."""
FOLDERS = (*ROOMS, "tests", "docs", "benchmarks", "examples", "papers", "plugins", "tools")
SMALL = shlex.split(
    "--threads 1 --set method.network.width=8 --set method.network.depth=2"
    " --set method.network.attention_heads=2 --set method.critic.width=8"
    " --set method.profile_model.use=off"
)
"""Networks small enough for tests."""
OWN_CODE = ("extending.md",)
"""Documents whose commands need the code that they show; `tests/test_extending.py` runs them."""
OTHERS_FLAGS = {"--index-url"}
"""Flags of other programs than egrl."""
READERS = {"mmap": load_program}
"""What reads the workloads of problems that have their own."""
GIVEN_ONLY = {
    "start_mapping.json",
    "baseline_mapping.json",
    "baseline_layout.json",
    "confirmations.jsonl",
    "init_policy.safetensors",
    "finetune/",
    "measurements.jsonl",
    "board.json",
    "calibration/*-*-p*.npz",
    "evaluator.log",
    "transfer.json",
}
"""Files of a run folder that are there only where a flag asks for them."""


def parse(argv: list[str]) -> click.Context:
    """The command's context: everything but the execution."""
    with click.Context(cli, info_name="egrl") as outer:
        name, command, rest = cli.resolve_command(outer, list(argv))
        assert name is not None
        assert command is not None
        return command.make_context(name, rest, parent=outer)


def shortened(argv: list[str]) -> list[str]:
    """The command with small networks and transforms, and a budget of one generation, or of two if a run is resumed.

    The network is ResNet-18 where a page has ResNet-50, or BERT and a gap, which take longer to solve.

    Reproducing takes minutes at its smallest: here it only says how; the rest is in
    tests/papers/test_egrl.py.
    """
    larger_ones = {"resnet50", "bert"} if "--until-gap" in argv else {"resnet50"}
    argv = ["resnet18" if word in larger_ones else word for word in argv]
    if argv[0] == "reproduce":
        return [*argv, "--help"]
    if argv[0] == "pretrain":
        gens = argv.index("--gens") + 1
        small = ["--set", "method.network.width=8"] if "rank" in argv else SMALL[:-4]
        return [*argv[:gens], "1", *argv[gens + 1 :], *small]
    if argv[0] == "simplify":
        return [*argv, "--evals", "600"]
    if argv[0] != "run":
        return argv
    larger = "--resume" in argv
    least = {
        "--gens": "2" if larger else "1",
        "--evals": str(GENERATION),
        "--requests": str(2 * GENERATION),
        "--seconds": "1e-9",
    }
    short = [re.sub(r"generation-\d+", "generation-00000001", word) for word in argv]
    for flag, value in least.items():
        if flag in short:
            short[short.index(flag) + 1] = value
    if larger:
        return short
    if not set(least) & set(short):
        short += ["--gens", "1"]
    return short if {"--method", "mmap"} & set(short) else [*short, *SMALL]


@dataclass(frozen=True)
class Story:
    """The commands of README and guides, each once, one after the other in one folder: arguments, exit code."""

    folder: Path
    codes: list[tuple[str, int]]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("story")
    example = blocks((ROOT / "docs" / "reference" / "workloads.md").read_text(encoding="utf-8"), "json")[0]
    (folder / "net.json").write_text(example, encoding="utf-8")
    onnx_models.tiny(folder / "model.onnx", x=[1, 3, 8, 8])
    chosen = build_problem("nnpi", str(folder / "model.onnx"), "npu", [], "")
    (folder / "compiler.csv").write_bytes(mapping_file.dumps(chosen, chosen.baseline.mapping).encode())
    times = dict.fromkeys(chosen.space.nodes, 1e-6)
    (folder / "times.json").write_text(json.dumps({"op_seconds": times}), encoding="utf-8")
    shutil.copytree(ROOT / "examples", folder / "examples")
    before, path = Path.cwd(), os.environ["PATH"]
    os.chdir(folder)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{path}"
    try:
        told = {shlex.join(argv): argv for page in REPORTED for argv in commands(page)}
        yield Story(folder, [(line, main(shortened(argv))) for line, argv in told.items()])
    finally:
        os.chdir(before)
        os.environ["PATH"] = path


def test_the_readme_fits_a_screen():
    assert len(README.split()) <= MOST_WORDS


def test_the_documentation_is_short_enough_to_be_read():
    pages = (ROOT / "docs").rglob("*.md")
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= MOST_WORDS_OF_DOCS


@pytest.mark.slow
def test_the_pages_and_logs_that_code_names_exist():
    named = re.compile(r"\b(?:benchmarks/log|docs/\w+|papers/\w+/log)/[\w-]+\.md\b")
    packages = [ROOT / name for name in (*ROOMS, "papers", "benchmarks", "examples", "tools")]
    for package in (*packages, *ROOT.glob("plugins/*")):
        for file in package.rglob("*.py"):
            for page in named.findall(file.read_text(encoding="utf-8")):
                own = ROOT.joinpath(*file.relative_to(ROOT).parts[:2]) / page
                assert (ROOT / page).exists() or own.exists(), f"{file} names {page}"


def test_every_command_of_readme_and_guides_runs_in_its_order(story):
    assert len(story.codes) > 40
    assert [line for line, code in story.codes if code != 0] == []
    assert (story.folder / "curves.png").stat().st_size > 0


@pytest.mark.slow
def test_the_table_of_a_run_folder_names_what_a_run_leaves(story):
    run = story.folder / "runs" / "bert-egrl-s0-1"
    left = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    listed = [
        re.sub(r"…|FIRST|END|PROBLEM", "*", name)
        for row in table(RUN_FOLDER, "file")
        for name in spans(row[0])
    ]
    patterns = [name + "*" if name.endswith("/") else name for name in listed if name not in GIVEN_ONLY]
    assert [p for p in patterns if not any(fnmatch(name, p) for name in left)] == []
    assert [n for n in left - {".lock"} if not any(fnmatch(n, p) for p in patterns)] == []


@pytest.mark.parametrize(
    "document", [path for path in DOCUMENTS if path.name not in OWN_CODE], ids=lambda path: path.name
)
@pytest.mark.filterwarnings("ignore::workloads.errors.Notice")
def test_every_command_parses_and_its_settings_exist(document):
    options = set(RunOptions.__dataclass_fields__)
    for argv in commands(document.read_text(encoding="utf-8")):
        context = parse(argv)
        workload, problem = context.params.get("workload"), context.params.get("problem")
        if (
            workload
            and problem in (None, "", *PROBLEMS)
            and not workload.endswith((".json", ".json.gz", ".onnx", ".pt2", ".hlo"))
        ):
            read = READERS.get(problem, load)
            assert len(read(workload)) > 0
        if context.command.name == "run" and not (context.params["resume"] or context.params["config_file"]):
            given = {k: v for k, v in context.params.items() if k in options and v is not None}
            resolved = resolve(given, context.params["settings"], context.params["preset"])
            assert resolved.run.workload == workload


def test_pages_show_every_command_and_every_kind_of_list():
    pages = [path.read_text(encoding="utf-8") for path in DOCUMENTS if path.name not in OWN_CODE]
    shown = [argv for page in pages for argv in commands(page)]
    with click.Context(cli, info_name="egrl") as outer:
        assert set(COMMANDS) <= {argv[0] for argv in shown} <= set(cli.list_commands(outer))
    assert {argv[1] for argv in shown if argv[0] == "list"} == set(KINDS)


@pytest.mark.parametrize(("page", "file"), CODE_SHOWN, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_pages_show_of_the_code_is_there(page, file):
    assert SITE_PAGES.from_code(file).strip()


@pytest.mark.parametrize(
    ("kind", "heading", "names"), [("methods", "method", METHODS), ("problems", "problem", PROBLEMS)]
)
def test_the_tables_of_methods_and_problems_have_them_all(kind, heading, names):
    page = ROOT / "docs" / "reference" / f"{kind}.md"
    shown = "\n".join(SITE_PAGES.from_code(file) for at, file in CODE_SHOWN if at == page)
    assert [row[0].strip("`") for row in table(shown, heading)] == list(names)


def test_the_table_of_capabilities_has_them_all_and_who_asks_for_each():
    rows = table(SITE_PAGES.from_code(ROOT / "hwsim" / "capabilities.py"), "capability")
    assert [row[0].strip("`") for row in rows] == list(SITE_PAGES.capabilities())
    assert len(rows) >= 20
    for name, offers, users in rows:
        assert offers.count("`") >= 2, name
        assert users, name


@pytest.mark.exhaustive
def test_the_way_from_a_rough_chip_file_to_a_mapping_runs_in_its_order(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "guides" / "calibrating.md").read_text(encoding="utf-8")
    steps = commands(page[: page.index("## What is fitted")])
    assert [argv[0] for argv in steps] == ["run", "calibrate", "run", "evaluate", "bound"]
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for argv in steps:
        assert main([word.replace("resnet101", "alexnet") for word in argv]) == 0
    assert (tmp_path / "fitted.ops.csv").exists()
    evaluator = summary.read_summary(tmp_path / "runs" / "rough")["evaluator"]
    assert evaluator["failures"] == 0
    assert 40 <= evaluator["requests"] <= 50
    printed = capsys.readouterr().out
    assert "gap" in printed
    assert "next: egrl run --workload runs/rough/workload.json --chip fitted.toml --method exact\n" in printed


@pytest.mark.parametrize("text", REPORTED, ids=["README", *PAGES])
def test_every_flag_that_a_page_names_exists(text):
    with click.Context(cli, info_name="egrl") as outer:
        flags = {
            flag
            for name in COMMANDS
            for option in cli.get_command(outer, name).params
            for flag in option.opts
        }
    named = {
        word for span in spans(text) if span.startswith("--") for word in span.split() if word[:2] == "--"
    }
    assert named - flags - OTHERS_FLAGS == set()


@pytest.mark.slow
@pytest.mark.parametrize("text", [README, SEARCHING], ids=["README", "searching"])
def test_what_a_run_prints_is_shown(story, text):
    run = story.folder / "runs" / "bert-egrl-s0-1"
    document = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    document["sooner"] = {
        "until_gap": "0.5%",
        "evaluations": 42,
        "rest": 1e-5,
        "known": True,
    }  # of all generations
    assert [member["name"] for member in document["members"]] == ["network", "boltzmann", "sac"]
    document["members"].append({"name": "profile_model"})  # which is off there
    for member in document["members"]:  # of all generations
        member |= {"evaluations": 9, "first_near_best": 87 if member["name"] == "profile_model" else None}
    printed = summary.sentence(document, f"runs/{run.name}")
    shown = next(block for block in blocks(text, "text") if block.startswith("bert on nnpi, egrl")).rstrip()
    hint = exact_hint({"problem": "nnpi", "method": "egrl", "gap": 0.01})
    few = f"next: egrl simplify runs/{run.name} lists the 5 of 9 changes that bring 80% of the gain"
    lines = f"{printed}\n{hint}\n{few}".splitlines()
    assert len(lines) > 9
    for told, line in zip(shown.splitlines(), lines[: 4 if text is README else None], strict=True):
        assert words_alone(told) == words_alone(line)


def words_alone(text: str) -> list[str]:
    """The words of a text, sorted, without its numbers (… is one), who found the best, and what takes the time."""
    same = re.sub(
        r"found by [^\n]*|(?<=where the time goes: )[^\n]*", "", re.sub(r"\d+(\.\d+)?|…", "N", text)
    )
    return sorted(re.findall(r"[\w%/-]+", same))


def test_no_page_shows_how_long_a_run_took_on_one_machine():
    pages = [*DOCUMENTS, *(ROOT / "examples").rglob("*.md"), *ROOT.glob("plugins/*/example/*.md")]
    shown = [path for path in pages if re.search(r"evaluations?, … s\b", path.read_text(encoding="utf-8"))]
    assert len(shown) >= 4
    for path in pages:
        if "log" not in path.parts:
            assert not re.search(r"evaluations?, \d+ s\b", path.read_text(encoding="utf-8")), path
    assert "minutes on two cores" in README


def test_the_policy_that_the_guide_begins_with_is_one_that_its_run_saves():
    shown = commands(SEARCHING)
    policy = Path(next(argv[argv.index("--init") + 1] for argv in shown if "--init" in argv))
    run = next(
        argv for argv in shown if "--out" in argv and argv[argv.index("--out") + 1] == str(policy.parents[1])
    )
    gens = int(run[run.index("--gens") + 1]) if "--gens" in run else DEFAULT_GENERATIONS
    generation = int(policy.stem.removeprefix("generation-"))
    assert generation <= gens
    assert policy_is_due(generation) or generation == gens
    assert policy.name == f"generation-{generation:08d}.safetensors"


def test_pages_state_the_size_of_bert_and_of_a_generation():
    assert f"BERT-base, {len(load('bert'))} ops" in README
    assert f"places the {len(load('bert'))} ops of BERT-base" in SEARCHING
    assert f"A generation is {GENERATION} evaluations" in SEARCHING
    assert "bert" in names()


def test_the_python_programs_of_the_readme_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    programs = blocks(README, "python")
    assert programs
    for program in programs:
        exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
        assert capsys.readouterr().out.count("\n") >= 2


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_python_block_compiles(document):
    for program in blocks(document.read_text(encoding="utf-8"), "python"):
        assert compile(program, document.name, "exec").co_code


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_to_a_file_and_a_heading(document):
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+://", target):
            continue
        name, _, anchor = target.partition("#")
        file = (document.parent / name).resolve() if name else document
        assert file.exists(), f"{document.name}: {target}"
        if anchor and file.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
            slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert anchor in slugs, f"{document.name}: {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_and_every_name_of_the_code_exists(document):
    text = document.read_text(encoding="utf-8")
    for span in spans(text):
        if re.fullmatch(rf"(?:{'|'.join(FOLDERS)})/[\w./-]*", span) and "NAME" not in span:
            assert (ROOT / span).exists(), f"{document.name}: {span}"
        elif match := re.fullmatch(rf"((?:{'|'.join(PACKAGES)})(?:\.\w+)+)(?:\(.*\))?", span):
            assert pkgutil.resolve_name(match.group(1)) is not None, f"{document.name}: {span}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_target_of_make_that_is_named_exists(document):
    text = document.read_text(encoding="utf-8")
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    named = {span.split()[1] for span in spans(text) if re.fullmatch(r"make \w+", span)}
    named |= {
        line.split()[1] for block in blocks(text, "sh") for line in block.splitlines() if line[:5] == "make "
    }
    assert named - targets == set()


def test_make_run_makes_the_first_command_of_the_readme_and_its_page():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (default,) = re.findall(r"^ARGS \?= (.*)$", makefile, flags=re.MULTILINE)
    (recipe,) = re.findall(r"^run: .*\n\t\$\(BIN\)/(.*)$", makefile, flags=re.MULTILINE)
    words = shlex.split(recipe.replace("$(ARGS)", default))
    assert [word for word in words if word != "--report"] == ["egrl", *commands(README)[0]]
    assert parse(words[1:]).params["report"] is True


def test_the_table_of_gates_states_what_make_runs():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    gates = [row[0].strip("`") for row in table(text, "command")]
    recipe = [line.split("/", 1)[1] for line in makefile.splitlines() if line.startswith("\t$(BIN)/")]
    first = recipe.index("ruff check .")
    check = recipe[first : recipe.index("mkdocs build --strict --quiet", first) + 1]
    assert gates == [*check, "pytest"]


def test_the_glossary_has_every_term_once():
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", GLOSSARY, flags=re.MULTILINE)
    terms = [row for row in rows if row not in ("term", "---")]
    assert len(terms) > 70
    assert len(set(terms)) == len(terms)
