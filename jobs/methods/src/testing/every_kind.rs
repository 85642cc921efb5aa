//! A method with every request kind, draws, prompt budgets, texts to read, and both ways to meet a failure.
//!
//! Its outcomes have no meaning. It uses the protocol as seventeen real methods do, in five rounds.
//!
//! ```text
//! state    | asks for (round)                                                          | next
//! ---------+---------------------------------------------------------------------------+---------
//! Start    | 1: Retrieve (read), Passages by title both ways, Embed the question       | Found
//! Found    | 2: Links both ways, Retrieve within ids and within titles, Embed a passage| Linked
//! Found    | no hits, or the retrieval failed                                          | end
//! Linked   | 3: Score paths under a budget, Label two chunks, Rerank                   | Scored
//! Scored   | 4: Filter the question, Entail, Read                                      | Read
//! Read     | 5: Generate, `draws` samples of one payload                               | Drawn
//! Drawn    | 6: the same, further draws, if none was answered                          | Redrawn
//! Drawn    | otherwise                                                                 | end
//! Redrawn  |                                                                           | end
//! ```
//!
//! The first retrieval must not fail; other failed requests are left out.

use crate::fragment::Fragment;
use crate::machine::{ContextMode, Machine, MachineStep, Method, Question, ServiceAbility, ServiceUse};
use crate::outcome::{NamedSentence, Outcome, PassagePath, RankedPassage, SupportingSentence};
use crate::prompt::{ChatRole, Content, LengthLimit, OverflowRule, PassageForm, Prompt, PromptPart};
use crate::ranking;
use crate::request::{
    Direction, EmbedPayload, EmbedRole, EntailPayload, FilterPayload, GeneratePayload, LabelPayload, LinksPayload,
    PassageId, PassageSet, PassagesPayload, ReadPayload, Request, RequestKind, RequestPayload, RerankPayload,
    RetrievalRestriction, RetrievePayload, Sampling, ScorePayload, ServiceName, Statistics, TextFormat,
};
use crate::response::{Failure, Response};
use std::collections::BTreeMap;

/// One configuration: every kind is asked of the service with the kind's name, the corpus's of `corpus`.
#[derive(Clone, Copy, Debug)]
pub struct EveryKind {
    /// Samples of the last generation.
    pub draws: u32,
}

impl Default for EveryKind {
    fn default() -> Self {
        Self { draws: 3 }
    }
}

/// The temperatures for the paths' scores; the second one ranks them.
const TEMPERATURES: [f64; 2] = [1.0, 2.0];

/// The text shared by all generations.
fn demonstration() -> Fragment {
    Fragment::new("Question: which thing is it? Answer: { the first }")
}

fn service_for(kind: RequestKind) -> ServiceName {
    match kind {
        RequestKind::Passages | RequestKind::Links => ServiceName::corpus(),
        _ => ServiceName::from(kind.name()),
    }
}

fn request_for(ask: impl Into<RequestPayload>) -> Request {
    let ask = ask.into();
    Request::new(&service_for(ask.kind()), ask)
}

impl Method for EveryKind {
    fn kind(&self) -> &'static str {
        "every_kind"
    }

    fn version(&self) -> u32 {
        1
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Mixed
    }

    fn gives_answers(&self) -> bool {
        true
    }

    fn gives_support(&self) -> bool {
        true
    }

    fn gives_evidences(&self) -> bool {
        true
    }

    fn most_ranked(&self) -> Option<u32> {
        None
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let used = |kind: RequestKind| ServiceUse::new(kind.name(), &service_for(kind), kind);
        // The last message is the model's own, to be continued.
        let needs = |used: ServiceUse| match used.kind {
            RequestKind::Generate => used.with_need(ServiceAbility::Continue),
            _ => used,
        };
        RequestKind::ALL.map(used).map(needs).into()
    }

    fn score_temperatures(&self) -> Vec<f64> {
        TEMPERATURES.into()
    }

    fn fragments(&self) -> Vec<Fragment> {
        vec![demonstration()]
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(EveryKindMachine {
            draws: self.draws,
            question: question.clone(),
            titles: Vec::new(),
            pool: Vec::new(),
            paths: Vec::new(),
            query: question.text.clone(),
            outcome: Outcome::default(),
            state: EveryKindState::Start,
        })
    }
}

