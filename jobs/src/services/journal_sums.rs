//! Sums over the answers that a run has journalled: the work that was really done and, where it costs money, paid for.
//!
//! Commits say less: work since the last commit before a kill is in none. Caps and the costs of endpoints come from
//! here. Each answer counts once, whether its segment was merged with others or not; two answers to one request count
//! twice, as both were computed.

use super::record::AnswerRecord;
use hopeval_endpoint::SpentAmounts;
use hopeval_methods::AnswerWork;
use hopeval_results::journal::scan_run;
use hopeval_results::{JournalError, Store};
use std::collections::BTreeMap;

/// Sums over the answers of one service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerSums {
    /// Answers, failures included.
    pub answers: u64,
    /// Failures among them.
    pub failed: u64,
    /// Microseconds of service.
    pub service_us: u64,
    /// Tokens read, in prompts.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Tokens of scored targets.
    pub scored_tokens: u64,
    /// HTTP requests to endpoints.
    pub attempts: u64,
    /// Prompt tokens in an endpoint's cache.
    pub cached_prompt_tokens: u64,
    /// Written tokens that were reasoning.
    pub reasoning_tokens: u64,
    /// Answers of calls without a price.
    pub unpriced: u64,
    /// The sum of the prices of the others, in billionths of the currency's unit.
    pub money_nanos: u64,
}

impl AnswerSums {
    /// What an endpoint was paid for these answers.
    pub fn spent_amounts(&self) -> SpentAmounts {
        SpentAmounts {
            calls: self.attempts,
            tokens: self.prompt_tokens + self.completion_tokens,
            money_nanos: self.money_nanos,
        }
    }
}

/// A model of a service, as its endpoint names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AnsweringModel {
    /// The service.
    pub service: String,
    /// The model.
    pub model: String,
    /// The fingerprint of its system; empty if the endpoint gives none.
    pub fingerprint: String,
}

/// Sums over all answers of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalSums {
    /// By service, as named in the job.
    pub services: BTreeMap<String, AnswerSums>,
    /// The models that answered, with their systems' fingerprints, by the endpoints' own accounts; and their answers.
    pub models: BTreeMap<AnsweringModel, u64>,
    /// Damaged segments and values, and records of later versions: what they hold is in no sum.
    pub unreadable: u64,
}

impl JournalSums {
    /// Adds up the answers that `run` has journalled in `store`, in all of its generations, with ranged reads of its
    /// own segments. `see` is handed each record, for sums of its own.
    ///
    /// # Errors
    /// A segment of a later version, or an error of the store.
    pub fn read(store: &Store, run: &str, see: &mut dyn FnMut(&AnswerRecord)) -> Result<Self, JournalError> {
        let mut sums = Self::default();
        let damaged = scan_run(store, run, &mut |entry| {
            match AnswerRecord::from_bytes(&entry.value) {
                Some(record) => {
                    sums.add_record(&record);
                    see(&record);
                }
                None => sums.unreadable += 1,
            }
            Ok(())
        })?;
        sums.unreadable += damaged.len() as u64;
        Ok(sums)
    }

