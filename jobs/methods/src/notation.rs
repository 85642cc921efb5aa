//! One line for a request, a response or a prompt; a few for an outcome: for transcripts, scenario files and errors.
//!
//! Requests and outcomes are only written. Responses are also read back ([`Response`] is [`std::str::FromStr`]), and
//! reading what was written gives the same response. Texts are JSON strings, so a line is always one line. The grammar
//! with examples stands in `ops/docs/scenarios.md`.

pub(crate) mod parse;

pub use parse::NotationError;

use crate::outcome::{NamedSentence, Outcome, OutcomeNote, OutcomeStatus, RankedPassage};
use crate::prompt::{Content, LengthLimit, OverflowRule, PassageForm, Prompt, ShotPacking};
use crate::request::{
    Direction, EmbedRole, PassageId, PassageSet, Request, RequestPayload, Sampling, SamplingPenalties, SpanText,
    Statistics, TextFormat,
};
use crate::response::{Answer, AnswerWork, CallFacts, Failure, Response, RetrievalHit};
use std::fmt::{Display, Formatter, Result};

/// A JSON string.
struct QuotedText<'a>(&'a str);

impl Display for QuotedText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&serde_json::to_string(self.0).map_err(|_| std::fmt::Error)?)
    }
}

/// Items with a separator between them.
struct JoinedItems<'a, T>(&'a [T], &'static str);

impl<T: Display> Display for JoinedItems<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (index, item) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(self.1)?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

fn quote_texts(texts: &[String]) -> Vec<QuotedText<'_>> {
    texts.iter().map(|text| QuotedText(text)).collect()
}

impl Display for PassageId {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.0.fmt(f)
    }
}

impl Display for RetrievalHit {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}:{}", self.passage, self.score)
    }
}

impl Display for RankedPassage {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}:{}", self.passage, self.score)
    }
}

impl Display for PassageSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            PassageSet::Ids(ids) => write!(f, "ids={}", JoinedItems(ids, ",")),
            PassageSet::Titles(titles) => write!(f, "titles={}", JoinedItems(&quote_texts(titles), ",")),
            PassageSet::FoldedTitles(titles) => {
                write!(f, "folded_titles={}", JoinedItems(&quote_texts(titles), ","))
            }
        }
    }
}

impl Display for Content {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Content::Text(text) => QuotedText(text).fmt(f),
            // Enough to tell the fragments of a run apart.
            Content::Fragment(digest) => write!(f, "fragment {:.12}", digest.to_string()),
            Content::Passage { passage, form: PassageForm::Text } => write!(f, "passage {passage}"),
            Content::Passage { passage, form: PassageForm::TitleAndText { between } } => {
                write!(f, "passage {passage} title+{}+text", QuotedText(between))
            }
            Content::Passage { passage, form: PassageForm::TitleTwice { between } } => {
                write!(f, "passage {passage} title+{}+title+{}+text", QuotedText(between), QuotedText(between))
            }
            Content::Passage { passage, form: PassageForm::Labelled { before, between } } => {
                write!(f, "passage {passage} {}+title+{}+text", QuotedText(before), QuotedText(between))
            }
            Content::Passage { passage, form: PassageForm::MarkedSentences { mark, titled } } => {
                let title = if *titled { "title+\" \"+" } else { "" };
                write!(f, "passage {passage} {title}sentences behind {}", QuotedText(mark))
            }
            Content::Sentence { passage, sentence } => write!(f, "sentence {passage}.{sentence}"),
        }
    }
}

impl Display for LengthLimit {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            LengthLimit::Tokens(tokens) => write!(f, "{tokens} tokens"),
            LengthLimit::Words(words) => write!(f, "{words} words"),
            LengthLimit::SpacedWords(words) => write!(f, "{words} words between single spaces"),
        }
    }
}

