//! A query with its vector on the way to all workers, and the part of the ranking that each of them answers.

use hopeval_index::Hit;
use hopeval_methods::{Failure, ServiceName};
use hopeval_operators::scatter;
use serde::{Deserialize, Serialize};

/// Where one worker's queries set out.
pub type Inlet = scatter::Inlet<Query, Found>;

/// A query on its way to all workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Query {
    /// The service whose index is searched.
    pub service: ServiceName,
    /// The question's vector.
    pub vector: Vec<f32>,
    /// The most hits to return.
    pub k: usize,
    /// The passages to search; all where `None`.
    pub within: Option<Vec<u32>>,
}

/// What one worker's part has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The best of the part.
    pub ranking: Result<Vec<Hit>, Failure>,
    /// Its share of the microseconds that the part's search took.
    pub service_us: u64,
}