struct EveryKindMachine {
    draws: u32,
    question: Question,
    titles: Vec<String>,
    pool: Vec<RankedPassage>,
    paths: Vec<Vec<PassageId>>,
    query: String,
    outcome: Outcome,
    state: EveryKindState,
}

#[derive(Clone, Copy)]
enum EveryKindState {
    Start,
    Found,
    Linked,
    Scored,
    Read,
    Drawn,
    Redrawn,
}

impl Machine for EveryKindMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        match self.state {
            EveryKindState::Start => self.first_round(),
            EveryKindState::Found => match self.found(responses) {
                Ok(step) => step,
                Err(failure) => MachineStep::Done(Outcome::failed(failure)),
            },
            EveryKindState::Linked => self.linked(responses),
            EveryKindState::Scored => self.scored(responses),
            EveryKindState::Read => self.read(responses),
            EveryKindState::Drawn => self.drawn(responses),
            EveryKindState::Redrawn => {
                self.vote_on_texts(responses);
                self.end()
            }
        }
    }
}

impl EveryKindMachine {
    fn ask_round(&mut self, next: EveryKindState, requests: Vec<Request>) -> MachineStep {
        self.state = next;
        self.outcome.iterations += 1;
        MachineStep::Ask(requests)
    }

    fn end(&mut self) -> MachineStep {
        MachineStep::Done(std::mem::take(&mut self.outcome))
    }

    fn first_round(&mut self) -> MachineStep {
        let text = self.question.text.clone();
        let titles = PassageSet::Titles(vec![text.clone(), "Passage 1".to_owned()]);
        let requests = vec![
            request_for(RetrievePayload { read: true, ..RetrievePayload::new(&text, 4) }),
            request_for(PassagesPayload { passages: titles, read: false }),
            request_for(PassagesPayload {
                passages: PassageSet::FoldedTitles(vec!["passage_2".to_owned()]),
                read: true,
            }),
            request_for(EmbedPayload { text: Content::Text(text), role: EmbedRole::Query }),
        ];
        self.ask_round(EveryKindState::Found, requests)
    }

    fn found(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let mut responses = responses.into_iter();
        let mut first = Response::only(responses.by_ref().take(1).collect())?;
        self.titles = std::mem::take(&mut first.passages).into_iter().map(|text| text.title).collect();
        self.pool = ranking::from_hits(first.hits()?, 4);
        let found = responses.next().and_then(|response| response.found().ok()).unwrap_or_default();
        ranking::append_missing(&mut self.pool, &found);
        let Some(&RankedPassage { passage: best, .. }) = self.pool.first() else { return Ok(self.end()) };
        self.outcome.ranked = self.pool.clone();
        let ids = ranking::as_set(self.pool.iter().map(|entry| entry.passage));
        let titles =
            RetrievalRestriction { passages: PassageSet::Titles(self.titles.clone()), statistics: Statistics::Corpus };
        let text = self.question.text.clone();
        let requests = vec![
            request_for(LinksPayload { passage: best, direction: Direction::Outgoing, read: false }),
            request_for(LinksPayload { passage: best, direction: Direction::Incoming, read: true }),
            request_for(RetrievePayload::new(&text, 3).within(ids, Statistics::Restriction)),
            request_for(RetrievePayload { within: Some(titles), ..RetrievePayload::new(&text, 3) }),
            request_for(EmbedPayload {
                text: Content::Passage { passage: best, form: PassageForm::TitleAndText { between: ": ".to_owned() } },
                role: EmbedRole::Passage,
            }),
        ];
        Ok(self.ask_round(EveryKindState::Linked, requests))
    }

