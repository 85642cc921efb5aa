//! Prompt templates: texts with fields in braces, such as `{question}`, cut once when a configuration is built.
//!
//! A template comes from `prompts/METHOD/*.txt`, in the project's own words, or from the job. A long literal piece
//! becomes a [`Fragment`], so that requests hold its digest; a short one stands in the request. A brace without the
//! name of a field behind it is text, so JSON in a prompt needs no escapes.

use crate::fragment::Fragment;
use crate::prompt::{ChatRole, Content, LengthLimit, OverflowRule, PassageForm, Prompt, PromptPart, ShotPacking};
use crate::request::PassageId;

/// Literal pieces of at least so many bytes are fragments: a digest takes 64 bytes of a request's payload.
const SHORTEST_FRAGMENT: usize = 160;

/// A text, cut at its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PromptTemplate {
    pieces: Vec<TemplatePiece>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TemplatePiece {
    /// A short literal text.
    Text(String),
    /// A long literal text.
    Shared(Fragment),
    /// A field, by its name without braces.
    Field(&'static str),
}

/// A mistake in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateMistake {
    /// The field.
    pub(crate) field: &'static str,
    /// The number of its places.
    pub(crate) places: usize,
}

impl PromptTemplate {
    /// Cuts `text` at `{FIELD}` for each of `fields`, each of which must be there exactly once.
    ///
    /// # Errors
    /// The first field that is missing or there twice.
    pub(crate) fn parse(text: &str, fields: &[&'static str]) -> Result<Self, TemplateMistake> {
        let mut places = Vec::with_capacity(fields.len());
        for &field in fields {
            let name = format!("{{{field}}}");
            let found: Vec<usize> = text.match_indices(&name).map(|(at, _)| at).collect();
            match found[..] {
                [at] => places.push((at, at + name.len(), field)),
                _ => return Err(TemplateMistake { field, places: found.len() }),
            }
        }
        places.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for (begin, end, field) in places {
            pieces.extend(literal_piece(&text[from..begin]));
            pieces.push(TemplatePiece::Field(field));
            from = end;
        }
        pieces.extend(literal_piece(&text[from..]));
        Ok(Self { pieces })
    }

    /// The pieces in order.
    pub(crate) fn pieces(&self) -> &[TemplatePiece] {
        &self.pieces
    }

    /// The texts that requests name by digest, for [`crate::Method::fragments`].
    pub(crate) fn fragments(&self) -> impl Iterator<Item = &Fragment> {
        self.pieces.iter().filter_map(|piece| match piece {
            TemplatePiece::Shared(fragment) => Some(fragment),
            TemplatePiece::Text(_) | TemplatePiece::Field(_) => None,
        })
    }

    /// Appends the template to `builder`; `fill` appends the value of each field.
    pub(crate) fn append_to(
        &self,
        builder: &mut PromptBuilder,
        mut fill: impl FnMut(&'static str, &mut PromptBuilder),
    ) {
        for piece in &self.pieces {
            match piece {
                TemplatePiece::Text(text) => builder.text(text),
                TemplatePiece::Shared(fragment) => builder.fragment(fragment),
                TemplatePiece::Field(field) => fill(field, builder),
            }
        }
    }
}

fn literal_piece(text: &str) -> Option<TemplatePiece> {
    match text.len() {
        0 => None,
        SHORTEST_FRAGMENT.. => Some(TemplatePiece::Shared(Fragment::new(text))),
        _ => Some(TemplatePiece::Text(text.to_owned())),
    }
}

/// Puts the parts of a prompt together. Adjacent literal texts of one role become one part, so a request's key does not
/// depend on the pieces in which its texts were given.
#[derive(Clone, Debug)]
pub(crate) struct PromptBuilder {
    role: ChatRole,
    parts: Vec<PromptPart>,
    /// Whether no text may join the last part.
    is_closed: bool,
    budget: Option<u32>,
    overflow: Vec<OverflowRule>,
    count_parts: bool,
    packing: Option<ShotPacking>,
}

impl PromptBuilder {
    /// An empty prompt; what is appended is the user's.
    pub(crate) fn new() -> Self {
        Self {
            role: ChatRole::User,
            parts: Vec::new(),
            is_closed: false,
            budget: None,
            overflow: Vec::new(),
            count_parts: false,
            packing: None,
        }
    }

    /// What follows is said by `role`.
    pub(crate) fn speak_as(&mut self, role: ChatRole) {
        self.role = role;
    }

    /// Appends a literal text.
    pub(crate) fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(PromptPart { role, content: Content::Text(last), truncate: None }) = self.parts.last_mut()
            && *role == self.role
            && !self.is_closed
        {
            last.push_str(text);
            return;
        }
        self.push(Content::Text(text.to_owned()), None);
    }

    /// Appends a literal text that is a part of its own, so that rules can name it. Returns the part's index.
    pub(crate) fn separate_text(&mut self, text: impl Into<String>, truncate: Option<LengthLimit>) -> u32 {
        let index = self.push(Content::Text(text.into()), truncate);
        self.is_closed = true;
        index
    }

    /// Appends a shared text.
    pub(crate) fn fragment(&mut self, fragment: &Fragment) {
        self.push(Content::Fragment(fragment.digest()), None);
    }

    /// Appends a passage. Returns the index of its part.
    pub(crate) fn passage(&mut self, passage: PassageId, form: PassageForm, truncate: Option<LengthLimit>) -> u32 {
        self.push(Content::Passage { passage, form }, truncate)
    }

    /// Appends a sentence of a passage. Returns the index of its part.
    pub(crate) fn sentence(&mut self, passage: PassageId, sentence: u32) -> u32 {
        self.push(Content::Sentence { passage, sentence }, None)
    }

    /// The index of the next part.
    pub(crate) fn next_part(&self) -> u32 {
        self.parts.len() as u32
    }

    /// The most tokens of the whole; `None` for the model's own limit.
    pub(crate) fn budget(&mut self, budget: Option<u32>) {
        self.budget = budget;
    }

    /// Leaves out demonstrations by their own counts.
    pub(crate) fn pack(&mut self, packing: ShotPacking) {
        self.packing = Some(packing);
    }

    /// Adds a rule for too long a prompt, to be applied after those before it.
    pub(crate) fn overflow(&mut self, rule: OverflowRule) {
        self.overflow.push(rule);
    }

    /// Wants the tokens of each part in the report.
    pub(crate) fn count_parts(&mut self) {
        self.count_parts = true;
    }

    /// The prompt.
    pub(crate) fn finish(self) -> Prompt {
        let Self { parts, budget, overflow, count_parts, packing, role: _, is_closed: _ } = self;
        Prompt { parts, budget, overflow, count_parts, packing }
    }

    fn push(&mut self, content: Content, truncate: Option<LengthLimit>) -> u32 {
        let index = self.next_part();
        self.parts.push(PromptPart { role: self.role, content, truncate });
        self.is_closed = false;
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_has_each_field_once() {
        let template = PromptTemplate::parse("Q: {question}\n{knowledge}", &["knowledge", "question"]).unwrap();
        let text = |text: &str| TemplatePiece::Text(text.to_owned());
        let field = TemplatePiece::Field;
        assert_eq!(template.pieces(), [text("Q: "), field("question"), text("\n"), field("knowledge")]);
        let mistake = |text, field| PromptTemplate::parse(text, &[field]).unwrap_err();
        assert_eq!(mistake("{a}", "b"), TemplateMistake { field: "b", places: 0 });
        assert_eq!(mistake("{b} {b}", "b"), TemplateMistake { field: "b", places: 2 });
    }

    #[test]
    fn braces_without_a_field_are_text() {
        let template = PromptTemplate::parse("{\"answer\": {question}}", &["question"]).unwrap();
        let mut builder = PromptBuilder::new();
        template.append_to(&mut builder, |_, builder| builder.text("who?"));
        assert_eq!(builder.finish().parts, [PromptPart::text("{\"answer\": who?}")]);
    }

    #[test]
    fn no_text_joins_a_separate_one() {
        let mut builder = PromptBuilder::new();
        builder.text("a");
        assert_eq!(builder.separate_text("b", None), 1);
        builder.text("c");
        builder.text("d");
        assert_eq!(builder.finish().parts, ["a", "b", "cd"].map(PromptPart::text));
    }

    #[test]
    fn long_pieces_are_shared_and_short_ones_join() {
        let long = "word ".repeat(40);
        let template = PromptTemplate::parse(&format!("{long}{{question}} A:"), &["question"]).unwrap();
        let fragment = template.fragments().next().unwrap();
        assert_eq!(&**fragment.text(), long);
        let mut builder = PromptBuilder::new();
        template.append_to(&mut builder, |_, builder| builder.text("who?"));
        builder.speak_as(ChatRole::Assistant);
        builder.text("So");
        let parts = builder.finish().parts;
        let continued = PromptPart { role: ChatRole::Assistant, ..PromptPart::text("So") };
        assert_eq!(parts, [PromptPart::fragment(fragment.digest()), PromptPart::text("who? A:"), continued]);
    }
}
