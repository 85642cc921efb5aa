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
        /// Time in seconds that the requests of the critical path waited.
        pub queue_s: f64,
        /// From the first request to the outcome, in seconds.
        pub wall_s: f64,
        /// How the run was timed: `throughput` (questions in flight beside each other) or `latency` (one at a time, as for a single user); null in files of earlier versions.
        pub mode: Option<String>,
        /// Time of devices in seconds that the outcome took by itself; null where no device was used, and where others shared it: in the mode `throughput`.
        pub device_s: Option<f64>,
    }
}
