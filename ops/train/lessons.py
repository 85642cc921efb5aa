"""What a writer's training shows of worlds: for each course its states."""

import pickle
from collections import Counter
from dataclasses import dataclass

import chains
import modules

# Raised whenever a course makes other states than before: a file of an older version is refused.
STATES_VERSION = 6
COURSES = {"chains": chains, "modules": modules}


@dataclass
class Lessons:
    """What a course shows of a world."""

    course: str
    reading: chains.Reading
    states: list

    def tasks(self):
        return sorted({state.task for state in self.states})


def evenly(questions):
    """Equally many questions of each number of gold passages, as many as the rarest number has: seven of eight have
    two, and long chains would hardly be taught. Of each number the first ones, in the world's order."""
    counts = Counter(len(question["gold"]) for question in questions)
    if not counts:
        raise SystemExit("a world has no questions")
    most, taken = min(counts.values()), Counter()
    kept = []
    for question in questions:
        size = len(question["gold"])
        taken[size] += 1
        if taken[size] <= most:
            kept.append(question)
    return kept


def read_lessons(courses, worlds, seed, kept):
    """The lessons of all courses over each of `worlds`; of the file `kept` if it is there, else put into it."""
    asked = [list(courses), [str(world) for world in worlds], seed, STATES_VERSION]
    if kept and kept.is_file():
        held, found = pickle.loads(kept.read_bytes())
        if held != asked:
            raise SystemExit(
                f"{kept} has the states of {held}, not of {asked} (courses, worlds, seed, version): name another file"
            )
        return found
    found = []
    for world in worlds:
        reading = chains.Reading(world)
        reading.world.questions = evenly(reading.world.questions)
        found.append([Lessons(course, reading, COURSES[course].states(reading, seed)) for course in courses])
        reading.index = None  # examples do not search
    if kept:
        kept.write_bytes(pickle.dumps((asked, found)))
    return found
