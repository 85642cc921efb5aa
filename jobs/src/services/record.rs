//! The journal's records of answered requests: compact, and exact to the bit.
//!
//! ```text
//!   version u8 = 2, service, kind u8, service_us, work (4 numbers), prompt report or 0, answer
//!   answer     tag u8, then by kind; rare answers and answers of mostly text as JSON
//!   version 3  the same, then the set of the following extras as a number, and each of them: facts of the call,
//!              tokens of the prompt's parts, stop string, reasoning; a failure for its run alone has no bytes
//! ```
//!
//! A record is written in version 3 only if it has something that version 2 lacks, so all others keep their bytes.
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
use hopeval_methods::{
    Answer, AnswerWork, CallFacts, Failure, FailureKind, MoneyAmount, PromptReport, RequestKind, Response,
};
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

/// The version of records without extras. In version 1 only prompts of scores and generations had a whole report.
const VERSION: u8 = 2;

/// The version of records with extras.
const EXTRA_VERSION: u8 = 3;

/// The stored bits of the extras; they follow the answer in this order.
mod extra {
    pub(super) const RUN_ONLY: u64 = 1;
    pub(super) const FACTS: u64 = 2;
    pub(super) const PART_TOKENS: u64 = 4;
    pub(super) const STOP: u64 = 8;
    pub(super) const REASONING: u64 = 16;
    /// All of these.
    pub(super) const KNOWN: u64 = 31;
}

/// The stored bits of facts. Numbers and texts that are known follow in this order.
mod fact {
    pub(super) const TOKENS_MEASURED: u64 = 1;
    pub(super) const CACHED_PROMPT_TOKENS: u64 = 2;
    pub(super) const REASONING_TOKENS: u64 = 4;
    pub(super) const MONEY: u64 = 8;
    pub(super) const MODEL: u64 = 16;
    pub(super) const SYSTEM_FINGERPRINT: u64 = 32;
    /// All of these.
    pub(super) const KNOWN: u64 = 63;
}

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

/// The journal's bytes of an answered request: those of its [`AnswerRecord`].
pub(crate) fn record_bytes(service: &str, kind: RequestKind, response: &Response, service_us: u64) -> Vec<u8> {
    let Response { result, work, facts: _, run_only: _, prompt, passages: _ } = response;
    let extras = RecordExtras::of_response(response);
    let mut to = RecordEncoder(vec![if extras.is_none() { VERSION } else { EXTRA_VERSION }]);
    to.text(service);
    to.0.push(kind_number(kind));
    to.number(service_us);
    let AnswerWork { prompt_tokens, completion_tokens, scored_tokens, operations } = *work;
    for n in [prompt_tokens, completion_tokens, scored_tokens, operations] {
        to.number(n);
    }
    to.0.push(u8::from(prompt.is_some()));
    if let Some(PromptReport { tokens, dropped, cut, part_tokens: _ }) = prompt {
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
    if !extras.is_none() {
        to.extras(&extras);
    }
    to.0
}

impl AnswerRecord {
    /// The bytes for the journal.
    pub fn to_bytes(&self) -> Vec<u8> {
        record_bytes(&self.service, self.kind, &self.response, self.service_us)
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
            (1 | &VERSION | &EXTRA_VERSION, rest) => RecordDecoder(rest),
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
                part_tokens: Vec::new(),
            }),
        };
        let result = from.result()?;
        let mut response = Response { result, work, facts: None, run_only: false, prompt, passages: Vec::new() };
        if bytes[0] == EXTRA_VERSION {
            from.read_extras(&mut response)?;
        }
        let record = Self { service, kind, response, service_us };
        from.0.is_empty().then(|| if bytes[0] == 1 { record.of_first_version() } else { record })
    }

    /// The response, to be served again.
    pub fn into_served(self) -> ServedResponse {
        let service_us = self.service_us;
        ServedResponse { service_us, cached: true, ..ServedResponse::without_times(self.response) }
    }
}

/// The parts of a response that version 2 lacks.
struct RecordExtras<'a> {
    run_only: bool,
    facts: Option<&'a CallFacts>,
    part_tokens: &'a [u32],
    stop: Option<&'a str>,
    reasoning: &'a str,
    /// Whether the answer itself has a number that version 2 lacks.
    is_filtered: bool,
}

