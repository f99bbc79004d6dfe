"""The examples at the end of each command's --help."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "solve": (
        "elgo solve stops.csv --capacity 100 --plot stops.svg",
        "elgo solve folder --time-limit 60 --jobs 2 --json results.json",
        "elgo solve big.vrp --warm-start mine.sol --vehicles 12",
    ),
    "bulk": (
        "elgo bulk night.jsonl --out routes.jsonl --time-limit 0.5",
        "elgo bulk kool:cvrp:1000 --policy-only --starts 8 --symmetries 1 --out policy.parquet",
        "elgo bulk 'plans/*.vrp' --out routes.jsonl --engine ray --address auto",
    ),
    "serve": ("elgo serve", "elgo serve --host 0.0.0.0 --port 8080 --max-seconds 300"),
    "warm-up": ("elgo warm-up",),
    "models": ("elgo models", "elgo models --verify"),
    "info": ("elgo info runs/elg-tsp/best.safetensors",),
    "import-weights": ("elgo import-weights checkpoint-300.pt model.safetensors --config config.yml",),
    "export-weights": ("elgo export-weights model.safetensors checkpoint.pt",),
    "train": (
        "elgo train elg-tsp --minutes 60",
        "elgo train paper-cvrp --folder runs/mine --set train.lr=0.0003",
    ),
    "cool": ("elgo cool runs/elg-tsp --minutes 20",),
    "plot-training": (
        "elgo plot-training runs/elg-tsp runs/mine --out curves.svg",
        "elgo plot-training runs/elg-tsp+runs/elg-tsp-reinforce runs/pomo-tsp+runs/pomo-tsp-reinforce",
    ),
    "run": (
        "elgo bench tsplib --methods elg:single,elgo@5",
        "elgo bench cvrplib-x --instances ten --methods elgo@5 --baselines installed --time-limits 5",
    ),
    "report": ("elgo bench report bench/tsplib",),
    "compare": ("elgo bench compare bench/old bench/new", "elgo bench compare bench/tsplib:elg bench/tsplib:elgo@5"),
    "paper": ("elgo bench paper --table 2", "elgo bench paper --table 1,10 --limit 3 --folder bench/brief"),
    "ablations": ("elgo bench ablations --steps 100 --limit 5",),
    "list": ("elgo data list",),
    "reference": ("elgo data reference", "elgo data reference CVRP100 --count 10000"),
    "make": ("elgo labels make data/tsp --problem tsp --sizes 50-200 --count 10000 --jobs 2",),
    "fetch": ("elgo data fetch tsplib --data benchmarks",),
}


def epilog(command: str) -> str:
    """Return the examples of a command for its --help; \\b keeps their lines as they are."""
    lines = EXAMPLES[command]
    return "\n".join(["\b", "Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])
