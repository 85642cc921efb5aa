//! Writes the canonical payload of a request: JSON with names and order fixed here, by hand.
//!
//! Keys are hashes of these bytes, and answers are journalled under keys. If a payload changes, all answers under its
//! old key are computed, and billed, again. So no name comes from a Rust identifier, and every struct and enum is taken
//! apart without `..`: a new or renamed field or variant does not compile until this file decides its effect on keys.
//!
//! # Contract
//! * A field or variant renamed in Rust keeps its name here.
//! * A field that cannot change the stored answer is left out, as `_`, with the reason.
//! * A new field is written only if it differs from its default, behind all others. The keys of requests without it
//!   stay unchanged.
//! * A new variant gets a name never used by another of its enum.
//! * `tests/golden/payloads.txt` holds the bytes of every variant and option.

use crate::fragment::FragmentDigest;
use crate::prompt::{ChatRole, Content, LengthLimit, OverflowRule, PassageForm, Prompt, PromptPart, ShotPacking};
use crate::request::{
    Direction, EmbedPayload, EmbedRole, EntailPayload, FilterPayload, GeneratePayload, LabelPayload, LinksPayload,
    PassageId, PassageSet, PassagesPayload, ReadPayload, RequestPayload, RerankPayload, RetrievalRestriction,
    RetrievePayload, Sampling, SamplingPenalties, ScorePayload, SpanText, Statistics, TextFormat,
};
use serde::Serialize;

/// Appends the canonical payload of `ask` to `out`.
pub(crate) fn write_payload(ask: &RequestPayload, out: &mut Vec<u8>) {
    match ask {
        RequestPayload::Retrieve(ask) => ask.write_canonical(out),
        RequestPayload::Passages(ask) => ask.write_canonical(out),
        RequestPayload::Links(ask) => ask.write_canonical(out),
        RequestPayload::Score(ask) => ask.write_canonical(out),
        RequestPayload::Label(ask) => ask.write_canonical(out),
        RequestPayload::Filter(ask) => ask.write_canonical(out),
        RequestPayload::Rerank(ask) => ask.write_canonical(out),
        RequestPayload::Entail(ask) => ask.write_canonical(out),
        RequestPayload::Read(ask) => ask.write_canonical(out),
        RequestPayload::Embed(ask) => ask.write_canonical(out),
        RequestPayload::Generate(ask) => ask.write_canonical(out),
    }
}

/// Has a canonical form.
trait Canonical {
    /// Appends the canonical form to `out`.
    fn write_canonical(&self, out: &mut Vec<u8>);
}

/// Appends a text, a number or a truth value as JSON.
fn write_scalar<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("texts and numbers can be written as JSON; this is a bug");
}

/// Appends `[a,b,..]`.
fn write_list<'a>(items: impl IntoIterator<Item = &'a (dyn Canonical + 'a)>, out: &mut Vec<u8>) {
    let mut before = b'[';
    for item in items {
        out.push(before);
        item.write_canonical(out);
        before = b',';
    }
    if before == b'[' {
        out.push(b'[');
    }
    out.push(b']');
}

/// Appends `{"name":value,..}`; there is at least one field, and no name needs an escape.
fn write_object(fields: &[(&str, &dyn Canonical)], out: &mut Vec<u8>) {
    let mut before = b'{';
    for (name, value) in fields {
        out.extend([before, b'"']);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        value.write_canonical(out);
        before = b',';
    }
    out.push(b'}');
}

/// Appends `"name"`; it needs no escape.
fn write_unit(name: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.push(b'"');
}

/// Appends `{"name":{"field":value,..}}`.
fn write_variant(name: &str, fields: &[(&str, &dyn Canonical)], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    write_object(fields, out);
    out.push(b'}');
}

impl Canonical for bool {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        write_scalar(self, out);
    }
}

impl Canonical for u32 {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        write_scalar(self, out);
    }
}

impl Canonical for f64 {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        write_scalar(self, out);
    }
}

impl Canonical for String {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        write_scalar(self.as_str(), out);
    }
}