impl<'a> RecordExtras<'a> {
    fn of_response(response: &'a Response) -> Self {
        let Response { result, work: _, facts, run_only, prompt, passages: _ } = response;
        let generation = match result {
            Ok(Answer::Generate(generation)) => Some(generation),
            _ => None,
        };
        Self {
            run_only: *run_only,
            facts: facts.as_deref(),
            part_tokens: prompt.as_ref().map_or(&[], |report| &report.part_tokens),
            stop: generation.and_then(|generation| generation.stop.as_deref()),
            reasoning: generation.map_or("", |generation| &generation.reasoning),
            is_filtered: generation.is_some_and(|generation| generation.finish == FinishReason::Filtered),
        }
    }

    /// The set of those to be written.
    fn bits(&self) -> u64 {
        bit_set([
            (extra::RUN_ONLY, self.run_only),
            (extra::FACTS, self.facts.is_some()),
            (extra::PART_TOKENS, !self.part_tokens.is_empty()),
            (extra::STOP, self.stop.is_some()),
            (extra::REASONING, !self.reasoning.is_empty()),
        ])
    }

    fn is_none(&self) -> bool {
        self.bits() == 0 && !self.is_filtered
    }
}

fn bit_set<const N: usize>(bits: [(u64, bool); N]) -> u64 {
    bits.iter().filter(|(_, is_set)| *is_set).map(|(bit, _)| bit).sum()
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

    fn extras(&mut self, extras: &RecordExtras<'_>) {
        self.number(extras.bits());
        if let Some(facts) = extras.facts {
            self.facts(facts);
        }
        if !extras.part_tokens.is_empty() {
            self.number(extras.part_tokens.len() as u64);
            extras.part_tokens.iter().for_each(|&tokens| self.number(tokens.into()));
        }
        if let Some(stop) = extras.stop {
            self.text(stop);
        }
        if !extras.reasoning.is_empty() {
            self.text(extras.reasoning);
        }
    }

    fn facts(&mut self, facts: &CallFacts) {
        let CallFacts { attempts, tokens_measured, cached_prompt_tokens, reasoning_tokens, money, .. } = facts;
        let CallFacts { model, system_fingerprint, .. } = facts;
        self.number((*attempts).into());
        self.number(bit_set([
            (fact::TOKENS_MEASURED, *tokens_measured),
            (fact::CACHED_PROMPT_TOKENS, cached_prompt_tokens.is_some()),
            (fact::REASONING_TOKENS, reasoning_tokens.is_some()),
            (fact::MONEY, money.is_some()),
            (fact::MODEL, model.is_some()),
            (fact::SYSTEM_FINGERPRINT, system_fingerprint.is_some()),
        ]));
        [cached_prompt_tokens, reasoning_tokens].into_iter().flatten().for_each(|&tokens| self.number(tokens));
        if let Some(MoneyAmount { nanos, currency }) = money {
            self.number(*nanos);
            self.text(currency);
        }
        [model, system_fingerprint].into_iter().flatten().for_each(|text| self.text(text));
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
            Answer::Generate(Generation { text, finish, stop: _, logprobs, reasoning: _ }) => {
                let finish = match finish {
                    FinishReason::Stop => 0,
                    FinishReason::Length => 1,
                    FinishReason::Filtered => 2,
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

    /// Adds the extras of version 3 to a response.
    fn read_extras(&mut self, response: &mut Response) -> Option<()> {
        let bits = self.number().filter(|bits| bits & !extra::KNOWN == 0)?;
        let has = |bit| bits & bit != 0;
        response.run_only = has(extra::RUN_ONLY);
        if has(extra::FACTS) {
            response.facts = Some(Box::new(self.facts()?));
        }
        if has(extra::PART_TOKENS) {
            response.prompt.as_mut()?.part_tokens = self.list(Self::read_u32)?;
        }
        let stop = if has(extra::STOP) { Some(self.text()?) } else { None };
        let reasoning = if has(extra::REASONING) { Some(self.text()?) } else { None };
        match &mut response.result {
            Ok(Answer::Generate(generation)) => {
                generation.stop = stop;
                generation.reasoning = reasoning.unwrap_or_default();
                Some(())
            }
            _ => (stop.is_none() && reasoning.is_none()).then_some(()),
        }
    }

    fn facts(&mut self) -> Option<CallFacts> {
        let attempts = self.read_u32()?;
        let bits = self.number().filter(|bits| bits & !fact::KNOWN == 0)?;
        let has = |bit| bits & bit != 0;
        let mut facts = CallFacts { attempts, tokens_measured: has(fact::TOKENS_MEASURED), ..CallFacts::default() };
        if has(fact::CACHED_PROMPT_TOKENS) {
            facts.cached_prompt_tokens = Some(self.number()?);
        }
        if has(fact::REASONING_TOKENS) {
            facts.reasoning_tokens = Some(self.number()?);
        }
        if has(fact::MONEY) {
            facts.money = Some(MoneyAmount { nanos: self.number()?, currency: self.text()? });
        }
        if has(fact::MODEL) {
            facts.model = Some(self.text()?);
        }
        if has(fact::SYSTEM_FINGERPRINT) {
            facts.system_fingerprint = Some(self.text()?);
        }
        Some(facts)
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
                let finish = match self.byte()? {
                    0 => FinishReason::Stop,
                    1 => FinishReason::Length,
                    2 => FinishReason::Filtered,
                    _ => return None,
                };
                let text = self.text()?;
                Answer::Generate(Generation { logprobs: self.floats()?, ..Generation::new(text, finish) })
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
        let cut = vec![(1, 70_000)];
        let prompt = Some(PromptReport { tokens: 300, dropped: vec![0, 200], cut, ..PromptReport::default() });
        let response = Response { result, work, facts: None, run_only: false, prompt, passages: Vec::new() };
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
        let generation = Generation { logprobs: vec![-0.5], ..Generation::new("yes", FinishReason::Length) };
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
        results.map(record).into_iter().chain([bare]).chain(extra_samples()).collect()
    }

    /// Records with each extra alone, and one with all.
    fn extra_samples() -> Vec<AnswerRecord> {
        let generation = || Generation::new("So", FinishReason::Stop);
        let money = Some(MoneyAmount { nanos: 1 << 40, currency: "EUR".into() });
        let facts = CallFacts {
            attempts: 300,
            tokens_measured: true,
            cached_prompt_tokens: Some(0),
            reasoning_tokens: Some(1 << 33),
            money,
            model: Some("m 1".into()),
            system_fingerprint: Some(String::new()),
        };
        let with_facts = |facts| {
            let mut record = record(Ok(Answer::Generate(generation())));
            record.response.facts = Some(Box::new(facts));
            record
        };
        let mut whole = with_facts(facts.clone());
        let all = Generation { stop: Some("\n".into()), reasoning: "first".into(), ..generation() };
        whole.response.result = Ok(Answer::Generate(all));
        if let Some(report) = &mut whole.response.prompt {
            report.part_tokens = vec![0, 300, 7];
        }
        let refused = Failure { kind: FailureKind::Refused, message: "too long".into() };
        let mut run_only = record(Err(refused));
        run_only.response.run_only = true;
        let results = [
            Generation { stop: Some(String::new()), ..generation() },
            Generation { reasoning: "first".into(), ..generation() },
            Generation { finish: FinishReason::Filtered, ..generation() },
        ];
        let mut records: Vec<AnswerRecord> =
            results.into_iter().map(|generation| record(Ok(Answer::Generate(generation)))).collect();
        records.extend([CallFacts::default(), CallFacts { money: None, ..facts }].map(with_facts));
        records.extend([whole, run_only]);
        records
    }

    #[test]
    fn only_records_with_extras_have_the_later_version() {
        let extras = extra_samples().len();
        let versions: Vec<u8> = samples().iter().map(|record| record.to_bytes()[0]).collect();
        let (plain, extra) = versions.split_at(versions.len() - extras);
        assert!(plain.iter().all(|&version| version == VERSION), "{plain:?}");
        assert!(extra.iter().all(|&version| version == EXTRA_VERSION), "{extra:?}");
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
        assert_eq!(AnswerRecord::from_bytes(b"\x04"), None, "a later version's");
    }
}
