//! The machine of `migres`: rounds of retrieval, statements, and the question whether they are enough.

use super::choices::{
    BarrenEnd, CitationList, ForwardMoment, ForwardQueries, ForwardTitle, KnowledgeForm, ReplyParser,
};
use super::kinship::kinship_meanings;
use super::memory::QuestionMemory;
use super::parameters::MigresParameters;
use super::reply::{CitedInfo, LeafReply, MainReply, read_leaf, read_main, read_queries};
use super::requests::{MigresSettings, TITLE};
use super::retrieval::{RetrievalRound, next_response};
use super::voting::{MainVerdict, commonest_answer, decide_main, merge_leaves};
use crate::knowledge::KnowledgePiece;
use crate::knowledge::compression::compressed_text;
use crate::machine::{Machine, MachineStep, Question};
use crate::outcome::Outcome;
use crate::ranking;
use crate::request::{EntailPayload, Request};
use crate::response::{Failure, FailureKind, Response};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most characters of a text in a failure's message.
const SHOWN_TEXT: usize = 300;

/// One question.
pub(super) struct MigresMachine {
    settings: Arc<MigresSettings>,
    question: String,
    memory: QuestionMemory,
    round: RetrievalRound,
    /// Rounds of retrieval so far.
    rounds: u32,
    /// Statements known before this round.
    known_before: usize,
    missing: String,
    /// Notes and repairs so far.
    trace: Outcome,
    state: MigresState,
}

/// The response that the machine waits for.
enum MigresState {
    Start,
    Searched,
    Repeated,
    Ranked,
    SentencesRanked,
    /// Short texts of these selected passages, by position; the next one to ask about.
    Compressed(Vec<usize>, usize),
    Forwarded,
    /// Statements of a prompt with these parts of knowledge.
    Extracted(Vec<u32>),
    Entailed(Vec<CitedInfo>),
    Judged,
    Queried,
    /// The final answer; the parts of knowledge in its prompt.
    Finished(Vec<u32>),
}

type Stepped = Result<MachineStep, Failure>;

impl Machine for MigresMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let stepped = match std::mem::replace(&mut self.state, MigresState::Start) {
            MigresState::Start => Ok(self.begin()),
            MigresState::Searched => self.searched(responses),
            MigresState::Repeated => self.repeated(responses),
            MigresState::Ranked => self.ranked(responses),
            MigresState::SentencesRanked => self.sentences_ranked(responses),
            MigresState::Compressed(candidates, next) => self.compressed(candidates, next, responses),
            MigresState::Forwarded => self.forwarded(responses),
            MigresState::Extracted(parts) => self.extracted(&parts, responses),
            MigresState::Entailed(infos) => self.entailed(infos, responses),
            MigresState::Judged => self.judged(responses),
            MigresState::Queried => self.queried(responses),
            MigresState::Finished(parts) => self.finished(&parts, responses),
        };
        stepped.unwrap_or_else(|failure| {
            let trace = std::mem::take(&mut self.trace);
            let format = (trace.repairs > 0).then_some(false);
            MachineStep::Done(Outcome {
                notes: trace.notes,
                repairs: trace.repairs,
                format,
                ..Outcome::failed(failure)
            })
        })
    }
}

impl MigresMachine {
    pub(super) fn new(settings: Arc<MigresSettings>, question: &Question) -> Self {
        Self {
            settings,
            question: question.text.clone(),
            memory: QuestionMemory::default(),
            round: RetrievalRound::default(),
            rounds: 0,
            known_before: 0,
            missing: String::new(),
            trace: Outcome::default(),
            state: MigresState::Start,
        }
    }

    fn parameters(&self) -> &MigresParameters {
        &self.settings.parameters
    }

    fn ask(&mut self, state: MigresState, requests: Vec<Request>) -> MachineStep {
        self.state = state;
        MachineStep::Ask(requests)
    }

