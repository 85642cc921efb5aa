//! The journal's records of answered requests: compact, and exact to the bit.
//!
//! ```text
//!   version u8 = 1, service, kind u8, service_us, work (4 numbers), prompt report or 0, answer
//!   answer     tag u8, then by kind; rare answers and answers of mostly text as JSON
//! ```
//!
//! Whole numbers are LEB128, texts and lists begin with their length, floats are their little-endian bytes: a journal
//! has millions of rows of logits, and some logits (of impossible tokens) are not JSON numbers. The first versions
//! wrote JSON; such records begin with a brace and are still read.
//!
//! All numbers and names below are stored, so they never come from a Rust identifier or the order of a list. Values to
//! be written are destructured without `..`: a new field or variant does not compile until this file decides its stored
//! form. The names in the JSON of the first versions are those of [`AnswerRecord`] and its fields; `tests/golden` has
//! records of every kind.

use super::served::ServedResponse;
use hopeval_methods::request::PassageId;
use hopeval_methods::response::{AnswerSpan, ChunkLabels, FinishReason, Generation, RetrievalHit, TargetScores};
use hopeval_methods::{Answer, AnswerWork, Failure, FailureKind, PromptReport, RequestKind, Response};
use serde::{Deserialize, Serialize};

/// The journal's record of an answered request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// The service that answered.
    pub service: String,
    /// The kind of request.
    pub kind: RequestKind,
    /// The response.
    pub response: Response,
    /// Microseconds of service.
    pub service_us: u64,
}

/// The version of new records. In version 1 only prompts of scores and generations had a whole report.
const VERSION: u8 = 2;

/// The written forms of answers.
mod tag {
    pub(super) const FAILURE: u8 = 0;
    pub(super) const SCORE: u8 = 1;
    pub(super) const EMBED: u8 = 2;
    pub(super) const RETRIEVE: u8 = 3;
    pub(super) const LABEL: u8 = 4;
    pub(super) const FILTER: u8 = 5;
    pub(super) const GENERATE: u8 = 6;
    pub(super) const JSON: u8 = 7;
}

/// The stored number of a kind of request.
fn kind_number(kind: RequestKind) -> u8 {
    match kind {
        RequestKind::Retrieve => 0,
        RequestKind::Passages => 1,
        RequestKind::Links => 2,
        RequestKind::Score => 3,
        RequestKind::Label => 4,
        RequestKind::Filter => 5,
        RequestKind::Rerank => 6,
        RequestKind::Entail => 7,
        RequestKind::Read => 8,
        RequestKind::Embed => 9,
        RequestKind::Generate => 10,
    }
}

/// The stored number of a kind of failure.
fn failure_number(kind: FailureKind) -> u8 {
    match kind {
        FailureKind::Refused => 0,
        FailureKind::ContextOverflow => 1,
        FailureKind::ParseFailure => 2,
        FailureKind::TimedOut => 3,
        FailureKind::Unavailable => 4,
        FailureKind::DeviceLost => 5,
        FailureKind::Dropped => 6,
    }
}

/// An answer written as JSON, under names of its own.
#[derive(Serialize, Deserialize)]
enum JsonAnswer {
    #[serde(rename = "Passages")]
    Passages(Vec<u32>),
    #[serde(rename = "Links")]
    Links(Vec<u32>),
    #[serde(rename = "Rerank")]
    Rerank(Vec<f64>),
    #[serde(rename = "Entail")]
    Entail(f64),
    #[serde(rename = "Read")]
    Read(Vec<JsonSpan>),
}

/// A span of such an answer.
#[derive(Serialize, Deserialize)]
struct JsonSpan {
    #[serde(rename = "text")]
    text: String,
    #[serde(rename = "score")]
    score: f64,
    #[serde(rename = "rank")]
    rank: Option<f64>,
    #[serde(rename = "at")]
    at: Option<(u32, u32, u32)>,
}

impl From<&AnswerSpan> for JsonSpan {
    fn from(span: &AnswerSpan) -> Self {
        let AnswerSpan { text, score, rank, at } = span;
        Self { text: text.clone(), score: *score, rank: *rank, at: *at }
    }
}

impl From<JsonSpan> for AnswerSpan {
    fn from(JsonSpan { text, score, rank, at }: JsonSpan) -> Self {
        Self { text, score, rank, at }
    }
}

