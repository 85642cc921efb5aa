//! Services without models or indexes: every request has one answer, a pure function of its key and a seed.
//!
//! The corpus is passages `0..passages`, titled `Passage N`. Tokens are words. Prompts are put together with their
//! truncations, budgets and overflow rules: tests of a machine's budgets need no tokenizer.

use crate::prompt::{Content, LengthLimit, OverflowRule, PassageForm, Prompt, ShotPacking};
use crate::request::{Direction, PassageId, PassageSet, Request, RequestPayload};
use crate::response::{
    Answer, AnswerSpan, AnswerWork, ChunkLabels, Failure, FailureKind, FinishReason, Generation, PassageText,
    PromptReport, Response, RetrievalHit, TargetScores,
};
use std::collections::BTreeSet;

/// Answers every request, deterministically.
#[derive(Clone, Copy, Debug)]
pub struct ScriptedServices {
    /// Passages of the pretended corpus, at least 1.
    pub passages: u32,
    /// Changes every answer.
    pub seed: u64,
    /// Failures in 1,000 requests. The failing requests and their failures follow from their keys.
    pub failures_per_mille: u32,
}

impl ScriptedServices {
    /// Services without failures.
    pub fn new(passages: u32, seed: u64) -> Self {
        Self { passages: passages.max(1), seed, failures_per_mille: 0 }
    }

    /// The response to `request`, with passages' texts if it wants them.
    pub fn answer(&self, request: &Request) -> Response {
        let mut noise = self.noise(request);
        if noise.below(1000) < u64::from(self.failures_per_mille) {
            let kind = FailureKind::ALL[noise.below(FailureKind::ALL.len() as u64) as usize];
            return Response::failure(kind, "scripted");
        }
        let mut response = self.respond_to(&request.ask, &mut noise).unwrap_or_else(Response::from_failure);
        if let (true, Ok(answer)) = (request.wants_text(), &response.result) {
            response.passages = answer.passages().into_iter().map(|passage| self.passage_text(passage)).collect();
        }
        response
    }

    /// The title and text of a passage.
    pub fn passage_text(&self, passage: PassageId) -> PassageText {
        let id = passage.0;
        let text = format!("Passage {id} tells of thing {}. It was made in {}.", id % 97, 1500 + id % 500);
        let first = text.find(". ").map_or(0, |end| end + 2);
        let sentences = vec![first as u32, text.len() as u32];
        PassageText { passage, title: passage_title(passage), text, sentences }
    }

