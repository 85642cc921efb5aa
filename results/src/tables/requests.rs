//! The table `requests`: the journal's view of a run.

use super::row::row;

row! {
    table "requests" at "runs/RUN/final/requests.parquet" with 65536 rows in a group;
    /// Answered requests in the journal segments of a run's commits.
    pub struct RequestRow {
        /// The run.
        pub run: String,
        /// The answering service.
        pub service: String,
        /// The kind of request.
        pub kind: String,
        /// The request's content address, in hexadecimal.
        pub key: String,
        /// The bucket of its route, 0 to 4095.
        pub bucket: u32,
        /// The segment in which the answer was first written. It may have been merged with others since.
        pub segment: String,
        /// Bytes of the answer in the segment.
        pub bytes: u64,
    }
}
