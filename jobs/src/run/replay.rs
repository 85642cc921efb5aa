//! Finds answers of a finished or interrupted run in its journal, for transcripts without its models.
//!
//! Keys need only the fingerprints of services, and the run's record has those.

use crate::error::JobError;
use crate::run::open::OpenRun;
use crate::services::key::key_under;
use crate::services::record::AnswerRecord;
use crate::services::replies::own_response;
use hopeval_methods::{Request, Response};
use hopeval_results::{Journal, Log, layout};
use std::collections::BTreeMap;

/// The journalled answers of a run's services.
pub struct JournalledAnswers {
    journal: Journal,
    fingerprints: BTreeMap<String, [u8; 32]>,
}

impl JournalledAnswers {
    /// Loads the keys of all answers visible to the run.
    ///
    /// # Errors
    /// The log or the journal cannot be read.
    pub fn open(run: &OpenRun) -> Result<Self, JobError> {
        let store = &run.places.store;
        let log = Log::open(store, run.id())?;
        let prefixes = [layout::JOURNAL.to_owned(), layout::run_journal(run.id())];
        let journal = Journal::open(store, &prefixes, &|_| true, &log.state().committed_segments())?;
        let parsed =
            |(name, hex): (&String, &String)| Some((name.clone(), *blake3::Hash::from_hex(hex).ok()?.as_bytes()));
        Ok(Self { journal, fingerprints: run.resolved.services.iter().filter_map(parsed).collect() })
    }

    /// The answer to a request, if it is known and satisfies the request.
    pub fn answer(&self, request: &Request) -> Option<Response> {
        let fingerprint = self.fingerprints.get(request.service.0.as_ref());
        let key = key_under(fingerprint, request, &mut Vec::new());
        let location = self.journal.locate(&hopeval_results::JournalKey(key.0))?;
        let bytes = self.journal.read(&[location]).pop()?.ok()?;
        let response = AnswerRecord::from_bytes(&bytes)?.response;
        response.satisfies(request).then(|| own_response(&response, request))
    }
}