    fn begin(&mut self) -> MachineStep {
        if self.parameters().kinship {
            for meaning in kinship_meanings(&self.question) {
                self.memory.learn(meaning);
            }
        }
        self.memory.note_query(&self.question);
        self.search(vec![self.question.clone()])
    }

    fn search(&mut self, queries: Vec<String>) -> MachineStep {
        self.rounds += 1;
        self.known_before = self.memory.known().len();
        self.round = RetrievalRound::new(queries);
        let requests = self.round.search_requests(self.parameters());
        self.ask(MigresState::Searched, requests)
    }

    fn searched(&mut self, responses: Vec<Response>) -> Stepped {
        let again = self.round.take_hits(responses, &self.settings.parameters)?;
        if again.is_empty() { self.rank() } else { Ok(self.ask(MigresState::Repeated, again)) }
    }

    fn repeated(&mut self, responses: Vec<Response>) -> Stepped {
        self.round.take_repeated(responses, &self.settings.parameters)?;
        self.rank()
    }

    fn rank(&mut self) -> Stepped {
        let requests = self.round.rerank_requests(&self.settings.parameters);
        if requests.is_empty() { self.filter_by_memory() } else { Ok(self.ask(MigresState::Ranked, requests)) }
    }

    fn ranked(&mut self, responses: Vec<Response>) -> Stepped {
        self.round.take_relevances(responses, &self.settings.parameters)?;
        match self.parameters().knowledge {
            KnowledgeForm::Whole => {
                self.round.keep_whole(&self.settings.parameters);
                self.filter_by_memory()
            }
            KnowledgeForm::Sentences => {
                let requests = self.round.sentence_requests(&self.settings.parameters);
                if requests.is_empty() {
                    return self.sentences_ranked(Vec::new());
                }
                Ok(self.ask(MigresState::SentencesRanked, requests))
            }
            KnowledgeForm::Summ | KnowledgeForm::Snippet => {
                let MigresParameters { most_shown, shortest_passage, most_compressed, .. } = *self.parameters();
                let may_show = |piece: &KnowledgePiece| self.memory.may_show(piece, most_shown, shortest_passage);
                let selected = self.round.selected.iter().enumerate();
                let candidates = selected.filter(|(_, selected)| may_show(&self.round.whole_piece(selected)));
                let candidates = candidates.map(|(at, _)| at).take(most_compressed as usize).collect();
                self.compress(candidates, 0)
            }
        }
    }

    fn sentences_ranked(&mut self, responses: Vec<Response>) -> Stepped {
        self.round.keep_sentences(responses, &self.settings.parameters)?;
        self.filter_by_memory()
    }

    /// Asks for short texts of as many candidates as are still to be shown.
    fn compress(&mut self, candidates: Vec<usize>, from: usize) -> Stepped {
        let wanted = (self.parameters().passages as usize).saturating_sub(self.round.shown.len());
        let batch = &candidates[from..(from + wanted).min(candidates.len())];
        if batch.is_empty() {
            return self.read_shown();
        }
        let step = if self.parameters().knowledge == KnowledgeForm::Summ { "summ" } else { "snippet" };
        let request = |&at: &usize| {
            let selected = &self.round.selected[at];
            let query = &self.round.queries[selected.query];
            self.settings.compression_request(step, &self.round.whole_piece(selected), query)
        };
        let requests = batch.iter().map(request).collect();
        Ok(self.ask(MigresState::Compressed(candidates, from), requests))
    }

    fn compressed(&mut self, candidates: Vec<usize>, from: usize, responses: Vec<Response>) -> Stepped {
        let wanted = (self.parameters().passages as usize).saturating_sub(self.round.shown.len());
        let end = (from + wanted).min(candidates.len());
        let mut responses = responses.into_iter();
        for &at in &candidates[from..end] {
            let text = next_response(&mut responses)?.generation()?.text;
            if let Some(text) = compressed_text(&text, self.parameters().irrelevant) {
                let piece = self.round.shortened_piece(&self.round.selected[at], text);
                self.round.shown.push(piece);
            }
        }
        self.round.pieces = self.round.shown.clone();
        self.compress(candidates, end)
    }

