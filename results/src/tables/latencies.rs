//! The table `latencies`: how long each outcome took.

use super::row::row;

row! {
    table "latencies" at "runs/RUN/final/latencies.parquet" with 65536 rows in a group;
    /// How long each outcome took in this run. Measured, so no two runs have the same.
    pub struct LatencyRow {
        /// The configuration's name.
        pub configuration: String,
        /// The question's position in the dataset, from 0.
        pub index: u64,
        /// Critical path in seconds: for each round the longest of its requests' service times.
        pub service_s: f64,
        /// Waiting time in seconds of the requests on the critical path.
        pub queue_s: f64,
        /// From the first request to the outcome, in seconds.
        pub wall_s: f64,
        /// How the run was timed: `throughput` (questions in flight beside each other) or `latency` (one at a time, as
        /// for a single user); null in files of earlier versions.
        pub mode: Option<String>,
        /// Device time in seconds used by the outcome alone; null if no device was used, or if others shared it (mode
        /// `throughput`).
        pub device_s: Option<f64>,
    }
}