impl Display for Prompt {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("{")?;
        for (index, part) in self.parts.iter().enumerate() {
            let between = if index > 0 { " | " } else { "" };
            write!(f, "{between}{} {}", format!("{:?}", part.role).to_lowercase(), part.content)?;
            if let Some(limit) = part.truncate {
                write!(f, " at most {limit}")?;
            }
        }
        if let Some(budget) = self.budget {
            write!(f, "; budget {budget} tokens")?;
        }
        for rule in &self.overflow {
            match rule {
                OverflowRule::Drop { part } => write!(f, "; drop {part}")?,
                OverflowRule::DropParts { first, count } => write!(f, "; drop {count} from {first}")?,
                OverflowRule::Cut { part, to } => write!(f, "; cut {part} to {to}")?,
            }
        }
        if let Some(ShotPacking { shots, context_tokens, answer_tokens, spares_longest }) = self.packing {
            let spared = if spares_longest { ", the longest spared" } else { "" };
            write!(f, "; pack {shots} below {context_tokens} tokens with {answer_tokens}{spared}")?;
        }
        f.write_str(if self.count_parts { "; count parts}" } else { "}" })
    }
}

impl Display for Request {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {} {}", self.ask.kind().name(), self.service, self.ask)?;
        if self.wants_text() {
            f.write_str(" read")?;
        }
        if self.draw > 0 {
            write!(f, " draw={}", self.draw)?;
        }
        if !self.step.is_empty() {
            write!(f, " step={}", self.step)?;
        }
        Ok(())
    }
}

impl Display for RequestPayload {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            RequestPayload::Retrieve(r) => {
                write!(f, "{} k={}", QuotedText(&r.query), r.k)?;
                let Some(within) = &r.within else { return Ok(()) };
                let statistics = match within.statistics {
                    Statistics::Corpus => "corpus",
                    Statistics::Restriction => "restriction",
                };
                write!(f, " within {} statistics={statistics}", within.passages)
            }
            RequestPayload::Passages(p) => p.passages.fmt(f),
            RequestPayload::Links(l) => {
                let direction = match l.direction {
                    Direction::Outgoing => "outgoing",
                    Direction::Incoming => "incoming",
                };
                write!(f, "{} {direction}", l.passage)
            }
            RequestPayload::Score(s) => {
                write!(f, "{} given {} temperatures={}", s.target, s.prompt, JoinedItems(&s.temperatures, ","))
            }
            RequestPayload::Label(l) => write!(f, "{} chunk {}", QuotedText(&l.query), l.chunk),
            RequestPayload::Filter(r) => {
                write!(f, "{} information={}", QuotedText(&r.query), JoinedItems(&quote_texts(&r.information), ","))
            }
            RequestPayload::Rerank(r) => write!(f, "{} items [{}]", QuotedText(&r.query), JoinedItems(&r.items, " | ")),
            RequestPayload::Entail(e) => write!(f, "{} from {}", QuotedText(&e.hypothesis), e.premise),
            RequestPayload::Read(r) => {
                let (tokens, spans) = (r.max_answer_tokens, r.spans);
                write!(f, "{} in {} max_answer_tokens={tokens} spans={spans}", QuotedText(&r.question), r.context)?;
                if !r.markers.is_empty() {
                    write!(f, " markers={}", JoinedItems(&quote_texts(&r.markers), ","))?;
                }
                match r.span_text {
                    SpanText::Tokens => Ok(()),
                    SpanText::Words => f.write_str(" span_text=words"),
                    SpanText::FinalText => f.write_str(" span_text=final_text"),
                }
            }
            RequestPayload::Embed(e) => {
                let role = match e.role {
                    EmbedRole::Query => "query",
                    EmbedRole::Passage => "passage",
                };
                write!(f, "{} as {role}", e.text)
            }
            RequestPayload::Generate(g) => {
                write!(f, "{} max_tokens={}", g.prompt, g.max_tokens)?;
                if !g.stop.is_empty() {
                    write!(f, " stop={}", JoinedItems(&quote_texts(&g.stop), ","))?;
                }
                match g.sampling {
                    Sampling::Greedy => {}
                    Sampling::Sample { temperature, top_p, top_k, penalties } => {
                        write!(f, " temperature={temperature} top_p={top_p} top_k={top_k}{penalties}")?;
                    }
                    Sampling::Server => f.write_str(" server_sampling")?,
                }
                match &g.format {
                    TextFormat::Text => {}
                    TextFormat::Json => f.write_str(" json")?,
                    TextFormat::WithSpecial => f.write_str(" with_special")?,
                    TextFormat::Schema(schema) => write!(f, " schema={}", QuotedText(schema))?,
                }
                f.write_str(if g.logprobs { " logprobs" } else { "" })
            }
        }
    }
}