    fn filter_by_memory(&mut self) -> Stepped {
        let MigresParameters { most_shown, shortest_passage, .. } = *self.parameters();
        let may_show = |piece: &&KnowledgePiece| self.memory.may_show(piece, most_shown, shortest_passage);
        self.round.shown = self.round.pieces.iter().filter(may_show).cloned().collect();
        self.read_shown()
    }

    fn read_shown(&mut self) -> Stepped {
        if !self.round.shown.is_empty() {
            return Ok(self.read_pieces());
        }
        let parameters = self.parameters();
        let is_time = match parameters.forward_when {
            ForwardMoment::NothingLeft => true,
            ForwardMoment::NothingRelevant => self.round.selected.is_empty(),
        };
        if !(parameters.forward && is_time) {
            return Ok(self.conclude_round());
        }
        let most = match parameters.forward_queries {
            ForwardQueries::First => 1,
            ForwardQueries::Each => self.round.queries.len(),
        };
        let requests = self.round.queries.iter().take(most).map(|query| self.settings.forward_request(query)).collect();
        Ok(self.ask(MigresState::Forwarded, requests))
    }

    fn forwarded(&mut self, responses: Vec<Response>) -> Stepped {
        let title = match self.parameters().forward_title {
            ForwardTitle::Omitted => None,
            ForwardTitle::None => Some("None".to_owned()),
        };
        if responses.is_empty() {
            Response::only(Vec::new())?;
        }
        for (query, response) in responses.into_iter().enumerate() {
            let text = response.generation()?.text.trim().to_owned();
            let refused = self.parameters().refused_words.iter().any(|word| text.contains(word.as_str()));
            if !text.is_empty() && !refused {
                self.trace.add_note("knowledge", &*text);
                let piece = KnowledgePiece { passage: None, title: title.clone(), text, is_whole: false, query };
                self.round.shown.push(piece);
            }
        }
        self.round.pieces = self.round.shown.clone();
        if self.round.shown.is_empty() { Ok(self.conclude_round()) } else { Ok(self.read_pieces()) }
    }

    /// Shows the pieces to the leaf module; without iterations to the final one.
    fn read_pieces(&mut self) -> MachineStep {
        for piece in &self.round.shown {
            self.memory.note_shown(piece, &self.round.queries[piece.query]);
        }
        self.trace.add_note("shown", self.round.shown.len().to_string());
        if self.parameters().iterations == 0 {
            let (requests, parts) = self.settings.direct_requests(&self.round.shown, &self.question);
            return self.ask(MigresState::Finished(parts), requests);
        }
        let question = self.settings.leaf_question(&self.round.shown, &self.round.queries);
        let (requests, parts) = self.settings.leaf_requests(&self.round.shown, &question);
        self.ask(MigresState::Extracted(parts), requests)
    }

    fn extracted(&mut self, parts: &[u32], responses: Vec<Response>) -> Stepped {
        self.note_knowledge_tokens(parts, &responses);
        let most = self.parameters().most_infos as usize;
        let parser = self.parameters().parser;
        let read = |text: &str| read_leaf(text, parser, most);
        let replies = self.read_replies("leaf", responses, read, |reply: &LeafReply| reply.is_repaired)?;
        let mut infos = merge_leaves(replies, self.parameters());
        let listed = match self.parameters().citations {
            CitationList::Shown => self.round.shown.len(),
            CitationList::Unfiltered => self.round.pieces.len(),
        };
        for info in &mut infos {
            info.citations.retain(|&cited| cited < listed);
        }
        infos.retain(|info| !info.citations.is_empty());
        let Some(entailer) = self.parameters().entailer.clone().filter(|_| !infos.is_empty()) else {
            return Ok(self.learn(&infos));
        };
        let pairs = infos.iter().flat_map(|info| info.citations.iter().map(move |&cited| (info, cited)));
        let request = |(info, cited): (&CitedInfo, usize)| {
            let premise = self.cited_pieces()[cited].premise(TITLE);
            Request::new(&entailer, EntailPayload { premise, hypothesis: info.info.clone() }).at_step("entail")
        };
        let requests = pairs.map(request).collect();
        Ok(self.ask(MigresState::Entailed(infos), requests))
    }

