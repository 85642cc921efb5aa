"""What a writer's training shows of worlds: for each course its states."""

import pickle
from dataclasses import dataclass

import chains
import modules

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
    """A world's questions, of those with two gold passages no more than others: it has seven of them for each other one,
    and a writer taught by all ends its chains after two sentences."""
    longer = sum(len(question["gold"]) > 2 for question in questions)
    kept, seen = [], 0
    for question in questions:
        seen += len(question["gold"]) <= 2
        if len(question["gold"]) > 2 or seen <= longer or not longer:
            kept.append(question)
    return kept


def read_lessons(courses, worlds, seed, kept):
    """The lessons of all courses over each of `worlds`; of the file `kept` if it is there, else put into it."""
    asked = [list(courses), [str(world) for world in worlds], seed]
    if kept and kept.is_file():
        held, found = pickle.loads(kept.read_bytes())
        if held != asked:
            raise SystemExit(f"{kept} has the states of {held}, not of {asked}: name another file")
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