impl<T: Canonical> Canonical for Vec<T> {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        write_list(self.iter().map(|item| item as &dyn Canonical), out);
    }
}

impl<T: Canonical> Canonical for Option<T> {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        match self {
            Some(value) => value.write_canonical(out),
            None => out.extend_from_slice(b"null"),
        }
    }
}

impl Canonical for PassageId {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let Self(number) = self;
        number.write_canonical(out);
    }
}

impl Canonical for RetrievePayload {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        // Texts of passages are read from the corpus when the answer is delivered.
        let Self { query, k, within, read: _ } = self;
        write_list([query as &dyn Canonical, k, within], out);
    }
}

impl Canonical for RetrievalRestriction {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let Self { passages, statistics } = self;
        write_object(&[("passages", passages), ("statistics", statistics)], out);
    }
}

impl Canonical for PassageSet {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ids(ids) => write_object(&[("Ids", ids)], out),
            Self::Titles(titles) => write_object(&[("Titles", titles)], out),
            Self::FoldedTitles(titles) => write_object(&[("FoldedTitles", titles)], out),
        }
    }
}

impl Canonical for Statistics {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let name = match self {
            Self::Corpus => "corpus",
            Self::Restriction => "restriction",
        };
        write_unit(name, out);
    }
}

impl Canonical for PassagesPayload {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        // As for `Retrieve`.
        let Self { passages, read: _ } = self;
        write_list([passages as &dyn Canonical], out);
    }
}

impl Canonical for LinksPayload {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        // As for `Retrieve`.
        let Self { passage, direction, read: _ } = self;
        write_list([passage as &dyn Canonical, direction], out);
    }
}

impl Canonical for Direction {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let name = match self {
            Self::Outgoing => "outgoing",
            Self::Incoming => "incoming",
        };
        write_unit(name, out);
    }
}

impl Canonical for ScorePayload {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        // One answer holds all temperatures; an answer without a wanted temperature is a miss.
        let Self { prompt, target, temperatures: _ } = self;
        write_list([prompt as &dyn Canonical, target], out);
    }
}

impl Canonical for LabelPayload {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let Self { query, chunk } = self;
        write_object(&[("query", query), ("chunk", chunk)], out);
    }
}

impl Canonical for FilterPayload {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let Self { query, information } = self;
        write_object(&[("query", query), ("information", information)], out);
    }
}

impl Canonical for RerankPayload {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let Self { query, items } = self;
        write_object(&[("query", query), ("items", items)], out);
    }
}

impl Canonical for EntailPayload {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let Self { premise, hypothesis } = self;
        write_object(&[("premise", premise), ("hypothesis", hypothesis)], out);
    }
}

impl Canonical for ReadPayload {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let Self { question, context, max_answer_tokens, spans, markers, span_text } = self;
        let mut fields: Vec<(&str, &dyn Canonical)> = vec![
            ("question", question),
            ("context", context),
            ("max_answer_tokens", max_answer_tokens),
            ("spans", spans),
        ];
        if !markers.is_empty() {
            fields.push(("markers", markers));
        }
        if *span_text != SpanText::default() {
            fields.push(("span_text", span_text));
        }
        write_object(&fields, out);
    }
}

impl Canonical for SpanText {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let name = match self {
            Self::Tokens => "tokens",
            Self::Words => "words",
            Self::FinalText => "final_text",
        };
        write_unit(name, out);
    }
}

impl Canonical for EmbedPayload {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let Self { text, role } = self;
        write_object(&[("text", text), ("role", role)], out);
    }
}

impl Canonical for EmbedRole {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let name = match self {
            Self::Query => "query",
            Self::Passage => "passage",
        };
        write_unit(name, out);
    }
}

impl Canonical for GeneratePayload {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let Self { prompt, max_tokens, stop, sampling, format, logprobs } = self;
        let fields: [(&str, &dyn Canonical); 6] = [
            ("prompt", prompt),
            ("max_tokens", max_tokens),
            ("stop", stop),
            ("sampling", sampling),
            ("format", format),
            ("logprobs", logprobs),
        ];
        write_object(&fields, out);
    }
}