    /// The pieces that citations count.
    fn cited_pieces(&self) -> &[KnowledgePiece] {
        match self.parameters().citations {
            CitationList::Shown => &self.round.shown,
            CitationList::Unfiltered => &self.round.pieces,
        }
    }

    fn entailed(&mut self, infos: Vec<CitedInfo>, responses: Vec<Response>) -> Stepped {
        let mut responses = responses.into_iter();
        let least = self.parameters().entailed_at;
        let mut kept = Vec::new();
        for info in infos {
            let mut is_entailed = false;
            for _ in &info.citations {
                is_entailed |= next_response(&mut responses)?.entailment()? >= least;
            }
            if is_entailed {
                kept.push(info);
            } else {
                self.trace.add_note("unentailed", info.info);
            }
        }
        Ok(self.learn(&kept))
    }

    /// Remembers new statements, and the passages that they cite: each once, as the code has it. What is known already
    /// cites nothing more.
    fn learn(&mut self, infos: &[CitedInfo]) -> MachineStep {
        let mut cited_passages = BTreeSet::new();
        for info in infos {
            if self.memory.learn(&info.info) {
                self.trace.add_note("info", &*info.info);
                cited_passages.extend(info.citations.iter().filter_map(|&cited| self.cited_pieces()[cited].passage));
            }
        }
        for passage in cited_passages {
            self.memory.note_cited(passage);
        }
        self.conclude_round()
    }

    fn conclude_round(&mut self) -> MachineStep {
        let parameters = self.parameters();
        let found_nothing = self.memory.known().len() == self.known_before;
        let skips_main = parameters.skip_main && found_nothing && self.rounds > 1;
        let is_last = self.rounds > parameters.iterations;
        let requests = match (is_last, skips_main) {
            (true, true) if parameters.barren_end == BarrenEnd::Lose => {
                self.trace.add_note("lost", "the last round found nothing new");
                return MachineStep::Done(self.outcome(None));
            }
            (true, _) => {
                let requests = self.settings.final_requests(self.memory.known(), &self.question);
                return self.ask(MigresState::Finished(Vec::new()), requests);
            }
            (false, true) => return self.ask_queries(),
            (false, false) => self.settings.main_requests(self.memory.known(), &self.question),
        };
        self.ask(MigresState::Judged, requests)
    }

    fn judged(&mut self, responses: Vec<Response>) -> Stepped {
        let parser = self.parameters().parser;
        let read = |text: &str| read_main(text, parser);
        let replies = self.read_replies("main", responses, read, |reply: &MainReply| reply.is_repaired)?;
        match decide_main(replies, self.parameters()) {
            Some(MainVerdict::Answered(reply)) => return Ok(MachineStep::Done(self.outcome(Some(reply)))),
            Some(MainVerdict::Missing(reply)) => {
                let is_short = reply.missing.chars().count() < self.parameters().shortest_missing as usize;
                self.trace.add_note("explanation", &*reply.explanation);
                self.trace.add_note("missing", &*reply.missing);
                self.missing = if is_short { reply.explanation } else { reply.missing };
            }
            None => self.missing.clear(),
        }
        Ok(self.ask_queries())
    }

