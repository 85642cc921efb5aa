//! The requests of the generator's modules.

use super::choices::LeafQuestion;
use super::parameters::MigresParameters;
use super::prompts::ModulePrompts;
use crate::knowledge::{KnowledgePiece, TitleFrame};
use crate::prompt::{ChatRole, LengthLimit, OverflowRule};
use crate::request::{GeneratePayload, Request, TextFormat};
use crate::template::PromptBuilder;

/// The title of a passage in a prompt.
pub(super) const TITLE: TitleFrame = TitleFrame { before: "(Title: ", between: ") " };

/// The settings of a configuration, shared by its machines.
#[derive(Debug)]
pub(super) struct MigresSettings {
    pub(super) parameters: MigresParameters,
    pub(super) prompts: ModulePrompts,
}

/// Statements as the prompts list them.
fn listed(infos: &[String]) -> String {
    if infos.is_empty() { "None".to_owned() } else { infos.join("; ") }
}

impl MigresSettings {
    fn new_builder(&self) -> PromptBuilder {
        let mut builder = PromptBuilder::new();
        if !self.parameters.system.is_empty() {
            builder.speak_as(ChatRole::System);
            builder.text(&self.parameters.system);
            builder.speak_as(ChatRole::User);
        }
        builder
    }

    fn generate(&self, step: &'static str, builder: PromptBuilder, is_object: bool) -> Request {
        let parameters = &self.parameters;
        let generate = GeneratePayload {
            prompt: builder.finish(),
            max_tokens: parameters.max_tokens,
            stop: Vec::new(),
            sampling: parameters.token_sampling(),
            format: if is_object && parameters.json { TextFormat::Json } else { TextFormat::Text },
            logprobs: false,
        };
        Request::new(&parameters.generator, generate).at_step(step)
    }

    /// One request for each draw.
    fn drawn(&self, request: &Request) -> Vec<Request> {
        (0..self.parameters.draws).map(|draw| Request { draw, ..request.clone() }).collect()
    }

    /// Can the question be answered by what is known?
    pub(super) fn main_requests(&self, known: &[String], question: &str) -> Vec<Request> {
        let mut builder = self.new_builder();
        self.prompts.main.append_to(&mut builder, |field, builder| match field {
            "information" => builder.text(&listed(known)),
            _ => builder.text(question),
        });
        self.drawn(&self.generate("main", builder, true))
    }

    /// The answer at the end of the iterations.
    pub(super) fn final_requests(&self, known: &[String], question: &str) -> Vec<Request> {
        let mut builder = self.new_builder();
        self.prompts.last.append_to(&mut builder, |field, builder| match field {
            "information" => builder.text(&listed(known)),
            _ => builder.text(question),
        });
        self.drawn(&self.generate("final", builder, true))
    }

    /// Statements of the pieces; also the parts of the prompt that hold them.
    pub(super) fn leaf_requests(&self, pieces: &[KnowledgePiece], question: &str) -> (Vec<Request>, Vec<u32>) {
        let mut builder = self.new_builder();
        let mut parts = Vec::new();
        self.prompts.leaf.append_to(&mut builder, |field, builder| match field {
            "passages" => parts = append_passages(builder, pieces),
            _ => builder.text(question),
        });
        self.bound_knowledge(&mut builder, &parts);
        (self.drawn(&self.generate("leaf", builder, true)), parts)
    }

    /// The answer without iterations, from the pieces themselves; also the parts of the prompt that hold them.
    pub(super) fn direct_requests(&self, pieces: &[KnowledgePiece], question: &str) -> (Vec<Request>, Vec<u32>) {
        let mut builder = self.new_builder();
        let mut parts = Vec::new();
        self.prompts.direct.append_to(&mut builder, |field, builder| match field {
            "passages" => parts = append_passages(builder, pieces),
            _ => builder.text(question),
        });
        self.bound_knowledge(&mut builder, &parts);
        (self.drawn(&self.generate("final", builder, true)), parts)
    }

    fn bound_knowledge(&self, builder: &mut PromptBuilder, parts: &[u32]) {
        if let Some(tokens) = self.parameters.context_tokens {
            builder.budget(Some(tokens));
            for &part in parts.iter().rev() {
                builder.overflow(OverflowRule::Cut { part, to: LengthLimit::Tokens(0) });
            }
        }
        if self.parameters.count_knowledge {
            builder.count_parts();
        }
    }

    /// New queries for what is missing.
    pub(super) fn query_request(&self, known: &[String], history: &[String], missing: &str, question: &str) -> Request {
        let mut builder = self.new_builder();
        self.prompts.query.append_to(&mut builder, |field, builder| match field {
            "history" if history.is_empty() => builder.text("None"),
            "history" => builder.text(&history.join(" ")),
            "information" => builder.text(&listed(known)),
            "missing" if missing.is_empty() => builder.text("None"),
            "missing" => builder.text(missing),
            _ => builder.text(question),
        });
        self.generate("query", builder, false)
    }

    /// What the generator knows about a query.
    pub(super) fn forward_request(&self, query: &str) -> Request {
        let mut builder = self.new_builder();
        self.prompts.forward.append_to(&mut builder, |_, builder| builder.text(query));
        self.generate("forward", builder, false)
    }

    /// A short text of a passage.
    pub(super) fn compression_request(&self, step: &'static str, piece: &KnowledgePiece, query: &str) -> Request {
        let mut builder = self.new_builder();
        self.prompts.compression.append_to(&mut builder, |field, builder| match field {
            "passage" => {
                piece.append_to(builder, TITLE);
            }
            _ => builder.text(query),
        });
        self.generate(step, builder, false)
    }

    /// The question of the leaf module.
    pub(super) fn leaf_question(&self, pieces: &[KnowledgePiece], queries: &[String]) -> String {
        let is_asked = |at: usize| match self.parameters.leaf_question {
            LeafQuestion::All => true,
            LeafQuestion::Shown => pieces.iter().any(|piece| piece.query == at),
        };
        let asked = queries.iter().enumerate().filter(|&(at, _)| is_asked(at)).map(|(_, query)| query.as_str());
        asked.collect::<Vec<_>>().join(" ")
    }
}

/// Numbers the pieces from 0; returns the parts that hold them.
fn append_passages(builder: &mut PromptBuilder, pieces: &[KnowledgePiece]) -> Vec<u32> {
    let append = |(at, piece): (usize, &KnowledgePiece)| {
        builder.text(&format!("{}Passage {at}: ", if at > 0 { "\n" } else { "" }));
        piece.append_to(builder, TITLE)
    };
    pieces.iter().enumerate().map(append).collect()
}
