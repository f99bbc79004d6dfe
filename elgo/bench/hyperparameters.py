"""The paper's table of hyperparameters, beside those of its recipes here and of the models of the package."""

from elgo.bench.published import published
from elgo.bench.tables import Table
from elgo.model.cards import read_cards
from elgo.model.checkpoint import SHIPPED
from elgo.model.config import PolicyConfig
from elgo.train.config import load_config

EPOCH = 1_200_000  # instances


def hyperparameter_table() -> Table:
    """Return the paper's hyperparameters beside those of its recipes here and of the models of the package."""
    cards = [card for card in read_cards(SHIPPED) if card.name.startswith("elg-")]
    ours = {card.name: _network_settings(card.config) for card in cards}
    recipes = {name: _recipe_settings(name) for name in ("paper-tsp", "paper-cvrp")}
    rows = []
    for name, figures in published("hyperparameters").items():
        recipe = [recipes[config].get(name, "-") for config in recipes]
        rows.append((name, figures["TSP"], figures["CVRP"], *recipe, *(own.get(name, "-") for own in ours.values())))
    header = ("", "TSP (published)", "CVRP (published)", *recipes, *ours)
    stages = [f"{card.name}: {card.facts.training}; {', '.join(card.facts.recipes)}" for card in cards]
    return Table("Table 6. Hyperparameters", header, tuple(rows), tuple(stages))


def _network_settings(config: PolicyConfig) -> dict[str, str]:
    return {
        "C": f"{config.clip:g}",
        "xi": f"{config.xi:g}",
        "K": str(config.neighbours),
        "local width": str(config.local_width),
        "local heads": str(config.local_heads),
        "width of a head": str(config.local_width // config.local_heads),
    }


def _recipe_settings(name: str) -> dict[str, str]:
    config = load_config(name)
    train, epoch = config.train, EPOCH // config.data.batch
    return _network_settings(config.policy) | {
        "T1, epochs": str(train.global_steps // epoch),
        "T2, epochs": str((train.steps - train.global_steps) // epoch),
        "epoch size": "1.2M",
        "batch size": str(config.data.batch),
        "learning rate": f"{train.lr:.0e}".replace("e-0", "e-"),
        "weight decay": f"{train.weight_decay:.0e}".replace("e-0", "e-"),
    }