    fn linked(&mut self, responses: Vec<Response>) -> MachineStep {
        let best = self.pool[0].passage;
        let links = responses.into_iter().take(2).filter_map(|response| response.links().ok()).flatten();
        self.paths = ranking::as_set(links).into_iter().take(2).map(|link| vec![best, link]).collect();
        self.paths.push(vec![best]);
        let mut requests: Vec<Request> = self.paths.iter().map(|path| request_for(self.score_payload(path))).collect();
        let chunk = |entry: &RankedPassage| LabelPayload {
            query: self.query.clone(),
            chunk: Content::Passage { passage: entry.passage, form: PassageForm::Text },
        };
        requests.extend(self.pool.iter().take(2).map(|entry| request_for(chunk(entry))));
        let items = vec![
            Content::Sentence { passage: best, sentence: 1 },
            Content::Text("a made-up passage".to_owned()),
            Content::Passage { passage: best, form: PassageForm::Text },
        ];
        requests.push(request_for(RerankPayload { query: self.query.clone(), items }));
        self.ask_round(EveryKindState::Scored, requests)
    }

    /// The question's likelihood given a path. Documents are cut to 8 tokens. If the whole exceeds the budget, the
    /// demonstration is dropped, then the documents are cut to 4 words. The instruction is never cut.
    fn score_payload(&self, path: &[PassageId]) -> ScorePayload {
        let form = PassageForm::Labelled { before: "Document: ".to_owned(), between: ". ".to_owned() };
        let mut parts = vec![PromptPart::text("Question: who made it? ")];
        parts.extend(
            path.iter().map(|&passage| PromptPart::passage(passage, form.clone(), Some(LengthLimit::Tokens(8)))),
        );
        parts.push(PromptPart::text(" Ask a question."));
        let cut = |part| OverflowRule::Cut { part, to: LengthLimit::Words(4) };
        let documents = 1..=path.len() as u32;
        let overflow = [OverflowRule::Drop { part: 0 }].into_iter().chain(documents.map(cut)).collect();
        ScorePayload {
            prompt: Prompt { parts, budget: Some(14), overflow, ..Prompt::default() },
            target: Prompt::text(&self.question.text),
            temperatures: TEMPERATURES.into(),
        }
    }

