//! The endpoint against servers that play exact bytes: every cause of the table, outages, lone failures, limits,
//! replicas.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[path = "endpoint/answers.rs"]
mod answers;
#[path = "endpoint/causes.rs"]
mod causes;
#[path = "endpoint/given_up.rs"]
mod given_up;
#[path = "endpoint/limits.rs"]
mod limits;
#[path = "endpoint/outages.rs"]
mod outages;
#[path = "endpoint/probes.rs"]
mod probes;
#[path = "endpoint/retrieval.rs"]
mod retrieval;
#[path = "endpoint/scripted_server.rs"]
mod scripted_server;
#[path = "endpoint/watched_endpoint.rs"]
mod watched_endpoint;
