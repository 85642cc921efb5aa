//! The metrics of a run in one process: the operators' counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hopeval_operators::OperatorCounters;

use super::Metric;

/// Metrics of `counters`, and the version of the binary.
pub fn of_run(counters: &Arc<OperatorCounters>) -> Vec<Metric> {
    let counter = |name: &str, help: &str, pick: fn(&OperatorCounters) -> &AtomicU64| {
        let counters = Arc::clone(counters);
        Metric::counter(name, help, move || load(pick(&counters)))
    };
    let in_flight = {
        let counters = Arc::clone(counters);
        // Finished is read first: a question admitted and finished between the two reads must not count as negative.
        move || {
            let finished = load(&counters.finished);
            load(&counters.admitted) - finished
        }
    };
    vec![
        counter("hopeval_questions_admitted_total", "Questions admitted to the dataflow.", |c| &c.admitted),
        counter("hopeval_questions_finished_total", "Questions whose configurations are all done.", |c| &c.finished),
        Metric::gauge("hopeval_questions_in_flight", "Questions admitted and not finished.", in_flight),
        counter("hopeval_outcomes_total", "Outcomes: one question under one configuration.", |c| &c.outcomes),
        counter("hopeval_requests_asked_total", "Requests that methods made.", |c| &c.asked),
        counter("hopeval_requests_sent_total", "Requests sent to a service, equal ones once.", |c| &c.sent),
        counter("hopeval_requests_served_total", "Replies that services gave.", |c| &c.served),
        counter("hopeval_worker_steps_total", "Steps of the workers of this process.", |c| &c.beats),
        Metric::gauge("hopeval_build_info", "Always 1; the labels say which binary this is.", || 1.0)
            .label("version", env!("CARGO_PKG_VERSION")),
    ]
}

fn load(counter: &AtomicU64) -> f64 {
    // Exact up to 2^53, beyond the counts of any run.
    counter.load(Ordering::Relaxed) as f64
}