    fn add_record(&mut self, record: &AnswerRecord) {
        let sums = match self.services.get_mut(&record.service) {
            Some(sums) => sums,
            None => self.services.entry(record.service.clone()).or_default(),
        };
        let AnswerWork { prompt_tokens, completion_tokens, scored_tokens, .. } = record.response.work;
        sums.answers += 1;
        sums.failed += u64::from(record.response.result.is_err());
        sums.service_us += record.service_us;
        sums.prompt_tokens += prompt_tokens;
        sums.completion_tokens += completion_tokens;
        sums.scored_tokens += scored_tokens;
        let Some(facts) = &record.response.facts else { return };
        sums.attempts += u64::from(facts.attempts);
        sums.cached_prompt_tokens += facts.cached_prompt_tokens.unwrap_or(0);
        sums.reasoning_tokens += facts.reasoning_tokens.unwrap_or(0);
        match &facts.money {
            Some(money) => sums.money_nanos += money.nanos,
            None => sums.unpriced += 1,
        }
        if let Some(model) = &facts.model {
            let (service, model) = (record.service.clone(), model.clone());
            let fingerprint = facts.system_fingerprint.clone().unwrap_or_default();
            *self.models.entry(AnsweringModel { service, model, fingerprint }).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_methods::{Answer, FailureKind, RequestKind, Response};
    use hopeval_results::journal::{GRACE_MS, JournalEntry, JournalKey, MergingWriter, SegmentMerger, write_segment};
    use hopeval_results::layout;

    fn record(service: &str, n: u64) -> AnswerRecord {
        let mut response = Response::failure(FailureKind::TimedOut, "no answer in time");
        if !n.is_multiple_of(4) {
            response.result = Ok(Answer::Filter(format!("answer {n}")));
        }
        response.work = AnswerWork { prompt_tokens: 100 + n, completion_tokens: n, scored_tokens: 1, operations: 7 };
        AnswerRecord { service: service.to_owned(), kind: RequestKind::Generate, response, service_us: 10 }
    }

    fn write(store: &Store, folder: &str, run: &str, seq: u64, records: &[AnswerRecord]) -> (String, u64) {
        let entry = |(n, record): (usize, &AnswerRecord)| {
            let key = JournalKey(*blake3::hash(&[seq.to_le_bytes(), n.to_le_bytes()].concat()).as_bytes());
            JournalEntry { bucket: 7, key, bytes: record.to_bytes().into() }
        };
        let name = layout::segment_name(folder, 1_000 + seq, run, 1, 0, seq);
        let segment = write_segment(store, &name, records.iter().enumerate().map(entry).collect()).unwrap();
        (name, segment.bytes())
    }

    #[test]
    fn every_answer_of_the_run_counts_once_before_and_after_a_merge() {
        let store = Store::open("memory:").unwrap();
        let writer =
            |folder: &str| MergingWriter { folder: folder.to_owned(), run: "run".to_owned(), generation: 1, worker: 0 };
        let own = layout::run_journal("run");
        let mut mergers = [layout::JOURNAL, own.as_str()].map(|folder| {
            let mut merger = SegmentMerger::new(&store, writer(folder), None);
            for seq in 0..20 {
                let records: Vec<_> = (0..5).map(|n| record(if n < 2 { "cheap" } else { "dear" }, seq + n)).collect();
                let (name, bytes) = write(&store, folder, "run", seq, &records);
                merger.add_segment(&name, bytes);
            }
            merger
        });
        write(&store, layout::JOURNAL, "other", 3, &[record("dear", 1)]);
        write_segment(
            &store,
            &layout::segment_name(layout::JOURNAL, 9, "run", 1, 1, 0),
            vec![JournalEntry { bucket: 0, key: JournalKey([1; 32]), bytes: vec![250, 1].into() }],
        )
        .unwrap();
        let mut money = 0;
        let before = JournalSums::read(&store, "run", &mut |record| money += record.response.work.completion_tokens);
        let before = before.unwrap();
        let completion = |share: std::ops::Range<u64>| {
            2 * (0..20).map(|seq| share.clone().map(|n| seq + n).sum::<u64>()).sum::<u64>()
        };
        assert_eq!(before.unreadable, 1);
        assert_eq!(before.services.len(), 2);
        let (cheap, dear) = (before.services["cheap"], before.services["dear"]);
        assert_eq!((cheap.answers, dear.answers, dear.service_us), (80, 120, 1_200));
        assert_eq!((cheap.completion_tokens, dear.completion_tokens), (completion(0..2), completion(2..5)));
        assert_eq!((cheap.prompt_tokens, cheap.scored_tokens), (8_000 + completion(0..2), 80));
        assert_eq!(cheap.failed + dear.failed, 50);
        assert_eq!(money, completion(0..5), "the caller's own sum");
        for merger in &mut mergers {
            assert!(merger.merge_once(0).unwrap());
            assert_eq!(JournalSums::read(&store, "run", &mut |_| ()).unwrap(), before, "merged, and not removed yet");
            merger.delete_replaced(GRACE_MS).unwrap();
            assert_eq!(JournalSums::read(&store, "run", &mut |_| ()).unwrap(), before);
        }
    }
}