    fn scored(&mut self, responses: Vec<Response>) -> MachineStep {
        let mut responses = responses.into_iter();
        for passages in &self.paths {
            let Some(Ok(scores)) = responses.next().map(Response::scores) else { continue };
            let tokens = scores.logits.len().max(1) as f64;
            let Some(logprobs) = scores.logprobs(2.0) else { continue };
            self.outcome.paths.push(PassagePath { passages: passages.clone(), score: logprobs.sum::<f64>() / tokens });
        }
        self.outcome.paths.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.passages.cmp(&b.passages)));
        let labels = responses.by_ref().take(self.pool.len().min(2)).filter_map(|response| response.labels().ok());
        let information: Vec<String> = labels.map(|labels| labels.information).collect();
        let relevance = responses.next().and_then(|response| response.relevances().ok()).unwrap_or_default();
        let best = self.pool[0].passage;
        if relevance.first().zip(relevance.get(1)).is_some_and(|(sentence, text)| sentence > text) {
            self.outcome.supporting.push(SupportingSentence { passage: best, sentence: 1 });
        } else {
            let (title, sentence) = (self.titles.first().cloned().unwrap_or_default(), "the second".to_owned());
            self.outcome.named_support.push(NamedSentence { title, sentence });
        }
        let sentence = PromptPart { content: Content::Sentence { passage: best, sentence: 0 }, ..PromptPart::text("") };
        let premise = Prompt { parts: vec![sentence], ..Prompt::default() };
        let path = self.outcome.paths.first().map_or_else(|| vec![best], |path| path.passages.clone());
        let parts = path.iter().map(|&passage| PromptPart::passage(passage, PassageForm::Text, None)).collect();
        let context = Prompt {
            parts,
            budget: Some(64),
            overflow: vec![OverflowRule::Cut { part: 0, to: LengthLimit::Tokens(0) }],
            ..Prompt::default()
        };
        let requests = vec![
            request_for(FilterPayload { query: self.query.clone(), information }),
            request_for(EntailPayload { premise, hypothesis: self.question.text.clone() }),
            request_for(ReadPayload {
                question: self.question.text.clone(),
                context,
                max_answer_tokens: 30,
                spans: 2,
                ..ReadPayload::default()
            }),
        ];
        self.ask_round(EveryKindState::Read, requests)
    }

    fn read(&mut self, responses: Vec<Response>) -> MachineStep {
        let mut responses = responses.into_iter();
        if let Some(Ok(query)) = responses.next().map(Response::next_query) {
            self.query = query;
        }
        if let Some(Ok(probability)) = responses.next().map(Response::entailment) {
            self.outcome.add_note("entailment", format!("{probability}"));
            self.outcome.format = Some(probability > 0.5);
            let relation = if probability > 0.5 { "entails" } else { "does not entail" };
            self.outcome.evidences.push(["passage".to_owned(), relation.to_owned(), "question".to_owned()]);
        }
        self.outcome.answer = responses.next().and_then(|read| Some(read.spans().ok()?.first()?.text.clone()));
        let requests = self.generation_requests(0);
        self.ask_round(EveryKindState::Drawn, requests)
    }

    /// `draws` independent samples of one chat.
    fn generation_requests(&self, first_draw: u32) -> Vec<Request> {
        let part = |role, content| PromptPart { role, content, truncate: None };
        let passage = Content::Passage { passage: self.pool[0].passage, form: PassageForm::Text };
        let prompt = Prompt {
            parts: vec![
                part(ChatRole::System, Content::Text("Answer with JSON.".to_owned())),
                part(ChatRole::User, Content::Fragment(demonstration().digest())),
                part(ChatRole::User, passage),
                part(ChatRole::User, Content::Text(self.query.clone())),
                part(ChatRole::Assistant, Content::Text("{".to_owned())),
            ],
            budget: Some(4096),
            overflow: vec![
                OverflowRule::Cut { part: 2, to: LengthLimit::Tokens(0) },
                OverflowRule::DropParts { first: 1, count: 2 },
            ],
            count_parts: true,
            packing: None,
        };
        let generate = GeneratePayload {
            prompt,
            max_tokens: 100,
            stop: vec!["}".to_owned(), "\n\n".to_owned()],
            sampling: Sampling::sample(0.7, 0.95, 0),
            format: TextFormat::Json,
            logprobs: true,
        };
        let draws = first_draw..first_draw + self.draws;
        draws.map(|draw| Request { draw, ..request_for(generate.clone()) }.at_step("answer")).collect()
    }

    fn drawn(&mut self, responses: Vec<Response>) -> MachineStep {
        if self.vote_on_texts(responses) {
            return self.end();
        }
        let requests = self.generation_requests(self.draws);
        self.ask_round(EveryKindState::Redrawn, requests)
    }

    /// The most frequent text, of equally frequent ones the first in alphabetical order, is the answer.
    fn vote_on_texts(&mut self, responses: Vec<Response>) -> bool {
        let mut votes: BTreeMap<String, u32> = BTreeMap::new();
        for generation in responses.into_iter().filter_map(|response| response.generation().ok()) {
            *votes.entry(generation.text).or_default() += 1;
        }
        // `max_by_key` takes the last of equals, so the texts go backwards.
        let winner = votes.into_iter().rev().max_by_key(|(_, votes)| *votes);
        let voted = winner.is_some();
        self.outcome.answer = winner.map(|(text, _)| text).or(self.outcome.answer.take());
        voted
    }
}