impl From<JsonAnswer> for Answer {
    fn from(answer: JsonAnswer) -> Self {
        let passages = |ids: Vec<u32>| ids.into_iter().map(PassageId).collect();
        match answer {
            JsonAnswer::Passages(ids) => Self::Passages(passages(ids)),
            JsonAnswer::Links(ids) => Self::Links(passages(ids)),
            JsonAnswer::Rerank(scores) => Self::Rerank(scores),
            JsonAnswer::Entail(probability) => Self::Entail(probability),
            JsonAnswer::Read(spans) => Self::Read(spans.into_iter().map(AnswerSpan::from).collect()),
        }
    }
}

impl AnswerRecord {
    /// The bytes for the journal.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { service, kind, response: Response { result, work, prompt, passages: _ }, service_us } = self;
        let mut to = RecordEncoder(vec![VERSION]);
        to.text(service);
        to.0.push(kind_number(*kind));
        to.number(*service_us);
        let AnswerWork { prompt_tokens, completion_tokens, scored_tokens, operations } = *work;
        for n in [prompt_tokens, completion_tokens, scored_tokens, operations] {
            to.number(n);
        }
        to.0.push(u8::from(prompt.is_some()));
        if let Some(PromptReport { tokens, dropped, cut }) = prompt {
            to.number((*tokens).into());
            to.number(dropped.len() as u64);
            dropped.iter().for_each(|&part| to.number(part.into()));
            to.number(cut.len() as u64);
            cut.iter().for_each(|&(part, lost)| {
                to.number(part.into());
                to.number(lost.into());
            });
        }
        match result {
            Err(failure) => to.failure(failure),
            Ok(answer) => to.answer(answer),
        }
        to.0
    }

    /// Corrects a record of the first version after reading: removes prompt reports that were incomplete.
    fn of_first_version(mut self) -> Self {
        if !matches!(self.kind, RequestKind::Score | RequestKind::Generate) {
            self.response.prompt = None;
        }
        self
    }

    /// Reads journalled bytes; `None` for bytes unknown to this version.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = match bytes.split_first()? {
            (b'{', _) => {
                let record: Self = serde_json::from_slice(bytes).ok()?;
                return Some(record.of_first_version());
            }
            (1 | &VERSION, rest) => RecordDecoder(rest),
            _ => return None,
        };
        let service = from.text()?;
        let number = from.byte()?;
        let kind = RequestKind::ALL.into_iter().find(|&kind| kind_number(kind) == number)?;
        let service_us = from.number()?;
        let work = AnswerWork {
            prompt_tokens: from.number()?,
            completion_tokens: from.number()?,
            scored_tokens: from.number()?,
            operations: from.number()?,
        };
        let prompt = match from.byte()? {
            0 => None,
            _ => Some(PromptReport {
                tokens: from.read_u32()?,
                dropped: from.list(RecordDecoder::read_u32)?,
                cut: from.list(|from| Some((from.read_u32()?, from.read_u32()?)))?,
            }),
        };
        let result = from.result()?;
        let response = Response { result, work, prompt, passages: Vec::new() };
        let record = Self { service, kind, response, service_us };
        let is_first = bytes[0] != VERSION;
        from.0.is_empty().then(|| if is_first { record.of_first_version() } else { record })
    }

    /// The response, to be served again.
    pub fn into_served(self) -> ServedResponse {
        ServedResponse { response: self.response, queue_us: 0, service_us: self.service_us, device_us: 0, cached: true }
    }
}

struct RecordEncoder(Vec<u8>);

impl RecordEncoder {
    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn floats(&mut self, floats: &[f32]) {
        self.number(floats.len() as u64);
        self.0.extend(floats.iter().flat_map(|x| x.to_le_bytes()));
    }

    fn failure(&mut self, Failure { kind, message }: &Failure) {
        self.0.extend([tag::FAILURE, failure_number(*kind)]);
        self.text(message);
    }

    fn json(&mut self, answer: &JsonAnswer) {
        self.0.push(tag::JSON);
        self.bytes(&serde_json::to_vec(answer).expect("plain data can be written as JSON; this is a bug"));
    }