    /// Puts a prompt together and reports the cuts.
    ///
    /// # Errors
    /// [`FailureKind::ContextOverflow`] if the rules do not make it fit, [`FailureKind::Refused`] for a rule about a
    /// missing part.
    pub fn assemble_prompt(&self, prompt: &Prompt) -> Result<(String, PromptReport), Failure> {
        let written: Vec<String> = prompt.parts.iter().map(|part| self.written_content(&part.content)).collect();
        let mut parts: Vec<Vec<&str>> = written.iter().map(|text| text.split_whitespace().collect()).collect();
        let whole: Vec<usize> = parts.iter().map(Vec::len).collect();
        for (words, part) in parts.iter_mut().zip(&prompt.parts) {
            if let Some(limit) = part.truncate {
                words.truncate(words_of(limit));
            }
        }
        let mut report = PromptReport::default();
        if let Some(packing) = &prompt.packing {
            report.dropped = pack_shots(packing, &mut parts)?;
        }
        let budget = prompt.budget.map_or(usize::MAX, |budget| budget as usize);
        let total = |parts: &[Vec<&str>]| parts.iter().map(Vec::len).sum::<usize>();
        for rule in &prompt.overflow {
            let excess = total(&parts).saturating_sub(budget);
            if excess == 0 {
                break;
            }
            let (first, count) = match *rule {
                OverflowRule::Drop { part } | OverflowRule::Cut { part, .. } => (part, 1),
                OverflowRule::DropParts { first, count } => (first, count),
            };
            let last = first.saturating_add(count);
            let Some(named) = parts.get_mut(first as usize..last as usize) else {
                let message = format!("an overflow rule names part {} of {}", last - 1, prompt.parts.len());
                return Err(Failure { kind: FailureKind::Refused, message });
            };
            match rule {
                OverflowRule::Drop { .. } | OverflowRule::DropParts { .. } => {
                    named.iter_mut().for_each(Vec::clear);
                    report
                        .dropped
                        .extend((first..last).filter(|part| !report.dropped.contains(part)).collect::<Vec<_>>());
                }
                OverflowRule::Cut { to, .. } => {
                    let words = &mut named[0];
                    words.truncate(words.len().saturating_sub(excess).max(words_of(*to)));
                }
            }
        }
        if total(&parts) > budget {
            let message = format!("{} tokens do not fit {budget}", total(&parts));
            return Err(Failure { kind: FailureKind::ContextOverflow, message });
        }
        report.tokens = total(&parts) as u32;
        for (part, (words, whole)) in (0u32..).zip(parts.iter().zip(whole)) {
            if words.len() < whole && !report.dropped.contains(&part) {
                report.cut.push((part, (whole - words.len()) as u32));
            }
        }
        if prompt.count_parts {
            report.part_tokens = parts.iter().map(|words| words.len() as u32).collect();
        }
        Ok((parts.concat().join(" "), report))
    }

