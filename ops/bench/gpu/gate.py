"""Who may use the device now.

The rule: a command whose time or energy is measured has the device to itself. Nothing else of this call runs on it
meanwhile; what is not timed shares the device. Work of the CPU alone (an interpreter's imports, a checkpoint that is
read into memory) needs no leave and goes on beside timed work.
"""

import contextlib
import threading


class DeviceGate:
    """Lets in one that is alone, or any number beside each other. One that waits to be alone goes first."""

    def __init__(self):
        self.changed = threading.Condition()
        self.inside, self.waiting, self.taken = 0, 0, False

    @contextlib.contextmanager
    def alone(self):
        """For what is timed."""
        with self.changed:
            self.waiting += 1
            self.changed.wait_for(lambda: not self.inside and not self.taken)
            self.waiting, self.taken = self.waiting - 1, True
        try:
            yield
        finally:
            with self.changed:
                self.taken = False
                self.changed.notify_all()

    @contextlib.contextmanager
    def beside_others(self):
        """For what is not timed."""
        with self.changed:
            self.changed.wait_for(lambda: not self.waiting and not self.taken)
            self.inside += 1
        try:
            yield
        finally:
            with self.changed:
                self.inside -= 1
                self.changed.notify_all()

    def entered(self, timed):
        return self.alone() if timed else self.beside_others()
