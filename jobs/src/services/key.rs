//! The identity of a request, and its bucket.

use super::catalogue::Catalogue;
use hopeval_methods::Request;
use hopeval_methods::request::{Affinity, PassageId};
use hopeval_operators::{BUCKETS, RequestKey};

/// The identity of a request: kind, fingerprint of its service, canonical payload, draw.
///
/// `payload` is scratch. An unknown service has no fingerprint; any worker refuses the request.
///
/// # Panics
/// If the catalogue is not probed.
pub fn request_key(request: &Request, catalogue: &Catalogue, payload: &mut Vec<u8>) -> RequestKey {
    let fingerprint =
        catalogue.info(&request.service).map(|info| info.fingerprint().expect("the catalogue is open; this is a bug"));
    key_under(fingerprint, request, payload)
}

/// [`request_key`], with the fingerprint of the request's service.
pub(crate) fn key_under(fingerprint: Option<&[u8; 32]>, request: &Request, payload: &mut Vec<u8>) -> RequestKey {
    payload.clear();
    request.append_canonical(payload);
    let mut hasher = blake3::Hasher::new();
    hasher.update(request.ask.kind().name().as_bytes());
    hasher.update(&[0]);
    match fingerprint {
        Some(fingerprint) => hasher.update(fingerprint),
        None => hasher.update(request.service.0.as_bytes()),
    };
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
