"""Adapters to other solvers: an instance and a budget in, routes out. Labels and benchmarks both use them.

A solver's package is imported when its adapter is called. Callers check what it returns. The time in which an adapter
builds the solver's model counts.
"""

import importlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance
from elgo.problem.packing import first_fit_decreasing
from elgo.search.distances import integer_distances
from elgo.search.giant_tour import Routes
from elgo.search.tsp import fast_tsp_tour

LEAST_SECONDS = 0.01  # of search, even if building the model took the whole budget
LARGEST = 10**6  # integer distance that is passed on unchanged
EXTENT = 10_000  # largest of the scaled distances; with more, the penalties of HGS and PyVRP are too small


@dataclass(frozen=True)
class Budget:
    """What a solver may spend on one instance; the clock starts when this is created."""

    seconds: float | None  # None: no limit, for solvers that end by themselves
    threads: int = 1
    seed: int = 0
    clock: Callable[[], float] = time.perf_counter  # time.process_time counts CPU time (PyVRP; HGS always does)
    begin: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "begin", self.clock())

    def left(self) -> float:
        """Return the seconds that are left for the search."""
        if self.seconds is None:
            raise ElgoError("seconds is None: this solver needs a time limit")
        return max(LEAST_SECONDS, self.seconds - (self.clock() - self.begin))


def fleet_size(demand: NDArray[np.int64], capacity: int) -> int:
    """Return how many vehicles to offer: HGS's rule of thumb, but more than first-fit decreasing needs."""
    return max(math.ceil(1.3 * int(demand.sum()) / capacity) + 3, len(first_fit_decreasing(demand, capacity)) + 1)


def _demands(instance: Instance) -> tuple[NDArray[np.int64], int, int]:
    """Return demands and capacity as integers, and how many vehicles to offer."""
    demand, capacity = instance.units()
    return demand, capacity, fleet_size(demand, capacity)


def pyvrp(instance: Instance, budget: Budget) -> Routes | None:
    """Return the routes of PyVRP, or None if it found nothing feasible."""
    pyvrp: Any = importlib.import_module("pyvrp")
    distance = integer_distances(instance, LARGEST, EXTENT)
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
    end = budget.clock() + budget.left()  # PyVRP's own time limit starts only after its first local search
    result = pyvrp.solve(data, lambda best_cost: budget.clock() > end, budget.seed, collect_stats=False, display=False)
    if not result.is_feasible():
        return None
    routes = [[stop.idx + 1 for stop in route if stop.is_client()] for route in result.best.routes()]
    return [[0, *routes[0]]] if instance.problem == "tsp" else routes


def hgs(instance: Instance, budget: Budget) -> Routes | None:
    """Return the routes of HGS-CVRP (hygese), or None if it found nothing feasible. Its limit is CPU time."""
    hygese: Any = importlib.import_module("hygese")
    demand, capacity, count = _demands(instance)
    plane = instance.plane() - instance.plane().min(axis=0)  # used for polar sectors only; must not be negative
    data = {
        "x_coordinates": plane[:, 0],
        "y_coordinates": plane[:, 1],
        "distance_matrix": integer_distances(instance, LARGEST, EXTENT).astype(np.float64),
        "demands": demand,
        "vehicle_capacity": capacity,
        "num_vehicles": count,
    }
    parameters = hygese.AlgorithmParameters(timeLimit=budget.left(), seed=budget.seed)
    try:
        return [list(route) for route in hygese.Solver(parameters=parameters, verbose=False).solve_cvrp(data).routes]
    except TypeError:  # its null pointer: no feasible solution
        return None


def ortools(instance: Instance, budget: Budget) -> Routes | None:
    """Return the routes of OR-Tools: cheapest arcs, then guided local search, as its guide recommends."""
    cp: Any = importlib.import_module("ortools.constraint_solver.pywrapcp")
    enums: Any = importlib.import_module("ortools.constraint_solver.routing_enums_pb2")
    cvrp = instance.problem == "cvrp"
    demand, capacity, vehicles = _demands(instance) if cvrp else (np.zeros(instance.size, np.int64), 0, 1)
    manager = cp.RoutingIndexManager(instance.size, vehicles, 0)
    routing = cp.RoutingModel(manager)
    routing.SetArcCostEvaluatorOfAllVehicles(
        routing.RegisterTransitMatrix(integer_distances(instance, LARGEST, EXTENT).tolist())
    )
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


def vroom(instance: Instance, budget: Budget) -> Routes | None:
    """Return the routes of VROOM at its highest exploration level, which often ends long before the limit."""
    vroom: Any = importlib.import_module("vroom")
    problem = vroom.Input()
    problem.set_durations_matrix("car", integer_distances(instance, LARGEST, EXTENT).astype(np.uint32))
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


def lkh(instance: Instance, budget: Budget) -> Routes | None:
    """Return the best tour of LKH (elkai), which counts runs: one, then as many as fit into the rest of the limit."""
    elkai: Any = importlib.import_module("elkai")
    problem = elkai.DistanceMatrix(integer_distances(instance, LARGEST, EXTENT).tolist())
    begin = time.perf_counter()
    tours = [problem.solve_tsp(1)[:-1]]
    runs = int(0.9 * budget.left() / (time.perf_counter() - begin))
    if runs >= 2:
        tours.append(problem.solve_tsp(runs)[:-1])
    length = [float(instance.distances(tour, np.roll(tour, -1)).sum()) for tour in tours]
    return [tours[int(np.argmin(length))]]


def fast_tsp(instance: Instance, budget: Budget, candidates: str = "auto") -> Routes | None:
    """Return the tour of fast_tsp, an iterated Lin-Kernighan, after all of the budget's time."""
    until = time.perf_counter() + budget.left()
    return [fast_tsp_tour(instance, until, budget.threads, candidates, stop_when_converged=False)]