impl Canonical for Sampling {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        match self {
            Self::Greedy => write_unit("Greedy", out),
            Self::Sample { temperature, top_p, top_k, penalties } => {
                let mut fields: Vec<(&str, &dyn Canonical)> =
                    vec![("temperature", temperature), ("top_p", top_p), ("top_k", top_k)];
                let SamplingPenalties { repetition, presence, frequency } = penalties;
                let none = SamplingPenalties::default();
                for (name, value, default) in [
                    ("repetition_penalty", repetition, none.repetition),
                    ("presence_penalty", presence, none.presence),
                    ("frequency_penalty", frequency, none.frequency),
                ] {
                    if *value != default {
                        fields.push((name, value));
                    }
                }
                write_variant("Sample", &fields, out);
            }
            Self::Server => write_unit("Server", out),
        }
    }
}

impl Canonical for TextFormat {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text => write_unit("text", out),
            Self::Json => write_unit("json", out),
            Self::WithSpecial => write_unit("with_special", out),
            Self::Schema(schema) => write_object(&[("schema", schema)], out),
        }
    }
}

impl Canonical for Prompt {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let Self { parts, budget, overflow, count_parts, packing } = self;
        let mut fields: Vec<(&str, &dyn Canonical)> =
            vec![("parts", parts), ("budget", budget), ("overflow", overflow)];
        // The stored answer has a longer report.
        if *count_parts {
            fields.push(("count_parts", count_parts));
        }
        if packing.is_some() {
            fields.push(("packing", packing));
        }
        write_object(&fields, out);
    }
}

impl Canonical for ShotPacking {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let Self { shots, context_tokens, answer_tokens, spares_longest } = self;
        let fields: [(&str, &dyn Canonical); 4] = [
            ("shots", shots),
            ("context_tokens", context_tokens),
            ("answer_tokens", answer_tokens),
            ("spares_longest", spares_longest),
        ];
        write_object(&fields, out);
    }
}

impl Canonical for PromptPart {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let Self { role, content, truncate } = self;
        write_object(&[("role", role), ("content", content), ("truncate", truncate)], out);
    }
}

impl Canonical for ChatRole {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        let name = match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        };
        write_unit(name, out);
    }
}

impl Canonical for Content {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => write_object(&[("Text", text)], out),
            Self::Fragment(digest) => write_object(&[("Fragment", digest)], out),
            Self::Passage { passage, form } => write_variant("Passage", &[("passage", passage), ("form", form)], out),
            Self::Sentence { passage, sentence } => {
                write_variant("Sentence", &[("passage", passage), ("sentence", sentence)], out);
            }
        }
    }
}

impl Canonical for FragmentDigest {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        out.push(b'"');
        out.extend_from_slice(&self.to_hex());
        out.push(b'"');
    }
}

impl Canonical for PassageForm {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text => write_unit("Text", out),
            Self::TitleAndText { between } => write_variant("TitleAndText", &[("between", between)], out),
            Self::TitleTwice { between } => write_variant("TitleTwice", &[("between", between)], out),
            Self::Labelled { before, between } => {
                write_variant("Labelled", &[("before", before), ("between", between)], out);
            }
            Self::MarkedSentences { mark, titled } => {
                write_variant("MarkedSentences", &[("mark", mark), ("titled", titled)], out);
            }
        }
    }
}

impl Canonical for LengthLimit {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        match self {
            Self::Tokens(tokens) => write_object(&[("tokens", tokens)], out),
            Self::Words(words) => write_object(&[("words", words)], out),
            Self::SpacedWords(words) => write_object(&[("spaced_words", words)], out),
        }
    }
}

impl Canonical for OverflowRule {
    fn write_canonical(&self, out: &mut Vec<u8>) {
        match self {
            Self::Drop { part } => write_variant("Drop", &[("part", part)], out),
            Self::DropParts { first, count } => {
                write_variant("DropParts", &[("first", first), ("count", count)], out);
            }
            Self::Cut { part, to } => write_variant("Cut", &[("part", part), ("to", to)], out),
        }
    }
}