    pub(super) fn noise(&self, request: &Request) -> SeededNoise {
        let mut bytes = Vec::new();
        request.append_canonical(&mut bytes);
        bytes.extend(request.ask.kind().name().bytes());
        bytes.extend(request.draw.to_le_bytes());
        bytes.extend(self.seed.to_le_bytes());
        // FNV-1a. Any hash would do if it is the same everywhere.
        SeededNoise(
            bytes
                .iter()
                .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)),
        )
    }

    fn respond_to(&self, ask: &RequestPayload, noise: &mut SeededNoise) -> Result<Response, Failure> {
        let operations = |operations: usize| AnswerWork { operations: operations as u64, ..AnswerWork::default() };
        Ok(match ask {
            RequestPayload::Retrieve(retrieve) => {
                let allowed = retrieve.within.as_ref().map(|within| self.existing_passages(&within.passages));
                let hits = self.scored_hits(allowed, retrieve.k, noise);
                Response::answer(Answer::Retrieve(hits.clone()), operations(hits.len() * 7))
            }
            RequestPayload::Passages(passages) => {
                let found = self.existing_passages(&passages.passages);
                Response::answer(Answer::Passages(found.clone()), operations(found.len()))
            }
            RequestPayload::Links(links) => {
                let id = u64::from(links.passage.0);
                let number = u64::from(self.passages);
                let towards = |n: u64| match links.direction {
                    Direction::Outgoing => (id * 3 + n) % number,
                    Direction::Incoming => (id + number - n % number) % number,
                };
                let found: Vec<PassageId> = (1..=id % 4).map(|n| PassageId(towards(n) as u32)).collect();
                Response::answer(Answer::Links(found), operations(1))
            }
            RequestPayload::Score(score) => {
                let (_, report) = self.assemble_prompt(&score.prompt)?;
                let (target, _) = self.assemble_prompt(&score.target)?;
                let logits: Vec<f32> = target.split_whitespace().map(|_| -noise.unit() as f32).collect();
                let sums = |&temperature: &f64| {
                    (temperature, logits.iter().map(|logit| logit / temperature as f32 + 1.0).collect())
                };
                let log_sum_exps = score.temperatures.iter().map(sums).collect();
                let scored_tokens = logits.len() as u64;
                let work = AnswerWork { scored_tokens, ..reading_work(&report) };
                let scores = TargetScores { logits, log_sum_exps, ends: true };
                Response { prompt: Some(report), ..Response::answer(Answer::Score(scores), work) }
            }
            RequestPayload::Label(label) => {
                let chunk = self.written_content(&label.chunk);
                let information = chunk.split_whitespace().take(noise.below(4) as usize).collect::<Vec<_>>().join(" ");
                let tag_logits = vec![noise.unit() as f32, noise.unit() as f32];
                Response::answer(Answer::Label(ChunkLabels { information, tag_logits }), operations(chunk.len()))
            }
            RequestPayload::Filter(filter) => {
                let next = [&filter.query[..], &filter.information.join(" ")].join(" ");
                Response::answer(Answer::Filter(next), operations(filter.query.len()))
            }
            RequestPayload::Rerank(rerank) => {
                let relevances = rerank.items.iter().map(|_| noise.unit()).collect();
                Response::answer(Answer::Rerank(relevances), operations(rerank.items.len()))
            }
            RequestPayload::Entail(entail) => {
                let (_, report) = self.assemble_prompt(&entail.premise)?;
                let work = reading_work(&report);
                Response { prompt: Some(report), ..Response::answer(Answer::Entail(noise.unit()), work) }
            }
            RequestPayload::Read(ask) => {
                let (context, report) = self.assemble_prompt(&ask.context)?;
                let words: Vec<&str> = context.split_whitespace().collect();
                let spans = (0..ask.spans.min(words.len() as u32)).map(|rank| AnswerSpan {
                    text: words[noise.below(words.len() as u64) as usize].to_owned(),
                    score: 1.0 / f64::from(rank + 1),
                    rank: None,
                    at: None,
                });
                let answer = Answer::Read(spans.collect());
                let work = reading_work(&report);
                Response { prompt: Some(report), ..Response::answer(answer, work) }
            }
            RequestPayload::Embed(embed) => {
                let vector = (0..4).map(|_| noise.unit() as f32).collect();
                Response::answer(Answer::Embed(vector), operations(self.written_content(&embed.text).len()))
            }
            RequestPayload::Generate(generate) => {
                let (_, report) = self.assemble_prompt(&generate.prompt)?;
                // Few different texts, so that draws agree now and then.
                let text = format!("answer {}", noise.below(3));
                let logprobs = if generate.logprobs { vec![-0.5, -0.25] } else { Vec::new() };
                let stop = generate.stop.first().cloned();
                let generation = Generation { logprobs, stop, ..Generation::new(text, FinishReason::Stop) };
                let work = AnswerWork { completion_tokens: 2, ..reading_work(&report) };
                Response { prompt: Some(report), ..Response::answer(Answer::Generate(generation), work) }
            }
        })
    }

    fn scored_hits(&self, allowed: Option<Vec<PassageId>>, k: u32, noise: &mut SeededNoise) -> Vec<RetrievalHit> {
        let mut passages: Vec<PassageId> = match allowed {
            Some(allowed) => allowed,
            None => {
                (0..k.min(self.passages)).map(|_| PassageId(noise.below(u64::from(self.passages)) as u32)).collect()
            }
        };
        let mut seen = BTreeSet::new();
        passages.retain(|&passage| seen.insert(passage));
        let scored = passages.into_iter().map(|passage| RetrievalHit { passage, score: noise.unit() * 20.0 });
        let mut hits: Vec<RetrievalHit> = scored.collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.passage.cmp(&b.passage)));
        hits.truncate(k as usize);
        hits
    }

    /// The existing passages of a set.
    fn existing_passages(&self, set: &PassageSet) -> Vec<PassageId> {
        let exists = |passage: &PassageId| passage.0 < self.passages;
        match set {
            PassageSet::Ids(ids) => ids.iter().copied().filter(exists).collect(),
            PassageSet::Titles(titles) => {
                let id = |title: &String| title.strip_prefix("Passage ")?.parse().ok().map(PassageId);
                titles.iter().filter_map(id).filter(exists).collect()
            }
            PassageSet::FoldedTitles(titles) => {
                let folded = |title: &String| title.replace('_', " ").to_lowercase();
                let id = |title: String| title.trim().strip_prefix("passage ")?.trim().parse().ok().map(PassageId);
                titles.iter().map(folded).filter_map(id).filter(exists).collect()
            }
        }
    }

    fn written_content(&self, content: &Content) -> String {
        match content {
            Content::Text(text) => text.clone(),
            // Like passages, fragments have made-up texts.
            Content::Fragment(digest) => format!("Fragment {digest:?} shows how it is done."),
            Content::Passage { passage, form } => {
                let read = self.passage_text(*passage);
                let sentences: Vec<String> = read.sentence_texts().into_iter().map(str::to_owned).collect();
                let PassageText { title, text, .. } = read;
                match form {
                    PassageForm::Text => text,
                    PassageForm::TitleAndText { between } => [title, between.clone(), text].concat(),
                    PassageForm::TitleTwice { between } => {
                        [title.clone(), between.clone(), title, between.clone(), text].concat()
                    }
                    PassageForm::Labelled { before, between } => {
                        [before.clone(), title, between.clone(), text].concat()
                    }
                    PassageForm::MarkedSentences { mark, titled } => {
                        let title = titled.then_some(title.as_str());
                        PassageForm::mark_sentences(mark, title, sentences.iter().map(String::as_str))
                    }
                }
            }
            Content::Sentence { passage, sentence } => {
                let text = self.passage_text(*passage).text;
                text.split_inclusive(". ").nth(*sentence as usize).unwrap_or_default().trim().to_owned()
            }
        }
    }
}

