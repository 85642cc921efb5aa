//! Pins the keys and the buckets of every kind of request.

use super::tiny::{METHOD, Tiny};
use crate::golden;
use hopeval_jobs::services::key::{request_bucket, request_key};
use hopeval_methods::testing::every_request;
use hopeval_methods::{Request, ServiceName};

/// For an unknown service the key hashes the service's name, else the fingerprint.
#[test]
fn keys_are_those_of_the_golden_file() {
    let tiny = Tiny::new();
    let catalogue = tiny.catalogue(&tiny.job(&format!("[service.sparse]\nkind = \"bm25\"\n{METHOD}")));
    let mut payload = Vec::new();
    let mut lines = Vec::new();
    for service in ["none", "sparse", "corpus"] {
        for (name, request) in every_request() {
            let request = Request { service: ServiceName::from(service), ..request };
            let key = request_key(&request, &catalogue, &mut payload);
            let hex = hopeval_results::JournalKey(key.0);
            lines.push(format!("{service} {name} {hex} {}", request_bucket(&request, &key, &catalogue)));
        }
    }
    golden::check("keys", lines);
}