    fn ask_queries(&mut self) -> MachineStep {
        let history = self.memory.history(self.parameters().history);
        let request = self.settings.query_request(self.memory.known(), history, &self.missing, &self.question);
        self.ask(MigresState::Queried, vec![request])
    }

    fn queried(&mut self, responses: Vec<Response>) -> Stepped {
        let text = Response::only(responses)?.generation()?.text;
        let MigresParameters { parser, shortest_query, most_queries, history, .. } = *self.parameters();
        let mut queries = read_queries(&text, parser, shortest_query as usize, self.memory.history(history));
        queries.truncate(most_queries as usize);
        if queries.is_empty() {
            queries.push(self.question.clone());
        }
        for query in &queries {
            self.memory.note_query(query);
            self.trace.add_note("query", &**query);
        }
        Ok(self.search(queries))
    }

    fn finished(&mut self, parts: &[u32], responses: Vec<Response>) -> Stepped {
        self.note_knowledge_tokens(parts, &responses);
        let parser = self.parameters().parser;
        let last = responses.last().and_then(|response| response.result.as_ref().ok()).cloned();
        let read = |text: &str| read_main(text, parser);
        let replies = self.read_replies("final", responses, read, |reply: &MainReply| reply.is_repaired)?;
        let votes: Vec<&MainReply> = replies.iter().collect();
        match commonest_answer(&votes) {
            Some(reply) => Ok(MachineStep::Done(self.outcome(Some(reply.clone())))),
            None => {
                let text = last.and_then(|answer| Response::answer(answer, <_>::default()).generation().ok());
                Err(unread_reply("final", &text.unwrap_or_default().text))
            }
        }
    }

    /// Reads the reply of each draw. What cannot be read is left out and noted; the authors' code gives such a question
    /// up.
    fn read_replies<T>(
        &mut self,
        module: &str,
        responses: Vec<Response>,
        read: impl Fn(&str) -> Option<T>,
        is_repaired: impl Fn(&T) -> bool,
    ) -> Result<Vec<T>, Failure> {
        if responses.is_empty() {
            Response::only(Vec::new())?;
        }
        let mut replies = Vec::new();
        for response in responses {
            let text = response.generation()?.text;
            let reply = read(&text);
            self.trace.repairs += u32::from(reply.as_ref().is_none_or(&is_repaired));
            match reply {
                Some(reply) => replies.push(reply),
                None if self.parameters().parser == ReplyParser::Code => return Err(unread_reply(module, &text)),
                None => self.trace.add_note("unread", text),
            }
        }
        Ok(replies)
    }

    /// Notes the tokens of the shown pieces, if the service counted them.
    fn note_knowledge_tokens(&mut self, parts: &[u32], responses: &[Response]) {
        let report = responses.first().and_then(|response| response.prompt.as_ref());
        let Some(report) = report.filter(|report| self.parameters().count_knowledge && !report.part_tokens.is_empty())
        else {
            return;
        };
        let tokens: u32 = parts.iter().filter_map(|&part| report.part_tokens.get(part as usize)).sum();
        self.trace.add_note("knowledge_tokens", tokens.to_string());
    }

    fn outcome(&mut self, reply: Option<MainReply>) -> Outcome {
        let mut outcome = std::mem::take(&mut self.trace);
        if let Some(MainReply { answer, confidence, explanation, .. }) = reply {
            outcome.add_note("explanation", explanation);
            outcome.add_note("confidence", confidence.to_string());
            outcome.answer = Some(answer);
        }
        outcome.ranked = ranking::by_position(self.memory.ranked_passages());
        outcome.iterations = self.rounds;
        outcome.format = Some(outcome.repairs == 0);
        outcome
    }
}

/// The failure of a module whose reply cannot be read.
fn unread_reply(module: &str, text: &str) -> Failure {
    let shown: String = text.chars().take(SHOWN_TEXT).collect();
    Failure { kind: FailureKind::ParseFailure, message: format!("{module}: no answer can be made out in: {shown}") }
}
