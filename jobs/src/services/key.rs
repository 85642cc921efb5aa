//! The identity of a request, and its bucket.

use super::catalogue::Catalogue;
use hopeval_methods::request::{Affinity, PassageId, Sampling};
use hopeval_methods::{Request, RequestPayload};
use hopeval_operators::{BUCKETS, RequestKey};

/// The identity of a request: kind, fingerprint of its service, canonical payload, draw.
///
/// `payload` is scratch. An unknown service has no fingerprint; any worker refuses the request.
///
/// # Panics
/// If the catalogue is not probed.
pub fn request_key(request: &Request, catalogue: &Catalogue, payload: &mut Vec<u8>) -> RequestKey {
    let service = catalogue.info(&request.service).map(|info| {
        let fingerprint = info.fingerprint().expect("the catalogue is open; this is a bug");
        ServiceIdentity { kind: info.kind, fingerprint }
    });
    key_under(service, request, payload)
}

/// The part of a service in the keys of its requests.
#[derive(Clone, Copy)]
pub(crate) struct ServiceIdentity<'a> {
    /// Its kind, as the job names it.
    pub(crate) kind: &'a str,
    /// The hash of everything that can change an answer.
    pub(crate) fingerprint: &'a [u8; 32],
}

/// Version of what native models draw, in the keys of drawn texts alone. Version 1, without a name, drew all prompts by
/// the same random numbers.
const DRAWS: &[u8] = b"draws 2";

/// Whether a native model draws the answer. Without a temperature it takes the likeliest token.
fn draws_natively(service: ServiceIdentity<'_>, request: &Request) -> bool {
    let RequestPayload::Generate(asked) = &request.ask else { return false };
    service.kind == "lm" && matches!(asked.sampling, Sampling::Sample { temperature, .. } if temperature > 0.0)
}

/// [`request_key`], with the identity of the request's service.
pub(crate) fn key_under(service: Option<ServiceIdentity<'_>>, request: &Request, payload: &mut Vec<u8>) -> RequestKey {
    let drawn = service.is_some_and(|service| draws_natively(service, request));
    hash_request(service, if drawn { DRAWS } else { &[] }, request, payload)
}

/// The key that a text drawn by a native model had when draws had no version.
pub(crate) fn key_of_first_draws(service: ServiceIdentity<'_>, request: &Request, payload: &mut Vec<u8>) -> RequestKey {
    hash_request(Some(service), &[], request, payload)
}

fn hash_request(
    service: Option<ServiceIdentity<'_>>,
    draws: &[u8],
    request: &Request,
    payload: &mut Vec<u8>,
) -> RequestKey {
    payload.clear();
    request.append_canonical(payload);
    let mut hasher = blake3::Hasher::new();
    hasher.update(request.ask.kind().name().as_bytes());
    hasher.update(&[0]);
    match service {
        Some(service) => hasher.update(service.fingerprint),
        None => hasher.update(request.service.0.as_bytes()),
    };
    hasher.update(draws);
    hasher.update(&request.draw.to_le_bytes());
    hasher.update(payload);
    RequestKey(*hasher.finalize().as_bytes())
}

/// The bucket of all requests to services with one owner. Its worker is the first one of process 0, with any number
/// of workers.
const OWNERS_BUCKET: u16 = 0;

/// The bucket of a request: that of its service's owner, or by its first passage if requests for it should meet, else
/// by its key.
pub fn request_bucket(request: &Request, key: &RequestKey, catalogue: &Catalogue) -> u16 {
    if catalogue.info(&request.service).is_some_and(|info| info.has_one_owner) {
        return OWNERS_BUCKET;
    }
    match request.affinity() {
        Affinity::Key => key.bucket(),
        Affinity::Passage(PassageId(passage)) => {
            // Fibonacci hashing spreads neighbouring passages.
            (passage.wrapping_mul(0x9E37_79B9) >> 16) as u16 % BUCKETS
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_methods::Prompt;
    use hopeval_methods::request::{GeneratePayload, TextFormat};

    #[test]
    fn natively_drawn_texts_alone_have_the_version_of_draws() {
        let fingerprint = [7; 32];
        let keeps_key = |kind, sampling| {
            let asked = GeneratePayload {
                prompt: Prompt::text("a"),
                max_tokens: 5,
                stop: Vec::new(),
                sampling,
                format: TextFormat::Text,
                logprobs: false,
            };
            let request = Request::new(&"s".into(), asked);
            let service = ServiceIdentity { kind, fingerprint: &fingerprint };
            let payload = &mut Vec::new();
            key_under(Some(service), &request, payload) == key_of_first_draws(service, &request, payload)
        };
        let drawn = |temperature| Sampling::sample(temperature, 1.0, 0);
        assert!(!keeps_key("lm", drawn(0.8)), "these are drawn anew");
        for (kind, sampling) in [("lm", Sampling::Greedy), ("lm", drawn(0.0)), ("endpoint", drawn(0.8))] {
            assert!(keeps_key(kind, sampling), "{kind} answers as before");
        }
    }
}