    fn answer(&mut self, answer: &Answer) {
        match answer {
            Answer::Score(TargetScores { logits, log_sum_exps, ends }) => {
                self.0.extend([tag::SCORE, u8::from(*ends)]);
                self.floats(logits);
                self.number(log_sum_exps.len() as u64);
                for (temperature, row) in log_sum_exps {
                    self.0.extend(temperature.to_le_bytes());
                    self.floats(row);
                }
            }
            Answer::Embed(vector) => {
                self.0.push(tag::EMBED);
                self.floats(vector);
            }
            Answer::Retrieve(hits) => {
                self.0.push(tag::RETRIEVE);
                self.number(hits.len() as u64);
                for RetrievalHit { passage, score } in hits {
                    self.number(passage.0.into());
                    self.0.extend(score.to_le_bytes());
                }
            }
            Answer::Label(ChunkLabels { information, tag_logits }) => {
                self.0.push(tag::LABEL);
                self.text(information);
                self.floats(tag_logits);
            }
            Answer::Filter(query) => {
                self.0.push(tag::FILTER);
                self.text(query);
            }
            Answer::Generate(Generation { text, finish, logprobs }) => {
                let finish = match finish {
                    FinishReason::Stop => 0,
                    FinishReason::Length => 1,
                };
                self.0.extend([tag::GENERATE, finish]);
                self.text(text);
                self.floats(logprobs);
            }
            Answer::Passages(passages) => self.json(&JsonAnswer::Passages(passage_numbers(passages))),
            Answer::Links(passages) => self.json(&JsonAnswer::Links(passage_numbers(passages))),
            Answer::Rerank(scores) => self.json(&JsonAnswer::Rerank(scores.clone())),
            Answer::Entail(probability) => self.json(&JsonAnswer::Entail(*probability)),
            Answer::Read(spans) => self.json(&JsonAnswer::Read(spans.iter().map(JsonSpan::from).collect())),
        }
    }
}

fn passage_numbers(passages: &[PassageId]) -> Vec<u32> {
    passages.iter().map(|passage| passage.0).collect()
}

/// The bytes left to read. Every method returns `None` for malformed bytes.
struct RecordDecoder<'a>(&'a [u8]);