/// Those that differ from none, each after a space.
impl Display for SamplingPenalties {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { repetition, presence, frequency } = *self;
        let none = Self::default();
        let named = [
            ("repetition", repetition, none.repetition),
            ("presence", presence, none.presence),
            ("frequency", frequency, none.frequency),
        ];
        let mut given = named.iter().filter(|(_, value, default)| value != default);
        given.try_for_each(|(name, value, _)| write!(f, " {name}={value}"))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "failed {} {}", self.kind.name(), QuotedText(&self.message))
    }
}

/// A word and, after spaces, its arguments.
fn write_list<T: Display>(f: &mut Formatter<'_>, word: &str, items: &[T]) -> Result {
    f.write_str(word)?;
    items.iter().try_for_each(|item| write!(f, " {item}"))
}

impl Display for Answer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Answer::Retrieve(hits) => write_list(f, "hits", hits),
            Answer::Passages(ids) => write_list(f, "passages", ids),
            Answer::Links(ids) => write_list(f, "links", ids),
            Answer::Score(scores) => {
                write!(f, "scores logits={}", JoinedItems(&scores.logits, ","))?;
                for (temperature, sums) in &scores.log_sum_exps {
                    write!(f, " at {temperature}={}", JoinedItems(sums, ","))?;
                }
                f.write_str(if scores.ends { " ends" } else { "" })
            }
            Answer::Label(labels) => {
                write!(f, "labels {} tags={}", QuotedText(&labels.information), JoinedItems(&labels.tag_logits, ","))
            }
            Answer::Filter(query) => write!(f, "query {}", QuotedText(query)),
            Answer::Rerank(relevances) => write_list(f, "relevances", relevances),
            Answer::Entail(probability) => write!(f, "entailment {probability}"),
            Answer::Read(spans) => {
                f.write_str("spans")?;
                for span in spans {
                    write!(f, " {} score={}", QuotedText(&span.text), span.score)?;
                    if let Some(rank) = span.rank {
                        write!(f, " rank={rank}")?;
                    }
                    if let Some((part, from, to)) = span.at {
                        write!(f, " at={part},{from},{to}")?;
                    }
                }
                Ok(())
            }
            Answer::Embed(vector) => write_list(f, "vector", vector),
            Answer::Generate(generation) => {
                write!(f, "generation {} {}", QuotedText(&generation.text), generation.finish.name())?;
                if let Some(stop) = &generation.stop {
                    write!(f, " at {}", QuotedText(stop))?;
                }
                if !generation.reasoning.is_empty() {
                    write!(f, " reasoning {}", QuotedText(&generation.reasoning))?;
                }
                if !generation.logprobs.is_empty() {
                    write!(f, " logprobs={}", JoinedItems(&generation.logprobs, ","))?;
                }
                Ok(())
            }
        }
    }
}

impl Display for AnswerWork {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let AnswerWork { prompt_tokens, completion_tokens, scored_tokens, operations } = *self;
        let fields = [
            ("prompt", prompt_tokens),
            ("completion", completion_tokens),
            ("scored", scored_tokens),
            ("operations", operations),
        ];
        f.write_str("work")?;
        fields.iter().filter(|(_, n)| *n > 0).try_for_each(|(name, n)| write!(f, " {name}={n}"))
    }
}