fn passage_title(passage: PassageId) -> String {
    format!("Passage {passage}")
}

/// Clears the demonstrations that a packing leaves out, and gives their parts.
fn pack_shots(packing: &ShotPacking, parts: &mut [Vec<&str>]) -> Result<Vec<u32>, Failure> {
    let ShotPacking { shots, context_tokens, answer_tokens, spares_longest } = *packing;
    if shots as usize > parts.len() {
        let message = format!("a packing names {shots} demonstrations of {} parts", parts.len());
        return Err(Failure { kind: FailureKind::Refused, message });
    }
    let (shown, rest) = parts.split_at_mut(shots as usize);
    let sizes: Vec<usize> = shown.iter().map(Vec::len).collect();
    let rest: usize = rest.iter().map(|words| words.len()).sum();
    let (context, answer) = (context_tokens as usize, answer_tokens as usize);
    let longest = |kept: &[usize]| kept.iter().copied().max().unwrap_or_default();
    let total = |kept: &[usize]| kept.iter().sum::<usize>() + answer;
    let (mut first, mut end) = (0, sizes.len());
    while spares_longest && sizes.len() > 1 && end > 0 && total(&sizes[..end]) + longest(&sizes[..end]) > context {
        end -= 1;
    }
    while first < end && total(&sizes[first..end]) + rest >= context {
        first += 1;
    }
    let dropped: Vec<usize> = (end..sizes.len()).rev().chain(0..first).collect();
    dropped.iter().for_each(|&part| shown[part].clear());
    Ok(dropped.into_iter().map(|part| part as u32).collect())
}

fn words_of(limit: LengthLimit) -> usize {
    let (LengthLimit::Tokens(length) | LengthLimit::Words(length) | LengthLimit::SpacedWords(length)) = limit;
    length as usize
}

fn reading_work(report: &PromptReport) -> AnswerWork {
    AnswerWork { prompt_tokens: report.tokens.into(), ..AnswerWork::default() }
}

/// SplitMix64.
pub(super) struct SeededNoise(u64);

impl SeededNoise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number in [0, 1), in steps of 2^-20: it prints short.
    fn unit(&mut self) -> f64 {
        (self.next() >> 44) as f64 / f64::from(1 << 20)
    }
}
