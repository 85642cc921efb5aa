//! Pins the canonical payload of every kind of request: the bytes that keys are made of.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[path = "../../../tests/support/golden.rs"]
mod golden;

use hopeval_methods::testing::every_request;
use hopeval_methods::{Request, RequestKind};
use std::collections::BTreeSet;

fn canonical(request: &Request) -> String {
    let mut bytes = Vec::new();
    request.append_canonical(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn payloads_are_those_of_the_golden_file() {
    golden::check("payloads", every_request().iter().map(|(name, request)| format!("{name} {}", canonical(request))));
}

#[test]
fn samples_have_every_kind_and_names_of_their_own() {
    let samples = every_request();
    let kinds: BTreeSet<RequestKind> = samples.iter().map(|(_, request)| request.ask.kind()).collect();
    assert_eq!(kinds, BTreeSet::from(RequestKind::ALL));
    let names: BTreeSet<&str> = samples.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), samples.len());
}

#[test]
fn payloads_are_appended() {
    let (_, request) = every_request().swap_remove(0);
    let mut bytes = b"before".to_vec();
    request.append_canonical(&mut bytes);
    assert_eq!(bytes, [b"before", canonical(&request).as_bytes()].concat());
}