impl<'a> RecordDecoder<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn number(&mut self) -> Option<u64> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    fn read_u32(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.number()?;
        (0..length).map(|_| item(self)).collect()
    }

    fn floats(&mut self) -> Option<Vec<f32>> {
        let bytes = usize::try_from(self.number()?).ok()?.checked_mul(4)?;
        let chunks = self.take(bytes)?.chunks_exact(4);
        Some(chunks.map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect())
    }

    fn read_f64(&mut self) -> Option<f64> {
        Some(f64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn result(&mut self) -> Option<Result<Answer, Failure>> {
        Some(Ok(match self.byte()? {
            tag::FAILURE => {
                let number = self.byte()?;
                let kind = FailureKind::ALL.into_iter().find(|&kind| failure_number(kind) == number)?;
                return Some(Err(Failure { kind, message: self.text()? }));
            }
            tag::SCORE => {
                let ends = self.byte()? != 0;
                let logits = self.floats()?;
                let log_sum_exps = self.list(|from| Some((from.read_f64()?, from.floats()?)))?;
                Answer::Score(TargetScores { logits, log_sum_exps, ends })
            }
            tag::EMBED => Answer::Embed(self.floats()?),
            tag::RETRIEVE => {
                Answer::Retrieve(self.list(|from| {
                    Some(RetrievalHit { passage: PassageId(from.read_u32()?), score: from.read_f64()? })
                })?)
            }
            tag::LABEL => Answer::Label(ChunkLabels { information: self.text()?, tag_logits: self.floats()? }),
            tag::FILTER => Answer::Filter(self.text()?),
            tag::GENERATE => {
                let finish = if self.byte()? == 0 { FinishReason::Stop } else { FinishReason::Length };
                Answer::Generate(Generation { text: self.text()?, finish, logprobs: self.floats()? })
            }
            tag::JSON => serde_json::from_slice::<JsonAnswer>(self.bytes()?).ok()?.into(),
            _ => return None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_methods::response::AnswerSpan;

    fn record(result: Result<Answer, Failure>) -> AnswerRecord {
        let work = AnswerWork { prompt_tokens: 300, completion_tokens: 0, scored_tokens: 7, operations: 1 << 40 };
        let prompt = Some(PromptReport { tokens: 300, dropped: vec![0, 200], cut: vec![(1, 70_000)] });
        let response = Response { result, work, prompt, passages: Vec::new() };
        AnswerRecord { service: "scorer".into(), kind: RequestKind::Score, response, service_us: 123_456 }
    }

    fn samples() -> Vec<AnswerRecord> {
        let scores = TargetScores {
            logits: vec![f32::NEG_INFINITY, -0.1, f32::MIN_POSITIVE, 1e-45, 0.1 + 0.2],
            log_sum_exps: vec![(1.0, vec![0.3; 5]), (1.4, vec![-7.5; 5])],
            ends: true,
        };
        let failure = Failure { kind: FailureKind::ContextOverflow, message: "700 tokens, and 600 fit".into() };
        let span = AnswerSpan { text: "né".into(), score: -0.1, rank: Some(0.7), at: Some((1, 2, 5)) };
        let generation = Generation { text: "yes".into(), finish: FinishReason::Length, logprobs: vec![-0.5] };
        let results = [
            Err(failure),
            Ok(Answer::Score(scores)),
            Ok(Answer::Embed(vec![0.1, -0.2])),
            Ok(Answer::Retrieve(vec![RetrievalHit { passage: PassageId(5_000_000), score: 12.3 }])),
            Ok(Answer::Label(ChunkLabels { information: "born in".into(), tag_logits: vec![1.5, -2.5] })),
            Ok(Answer::Filter(String::new())),
            Ok(Answer::Generate(generation)),
            Ok(Answer::Rerank(vec![0.25, -1.0])),
            Ok(Answer::Entail(0.75)),
            Ok(Answer::Read(vec![span])),
            Ok(Answer::Passages(vec![PassageId(3)])),
            Ok(Answer::Links(Vec::new())),
        ];
        let bare = Response::answer(Answer::Filter("next".into()), AnswerWork::default());
        let bare = AnswerRecord { service: "filter".into(), kind: RequestKind::Filter, response: bare, service_us: 0 };
        results.map(record).into_iter().chain([bare]).collect()
    }

    #[test]
    fn what_is_written_is_read_to_the_bit() {
        for record in samples() {
            let bytes = record.to_bytes();
            assert_eq!(AnswerRecord::from_bytes(&bytes).as_ref(), Some(&record));
            for end in 0..bytes.len() {
                assert_eq!(AnswerRecord::from_bytes(&bytes[..end]), None, "cut at {end} of {}", bytes.len());
            }
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(AnswerRecord::from_bytes(&longer), None);
        }
    }

    #[test]
    fn a_row_of_logits_takes_four_bytes_a_number() {
        let scores = TargetScores { logits: vec![0.5; 20], log_sum_exps: vec![(1.0, vec![1.5; 20])], ends: true };
        let bytes = record(Ok(Answer::Score(scores))).to_bytes();
        assert!(bytes.len() < 2 * 80 + 60, "{}", bytes.len());
    }

    /// Reports of the first version do not mention the lost tokens of questions and chunks.
    #[test]
    fn first_versions_do_not_know_what_texts_lost() {
        for (kind, is_known) in [
            (RequestKind::Score, true),
            (RequestKind::Generate, true),
            (RequestKind::Read, false),
            (RequestKind::Label, false),
        ] {
            let now = AnswerRecord { kind, ..samples().swap_remove(0) };
            let mut bytes = now.to_bytes();
            bytes[0] = 1;
            let first = AnswerRecord::from_bytes(&bytes).unwrap();
            assert_eq!((first.response.is_cut().is_some(), now.response.is_cut()), (is_known, Some(true)), "{kind:?}");
            assert_eq!((first.service, first.response.result), (now.service, now.response.result));
        }
    }

    #[test]
    fn the_first_records_were_json_and_are_still_read() {
        let record = &samples()[3];
        assert_eq!(AnswerRecord::from_bytes(&serde_json::to_vec(record).unwrap()).as_ref(), Some(record));
        let written = r#"{"service":"sparse","kind":"retrieve",
            "response":{"result":{"Ok":{"Retrieve":[{"passage":4,"score":1.5}]}},
            "work":{"prompt_tokens":0,"completion_tokens":0,"scored_tokens":0,"operations":0},
            "prompt":null,"passages":[]},"service_us":9}"#;
        let read = AnswerRecord::from_bytes(written.as_bytes()).unwrap();
        assert_eq!((read.service.as_str(), read.kind, read.service_us), ("sparse", RequestKind::Retrieve, 9));
        assert_eq!(AnswerRecord::from_bytes(b"\x03"), None, "a later version's");
    }
}
