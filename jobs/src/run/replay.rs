//! Finds answers of a finished or interrupted run in its journal, for transcripts without its models.
//!
//! Keys need only the fingerprints of services, and the run's record has those.

use crate::error::JobError;
use crate::run::open::OpenRun;
use crate::services::ServiceEntry;
use crate::services::key::{ServiceIdentity, key_of_first_draws, key_under};
use crate::services::record::AnswerRecord;
use crate::services::replies::own_response;
use hopeval_methods::{Request, Response};
use hopeval_operators::RequestKey;
use hopeval_results::{Journal, Log, layout};
use std::collections::BTreeMap;

/// The journalled answers of a run's services.
pub struct JournalledAnswers {
    journal: Journal,
    /// Kinds and fingerprints of the services.
    services: BTreeMap<String, (&'static str, [u8; 32])>,
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
        let entries = &run.resolved.job.service;
        let parsed = |(name, hex): (&String, &String)| {
            let kind = entries.get(name).map_or("", ServiceEntry::kind);
            Some((name.clone(), (kind, *blake3::Hash::from_hex(hex).ok()?.as_bytes())))
        };
        Ok(Self { journal, services: run.resolved.services.iter().filter_map(parsed).collect() })
    }

    /// The answer to a request, if it is known and satisfies the request.
    pub fn answer(&self, request: &Request) -> Option<Response> {
        let found = self.services.get(request.service.0.as_ref());
        let service = found.map(|(kind, fingerprint)| ServiceIdentity { kind, fingerprint });
        let locate = |key: RequestKey| self.journal.locate(&hopeval_results::JournalKey(key.0));
        let payload = &mut Vec::new();
        // Runs of before have drawn texts under a key without the version of the draws.
        let location = locate(key_under(service, request, payload))
            .or_else(|| locate(key_of_first_draws(service?, request, payload)))?;
        let bytes = self.journal.read(&[location]).pop()?.ok()?;
        let response = AnswerRecord::from_bytes(&bytes)?.response;
        response.satisfies(request).then(|| own_response(&response, request))
    }
}
