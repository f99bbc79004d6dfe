"""Other solvers behind one small interface: Instance and Budget -> routes.

Each comes from a package of the extra `elgo[bench]` and is imported when it is asked for. What a peer answers is checked
and costed by elgo.problem.solution: nothing here is believed. A time limit is wall-clock from the Instance to the routes, so
what a peer needs to build its model is taken off what it may search.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elgo.problem.instance import Instance
from elgo.search.distances import integer_distances
from elgo.search.tsp import FAST_TSP_LARGEST
from elgo.train.labels import fleet

Routes = list[list[int]]
LEAST_SECONDS = 0.01  # for the search, however long the model took
LARGEST = 10**6  # distance in whole units
EXTENT = 10_000  # the longest of those that are scaled; with more, the penalties of HGS and PyVRP are too small


@dataclass(frozen=True)
class Budget:
    """What a solver may spend on one instance; the clock runs from when this is made."""

    seconds: float | None  # None: until it is done
    threads: int = 1
    seed: int = 0
    begin: float = field(default_factory=time.perf_counter)

    def left(self) -> float:
        """Seconds of wall-clock that are left to search."""
        if self.seconds is None:
            raise ValueError("seconds is None: this solver needs a time limit")
        return max(LEAST_SECONDS, self.seconds - (time.perf_counter() - self.begin))


@dataclass(frozen=True)
class Peer:
    """A solver: which problems it takes, where it comes from, and whether it searches until a time limit."""

    name: str
    problems: tuple[str, ...]
    solve: Callable[[Instance, Budget], Routes | None]  # None: it found nothing
    limited: bool
    module: str = ""  # to import; empty: our own
    package: str = ""  # to install
    about: str = ""

    def require(self) -> None:
        """Import the package now, or raise ValueError saying how to install it."""
        if not self.module:
            return
        try:
            importlib.import_module(self.module)
        except ImportError as error:
            raise ValueError(
                f"{self.name}: the peer needs {self.package}, which cannot be imported ({error}): "
                "pip install 'elgo[bench]'"
            ) from None

    @property
    def installed(self) -> bool:
        return not self.module or importlib.util.find_spec(self.module.split(".")[0]) is not None

    @property
    def version(self) -> str:
        """Of its package; that of elgo for our own."""
        return importlib.metadata.version(self.package) if self.package else ""


def _distances(instance: Instance) -> NDArray[np.int64]:
    return integer_distances(instance, LARGEST, EXTENT)


def _demands(instance: Instance) -> tuple[NDArray[np.int64], int, int]:
    """Demands and capacity in whole units, and how many vehicles to offer."""
    demand, capacity = instance.units()
    return demand, capacity, fleet(demand, capacity)


def _pyvrp(instance: Instance, budget: Budget) -> Routes | None:
    pyvrp: Any = importlib.import_module("pyvrp")
    distance = _distances(instance)
    customers = range(1, instance.size)
    if instance.problem == "tsp":
        clients = [pyvrp.Client(location=i) for i in customers]
        vehicles = pyvrp.VehicleType()
    else:
        demand, capacity, count = _demands(instance)
        clients = [pyvrp.Client(location=i, delivery=[int(demand[i])]) for i in customers]
        vehicles = pyvrp.VehicleType(num_available=count, capacity=[capacity])
    data = pyvrp.ProblemData(
        locations=[pyvrp.Location(float(x), float(y)) for x, y in instance.plane()],
        clients=clients,
        depots=[pyvrp.Depot(location=0)],
        vehicle_types=[vehicles],
        distance_matrices=[distance],
        duration_matrices=[np.zeros_like(distance)],
    )
    # The limit must bind from here on; PyVRP's own clock starts behind its first local search.
    end = time.perf_counter() + budget.left()
    result = pyvrp.solve(data, _Until(end), seed=budget.seed, collect_stats=False, display=False)
    if not result.is_feasible():
        return None
    routes = [[stop.idx + 1 for stop in route if stop.is_client()] for route in result.best.routes()]
    return [[0, *routes[0]]] if instance.problem == "tsp" else routes


@dataclass(frozen=True)
class _Until:
    """PyVRP's stopping criterion at a moment of the clock."""

    end: float

    def __call__(self, best_cost: int) -> bool:
        return time.perf_counter() > self.end


def _hgs(instance: Instance, budget: Budget) -> Routes | None:
    hygese: Any = importlib.import_module("hygese")
    demand, capacity, count = _demands(instance)
    plane = instance.plane() - instance.plane().min(axis=0)  # only for its polar sectors; must not be negative
    data = {
        "x_coordinates": plane[:, 0],
        "y_coordinates": plane[:, 1],
        "distance_matrix": _distances(instance).astype(np.float64),
        "demands": demand,
        "vehicle_capacity": capacity,
        "num_vehicles": count,
    }
    parameters = hygese.AlgorithmParameters(timeLimit=budget.left(), seed=budget.seed)
    try:
        return [list(route) for route in hygese.Solver(parameters=parameters, verbose=False).solve_cvrp(data).routes]
    except TypeError:  # its null pointer: no feasible solution
        return None


