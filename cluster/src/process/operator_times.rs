//! The log's line with the seconds of each operator of a worker.
//!
//! `RUST_LOG=hopeval::process::operator_times=debug` asks for it. The time is that of the clock: an operator has the
//! time, too, in which other threads had its core.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;
use timely::logging::{StartStop, TimelyEvent, TimelyEventBuilder};
use timely::worker::Worker;

/// The times of one worker's operators, while it runs.
pub(super) struct OperatorTimes(Rc<RefCell<RunningOperators>>);

/// The operators of a worker, and those that run now.
#[derive(Default)]
struct RunningOperators {
    names: HashMap<usize, String>,
    /// By number, without the operators within.
    spent: HashMap<usize, Duration>,
    /// The operators that run, the outermost first.
    running: Vec<usize>,
    /// The time of the last event.
    since: Duration,
}

impl OperatorTimes {
    /// Watches the operators of all dataflows that are built from now on, if the log wants their times.
    pub(super) fn watch(worker: &Worker) -> Option<Self> {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return None;
        }
        let times = Rc::new(RefCell::new(RunningOperators::default()));
        let watched = Rc::clone(&times);
        worker.log_register()?.insert::<TimelyEventBuilder, _>("timely", move |_, events| {
            let mut times = watched.borrow_mut();
            events.take().into_iter().flatten().for_each(|(time, event)| times.take_event(time, event));
        });
        Some(Self(times))
    }

    /// Writes the times into the log, when the worker has ended its dataflows.
    pub(super) fn log(self, worker: &Worker) {
        if let Some(mut register) = worker.log_register() {
            register.flush();
        }
        let operators = self.0.borrow();
        let times: Vec<String> = operators.by_name().iter().map(|(name, time)| format!("{name} {time:.3}")).collect();
        tracing::debug!("operators of worker {}, in seconds: {}", worker.index(), times.join(", "));
    }
}

impl RunningOperators {
    fn take_event(&mut self, time: Duration, event: TimelyEvent) {
        match event {
            TimelyEvent::Operates(operator) => {
                self.names.insert(operator.id, operator.name);
            }
            TimelyEvent::Schedule(schedule) => {
                if let Some(running) = self.running.last() {
                    *self.spent.entry(*running).or_default() += time.saturating_sub(self.since);
                }
                self.since = time;
                match schedule.start_stop {
                    StartStop::Start => self.running.push(schedule.id),
                    StartStop::Stop => {
                        self.running.pop();
                    }
                }
            }
            _ => {}
        }
    }

    /// The seconds of the operators of each name.
    fn by_name(&self) -> BTreeMap<&str, f64> {
        let mut times = BTreeMap::new();
        for (number, spent) in &self.spent {
            let name = self.names.get(number).map_or("unnamed", String::as_str);
            *times.entry(name).or_default() += spent.as_secs_f64();
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timely::logging::{OperatesEvent, ScheduleEvent};

    #[test]
    fn an_operators_time_is_without_those_within() {
        let mut times = RunningOperators::default();
        for (id, name) in [(0, "Dataflow"), (1, "drive"), (2, "drive")] {
            let operates = OperatesEvent { id, addr: vec![id], name: name.to_owned() };
            times.take_event(Duration::ZERO, TimelyEvent::Operates(operates));
        }
        let starts = |id| TimelyEvent::Schedule(ScheduleEvent::start(id));
        let stops = |id| TimelyEvent::Schedule(ScheduleEvent::stop(id));
        let events = [(1, starts(0)), (3, starts(1)), (7, stops(1)), (8, starts(2)), (9, stops(2)), (12, stops(0))];
        for (second, event) in events {
            times.take_event(Duration::from_secs(second), event);
        }
        // Nothing runs between two steps.
        times.take_event(Duration::from_secs(50), starts(1));
        times.take_event(Duration::from_secs(51), stops(1));
        assert_eq!(times.by_name(), BTreeMap::from([("Dataflow", 6.0), ("drive", 6.0)]));
    }
}
