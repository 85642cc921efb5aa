//! A query with its vector on the way to all workers, and each worker's part of the ranking.

use hopeval_index::Hit;
use hopeval_methods::{Failure, ServiceName};
use hopeval_operators::scatter;
use serde::{Deserialize, Serialize};

/// The entry of one worker's queries into the dataflow.
pub type QueryInlet = scatter::QuerySender<VectorQuery, PartResult>;

/// A query on its way to all workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VectorQuery {
    /// The service with the index.
    pub service: ServiceName,
    /// The question's vector.
    pub vector: Vec<f32>,
    /// The most hits to return.
    pub k: usize,
    /// The passages to search; all if `None`.
    pub within: Option<Vec<u32>>,
}

/// The result of searching one worker's part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartResult {
    /// The best hits of the part.
    pub ranking: Result<Vec<Hit>, Failure>,
    /// The query's share of the search time of the part, in microseconds.
    pub service_us: u64,
}