def _ortools(instance: Instance, budget: Budget) -> Routes | None:
    """Cheapest arcs, then guided local search, as its guide advises."""
    cp: Any = importlib.import_module("ortools.constraint_solver.pywrapcp")
    enums: Any = importlib.import_module("ortools.constraint_solver.routing_enums_pb2")
    cvrp = instance.problem == "cvrp"
    demand, capacity, vehicles = _demands(instance) if cvrp else (np.zeros(instance.size, np.int64), 0, 1)
    manager = cp.RoutingIndexManager(instance.size, vehicles, 0)
    routing = cp.RoutingModel(manager)
    routing.SetArcCostEvaluatorOfAllVehicles(routing.RegisterTransitMatrix(_distances(instance).tolist()))
    if cvrp:
        load = routing.RegisterUnaryTransitVector(demand.tolist())
        routing.AddDimensionWithVehicleCapacity(load, 0, [capacity] * vehicles, True, "load")
    parameters = cp.DefaultRoutingSearchParameters()
    parameters.first_solution_strategy = enums.FirstSolutionStrategy.PATH_CHEAPEST_ARC
    parameters.local_search_metaheuristic = enums.LocalSearchMetaheuristic.GUIDED_LOCAL_SEARCH
    parameters.time_limit.FromMilliseconds(max(1, int(1000 * budget.left())))
    answer = routing.SolveWithParameters(parameters)
    if answer is None:
        return None
    routes: Routes = []
    for vehicle in range(vehicles):
        index, route = answer.Value(routing.NextVar(routing.Start(vehicle))), []
        while not routing.IsEnd(index):
            route.append(manager.IndexToNode(index))
            index = answer.Value(routing.NextVar(index))
        if route:
            routes.append(route)
    return routes if cvrp else [[0, *routes[0]]]


def _vroom(instance: Instance, budget: Budget) -> Routes | None:
    """Highest exploration level; it stops when that is explored, often long before the limit."""
    vroom: Any = importlib.import_module("vroom")
    problem = vroom.Input()
    problem.set_durations_matrix("car", _distances(instance).astype(np.uint32))
    customers = range(1, instance.size)
    if instance.problem == "tsp":
        problem.add_vehicle(vroom.Vehicle(0, start=0, end=0))
        problem.add_job([vroom.Job(i, location=i) for i in customers])
    else:
        demand, capacity, count = _demands(instance)
        problem.add_vehicle([vroom.Vehicle(k, start=0, end=0, capacity=[capacity]) for k in range(count)])
        problem.add_job([vroom.Job(i, location=i, delivery=[int(demand[i])]) for i in customers])
    limit = timedelta(seconds=budget.left())
    steps = problem.solve(exploration_level=5, nb_threads=budget.threads, timeout=limit).routes
    jobs = steps[steps["type"] == "job"]
    routes: dict[int, list[int]] = {}
    for vehicle, node in zip(jobs["vehicle_id"].tolist(), jobs["location_index"].tolist(), strict=True):
        routes.setdefault(vehicle, []).append(int(node))
    return list(routes.values()) if instance.problem == "cvrp" else [[0, *routes.get(0, [])]]


def _lkh(instance: Instance, budget: Budget) -> Routes | None:
    """LKH knows runs instead of seconds: one run, then as many as fit into what is left of the limit."""
    elkai: Any = importlib.import_module("elkai")
    problem = elkai.DistanceMatrix(_distances(instance).tolist())
    begin = time.perf_counter()
    tours = [problem.solve_tsp(1)[:-1]]
    runs = int(0.9 * budget.left() / (time.perf_counter() - begin))
    if runs >= 2:
        tours.append(problem.solve_tsp(runs)[:-1])
    length = [float(instance.distances(tour, np.roll(tour, -1)).sum()) for tour in tours]
    return [tours[int(np.argmin(length))]]


def _fast_tsp(instance: Instance, budget: Budget) -> Routes | None:
    fast_tsp: Any = importlib.import_module("fast_tsp")
    matrix = integer_distances(instance, FAST_TSP_LARGEST, FAST_TSP_LARGEST).astype(np.uint16)
    return [fast_tsp.find_tour(matrix, budget.left(), max_threads=budget.threads)]


def _nearest(instance: Instance, budget: Budget) -> Routes:
    from elgo.search.construct import nearest_neighbour

    return nearest_neighbour(instance)


def _insertion(instance: Instance, budget: Budget) -> Routes:
    from elgo.search.construct import random_insertion

    return random_insertion(instance, budget.seed)


def _savings(instance: Instance, budget: Budget) -> Routes:
    from elgo.search.savings import savings

    return savings(instance)


_BOTH = ("tsp", "cvrp")
_PEERS = (
    Peer("nearest", _BOTH, _nearest, limited=False, about="nearest neighbour"),
    Peer("insertion", _BOTH, _insertion, limited=False, about="random insertion"),
    Peer("savings", ("cvrp",), _savings, limited=False, about="Clarke and Wright's savings"),
    Peer("pyvrp", _BOTH, _pyvrp, True, "pyvrp", "pyvrp", "PyVRP"),
    Peer("hgs", ("cvrp",), _hgs, True, "hygese", "hygese", "HGS-CVRP by hygese; its limit counts CPU time"),
    Peer("ortools", _BOTH, _ortools, True, "ortools.constraint_solver.pywrapcp", "ortools", "OR-Tools routing"),
    Peer("vroom", _BOTH, _vroom, True, "vroom", "pyvroom", "VROOM; ends when its search space is explored"),
    Peer("lkh", ("tsp",), _lkh, True, "elkai", "elkai", "LKH by elkai: whole runs only, at least one"),
    Peer("fast_tsp", ("tsp",), _fast_tsp, True, "fast_tsp", "fast_tsp", "fast_tsp"),
)
PEERS = {peer.name: peer for peer in _PEERS}
