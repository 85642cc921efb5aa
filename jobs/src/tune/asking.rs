//! Asks services outside of a run, and keeps their answers in the store's journal as a run would.

use crate::clock::now_ms;
use crate::error::JobError;
use crate::services::catalogue::Catalogue;
use crate::services::key::{request_bucket, request_key};
use crate::services::record::AnswerRecord;
use hopeval_methods::{Request, RequestKind, Response};
use hopeval_results::journal::write_segment;
use hopeval_results::{Journal, JournalEntry, Store, layout};
use std::collections::BTreeSet;
use std::time::Instant;

/// Requests answered and journalled at once.
const BATCH: usize = 64;

/// Threads waiting for the model, and so the most requests in one of its batches.
const ASKERS: usize = 16;

/// Answers requests outside a run as a run would: from the journal, or computed and journalled.
pub(super) struct JournalledAsker<'a> {
    store: &'a Store,
    journal: Journal,
    author: String,
    segments: u64,
    /// Requests without an answer in the journal.
    pub(super) computed: u64,
}

impl<'a> JournalledAsker<'a> {
    pub(super) fn open(store: &'a Store) -> Result<Self, JobError> {
        let journal = Journal::open(store, &[layout::JOURNAL.to_owned()], &|_| true, &BTreeSet::new())?;
        let origin = format!("{} {:?}", std::process::id(), Instant::now());
        let author = format!("tune-{}", &blake3::hash(origin.as_bytes()).to_hex()[..8]);
        Ok(Self { store, journal, author, segments: 0, computed: 0 })
    }

    /// The answers, in the order of the requests.
    ///
    /// # Errors
    /// The journal's store. A model's failure is a response.
    pub(super) fn answer(&mut self, catalogue: &Catalogue, requests: Vec<Request>) -> Result<Vec<Response>, JobError> {
        let mut responses = Vec::with_capacity(requests.len());
        for batch in requests.chunks(BATCH) {
            responses.extend(self.answer_batch(catalogue, batch)?);
        }
        Ok(responses)
    }

    fn answer_batch(&mut self, catalogue: &Catalogue, batch: &[Request]) -> Result<Vec<Response>, JobError> {
        let mut payload = Vec::new();
        let keys: Vec<_> = batch.iter().map(|request| request_key(request, catalogue, &mut payload)).collect();
        let mut found: Vec<Option<Response>> = Vec::with_capacity(batch.len());
        for (request, key) in batch.iter().zip(&keys) {
            let location = self.journal.locate(&hopeval_results::JournalKey(key.0));
            let bytes = location.and_then(|location| self.journal.read(&[location]).pop()?.ok());
            let response = bytes.and_then(|bytes| AnswerRecord::from_bytes(&bytes)).map(|record| record.response);
            found.push(response.filter(|response| response.satisfies(request)));
        }
        let missing: Vec<usize> = (0..batch.len()).filter(|&n| found[n].is_none()).collect();
        let mut entries = Vec::new();
        for (n, (response, service_us)) in missing.iter().zip(ask_all(catalogue, batch, &missing)) {
            let request = &batch[*n];
            if response.is_for_all_runs(RequestKind::Generate) {
                let record = AnswerRecord {
                    service: request.service.to_string(),
                    kind: RequestKind::Generate,
                    response: response.clone(),
                    service_us,
                };
                let bucket = request_bucket(request, &keys[*n], catalogue);
                let key = hopeval_results::JournalKey(keys[*n].0);
                entries.push(JournalEntry { bucket, key, bytes: record.to_bytes().into() });
            }
            found[*n] = Some(response);
        }
        self.computed += missing.len() as u64;
        if !entries.is_empty() {
            let created_ms = now_ms().max(self.journal.latest_ms().saturating_add(1));
            let name = layout::segment_name(layout::JOURNAL, created_ms, &self.author, 0, 0, self.segments);
            self.segments += 1;
            self.journal.add_segment(&write_segment(self.store, &name, entries)?);
        }
        Ok(found.into_iter().map(|response| response.expect("asked for where it was missing; this is a bug")).collect())
    }
}

/// Asks the services for some requests of a batch, several at once, so that the model can batch them. Returns the
/// answers in order, each with its time in microseconds.
fn ask_all(catalogue: &Catalogue, batch: &[Request], missing: &[usize]) -> Vec<(Response, u64)> {
    let ask = |request: &Request| {
        let begun = Instant::now();
        let response = catalogue.answer(request);
        (response, u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX))
    };
    let asker = |share: &[usize]| share.iter().map(|&n| ask(&batch[n])).collect::<Vec<_>>();
    let share = missing.len().div_ceil(ASKERS).max(1);
    std::thread::scope(|scope| {
        let askers: Vec<_> = missing.chunks(share).map(|share| scope.spawn(move || asker(share))).collect();
        let answered = askers.into_iter().map(|asker| asker.join().expect("an asker does not panic; this is a bug"));
        answered.flatten().collect()
    })
}