impl Display for CallFacts {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self {
            attempts,
            tokens_measured,
            cached_prompt_tokens,
            reasoning_tokens,
            money,
            model,
            system_fingerprint,
        } = self;
        write!(f, "facts attempts={attempts}")?;
        if let Some(tokens) = cached_prompt_tokens {
            write!(f, " cached={tokens}")?;
        }
        if let Some(tokens) = reasoning_tokens {
            write!(f, " reasoning={tokens}")?;
        }
        f.write_str(if *tokens_measured { " measured" } else { "" })?;
        if let Some(money) = money {
            write!(f, " money {} {}", money.nanos, QuotedText(&money.currency))?;
        }
        for (name, text) in [("model", model), ("system", system_fingerprint)] {
            if let Some(text) = text {
                write!(f, " {name} {}", QuotedText(text))?;
            }
        }
        Ok(())
    }
}

impl Display for NamedSentence {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {}", QuotedText(&self.title), QuotedText(&self.sentence))
    }
}

impl Display for OutcomeNote {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {}", QuotedText(&self.name), QuotedText(&self.text))
    }
}

impl Display for Response {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.result {
            Ok(answer) => answer.fmt(f)?,
            Err(failure) => failure.fmt(f)?,
        }
        f.write_str(if self.run_only { " run_only" } else { "" })?;
        if self.work != AnswerWork::default() {
            write!(f, " | {}", self.work)?;
        }
        if let Some(report) = &self.prompt {
            write!(f, " | prompt tokens={}", report.tokens)?;
            if !report.dropped.is_empty() {
                write!(f, " dropped={}", JoinedItems(&report.dropped, ","))?;
            }
            for (part, tokens) in &report.cut {
                write!(f, " cut={part},{tokens}")?;
            }
            if !report.part_tokens.is_empty() {
                write!(f, " parts={}", JoinedItems(&report.part_tokens, ","))?;
            }
        }
        if let Some(facts) = &self.facts {
            write!(f, " | {facts}")?;
        }
        for text in &self.passages {
            write!(f, " | text {} {} {}", text.passage, QuotedText(&text.title), QuotedText(&text.text))?;
            if !text.sentences.is_empty() {
                write!(f, " sentences={}", JoinedItems(&text.sentences, ","))?;
            }
        }
        Ok(())
    }
}

/// Several lines; empty lists are left out.
impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.status {
            OutcomeStatus::Ok => f.write_str("done ok")?,
            OutcomeStatus::Failed(failure) => write!(f, "done {failure}")?,
            OutcomeStatus::NotInFile => f.write_str("done not_in_file")?,
        }
        write!(f, " iterations={}", self.iterations)?;
        if let Some(answer) = &self.answer {
            write!(f, "\nanswer {}", QuotedText(answer))?;
        }
        if !self.ranked.is_empty() {
            f.write_str("\n")?;
            write_list(f, "ranked", &self.ranked)?;
        }
        for path in &self.paths {
            f.write_str("\n")?;
            write_list(f, "path", &path.passages)?;
            write!(f, " score={}", path.score)?;
        }
        if !self.supporting.is_empty() {
            f.write_str("\nsupporting")?;
            self.supporting.iter().try_for_each(|s| write!(f, " {}.{}", s.passage, s.sentence))?;
        }
        self.named_support.iter().try_for_each(|named| write!(f, "\nnamed_support {named}"))?;
        for [subject, relation, object] in &self.evidences {
            write!(f, "\nevidence {} {} {}", QuotedText(subject), QuotedText(relation), QuotedText(object))?;
        }
        self.notes.iter().try_for_each(|note| write!(f, "\nnote {note}"))?;
        if let Some(kept) = self.format {
            write!(f, "\nformat {}", if kept { "kept" } else { "broken" })?;
        }
        if self.repairs > 0 {
            write!(f, "\nrepairs {}", self.repairs)?;
        }
        Ok(())
    }
}
