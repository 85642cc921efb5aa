//! The mapping of a question's fields, and questions read by it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::path::FieldPath;
use super::{FoundFields, from_pairs, values};
use crate::columns::NestedTable;
use crate::error::FieldError;
use crate::format::FormatError;
use crate::formats::{extend_distinct, hotpotqa, world};
use crate::gold::GoldMatch;
use crate::passage::PassageRecord;
use crate::question::{GoldPassage, Question};
use crate::value::{FieldResult, JsonValue};

/// Paths of a question's fields in a row. A field without a path is not read, but `id` and `question` are then read
/// under these names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FieldMapping {
    /// The question's id: a text or a whole number. A row without one gets `fields-<n>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<FieldPath>,
    /// Its text. Required in every row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<FieldPath>,
    /// The right answers: one, a list, or lists of aliases. The first is the gold answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<FieldPath>,
    /// Gold passages: ids, or objects with `id`, `title`, `text`, `grade`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gold: Option<FieldPath>,
    /// Ids of gold passages in the corpus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gold_ids: Option<FieldPath>,
    /// Titles of gold passages; of equal ones the first counts, unless there are texts or ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gold_titles: Option<FieldPath>,
    /// Texts of gold passages, beside `gold_titles`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gold_texts: Option<FieldPath>,
    /// Passages given with the question: texts, pairs, or objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contexts: Option<FieldPath>,
    /// Ids of the given passages, beside `context_texts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_ids: Option<FieldPath>,
    /// Titles of the given passages, beside `context_texts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_titles: Option<FieldPath>,
    /// Texts of the given passages, or their sentences, in place of `contexts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_texts: Option<FieldPath>,
    /// Gold sentences: pairs `[title, index of the sentence]`, or columns `title` and `sent_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supporting_facts: Option<FieldPath>,
    /// The question's type, a stratum.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<FieldPath>,
    /// Its level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<FieldPath>,
    /// Its number of hops, a stratum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hops: Option<FieldPath>,
    /// Whether it has an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answerable: Option<FieldPath>,
    /// Further strata, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub strata: BTreeMap<String, FieldPath>,
}

impl FieldMapping {
    /// Reads pairs `NAME=PATH`. The name `strata.NAME` maps the stratum NAME.
    ///
    /// # Errors
    /// An unknown name, one that stands twice, an empty path.
    pub fn from_pairs(pairs: &[(String, String)]) -> Result<Self, FormatError> {
        from_pairs(pairs)
    }

    /// The mapping of a file that has hopeval's own names.
    fn own_names() -> Self {
        let own = |name: &str| Some(FieldPath::from(name));
        Self {
            id: own("id"),
            question: own("question"),
            answers: own("answers"),
            gold: own("gold"),
            gold_ids: own("gold_ids"),
            gold_titles: own("gold_titles"),
            gold_texts: own("gold_texts"),
            contexts: own("contexts"),
            context_ids: own("context_ids"),
            context_titles: own("context_titles"),
            context_texts: own("context_texts"),
            supporting_facts: own("supporting_facts"),
            kind: own("type"),
            level: own("level"),
            hops: own("hops"),
            answerable: own("answerable"),
            strata: BTreeMap::new(),
        }
    }

    /// The rule that makes a passage gold, unless a job sets another: by the fields that are mapped.
    pub fn gold_match(&self) -> GoldMatch {
        if self.gold.is_some() || self.gold_ids.is_some() || self.gold_titles.is_none() {
            GoldMatch::Id
        } else if self.gold_texts.is_some() {
            GoldMatch::TitleAndText
        } else {
            GoldMatch::Title
        }
    }

    /// Refuses fields that exclude each other, or need another.
    ///
    /// # Errors
    /// [`FormatError::Mapping`] names them.
    pub fn check(&self) -> Result<(), FormatError> {
        let wrong = |found: &str, allowed| Err(FormatError::Mapping { found: found.to_owned(), allowed });
        let gold_lists = self.gold_ids.is_some() || self.gold_titles.is_some() || self.gold_texts.is_some();
        let context_lists = self.context_titles.is_some() || self.context_ids.is_some();
        if self.gold.is_some() && gold_lists {
            return wrong("`gold` beside `gold_ids`, `gold_titles` or `gold_texts`", "`gold`, or these");
        }
        if self.gold_texts.is_some() && self.gold_titles.is_none() {
            return wrong("`gold_texts` without `gold_titles`", "both: a passage is told by title and text");
        }
        if self.contexts.is_some() && (context_lists || self.context_texts.is_some()) {
            return wrong(
                "`contexts` beside `context_ids`, `context_titles` or `context_texts`",
                "`contexts`, or these",
            );
        }
        if context_lists && self.context_texts.is_none() {
            return wrong("`context_ids` or `context_titles` without `context_texts`", "`context_texts` beside them");
        }
        Ok(())
    }

    /// The mapped fields with their paths.
    fn mapped(&self) -> impl Iterator<Item = (String, &FieldPath)> {
        let fields = [
            ("id", &self.id),
            ("question", &self.question),
            ("answers", &self.answers),
            ("gold", &self.gold),
            ("gold_ids", &self.gold_ids),
            ("gold_titles", &self.gold_titles),
            ("gold_texts", &self.gold_texts),
            ("contexts", &self.contexts),
            ("context_ids", &self.context_ids),
            ("context_titles", &self.context_titles),
            ("context_texts", &self.context_texts),
            ("supporting_facts", &self.supporting_facts),
            ("type", &self.kind),
            ("level", &self.level),
            ("hops", &self.hops),
            ("answerable", &self.answerable),
        ];
        let named = fields.into_iter().filter_map(|(name, path)| Some((name.to_owned(), path.as_ref()?)));
        named.chain(self.strata.iter().map(|(name, path)| (format!("strata.{name}"), path)))
    }
}

/// Reads questions by a mapping, and remembers which fields it found.
#[derive(Debug)]
pub(crate) struct MappedQuestions {
    mapping: FieldMapping,
    /// Whether every field of the mapping must be in some row: not of hopeval's own names, of which a file has a part.
    asked: bool,
    found: FoundFields,
}

impl MappedQuestions {
    /// Reads by `mapping`; without one, by hopeval's own names.
    pub(crate) fn new(mapping: Option<&FieldMapping>) -> Self {
        let asked = mapping.is_some();
        let mapping = mapping.cloned().unwrap_or_else(FieldMapping::own_names);
        Self { mapping, asked, found: FoundFields::default() }
    }

    /// Refuses a mapped field that none of the `rows` rows of `file`, and those after it, has.
    pub(crate) fn check_found(&self, file: &Path, rows: u64) -> Result<(), FormatError> {
        if self.asked { self.found.check(self.mapping.mapped(), file, rows) } else { Ok(()) }
    }

    /// The question of a row. `n` is its position in the dataset.
    pub(crate) fn read_question(&mut self, row: &JsonValue<'_>, n: u64) -> FieldResult<Question> {
        let Self { mapping, found, .. } = self;
        found.see_row(row);
        let own = |path: &Option<FieldPath>, name: &str| path.clone().unwrap_or_else(|| FieldPath::from(name));
        let text = found.required(row, "question", &own(&mapping.question, "question"), values::text)?;
        let id = found.optional(row, "id", Some(&own(&mapping.id, "id")), values::id)?;
        let mut read = FieldReader { row, found };
        let mut question = Question {
            id: id.unwrap_or_else(|| format!("fields-{n}")),
            text,
            answers: read.optional("answers", &mapping.answers, values::answers)?.unwrap_or_default(),
            gold: read.gold(mapping)?,
            candidates: read.candidates(mapping)?,
            supporting_facts: read
                .optional("supporting_facts", &mapping.supporting_facts, |value| {
                    hotpotqa::supporting_facts(&values::opened(value))
                })?
                .unwrap_or_default(),
            kind: read.optional("type", &mapping.kind, values::label)?,
            level: read.optional("level", &mapping.level, values::label)?,
            hops: read.optional("hops", &mapping.hops, values::count)?,
            answerable: read.optional("answerable", &mapping.answerable, values::truth)?,
            ..Question::default()
        };
        for (name, path) in &mapping.strata {
            let label = read.found.optional(row, &format!("strata.{name}"), Some(path), values::label)?;
            question.strata.extend(label.map(|label| (name.clone(), label)));
        }
        Ok(question)
    }
}

/// The fields of one row.
struct FieldReader<'r, 'v, 'a> {
    row: &'v JsonValue<'a>,
    found: &'r mut FoundFields,
}

impl FieldReader<'_, '_, '_> {
    fn optional<T>(
        &mut self,
        name: &str,
        path: &Option<FieldPath>,
        read: impl FnOnce(&JsonValue<'_>) -> FieldResult<T>,
    ) -> FieldResult<Option<T>> {
        self.found.optional(self.row, name, path.as_ref(), read)
    }

    /// A list; `None` if it is absent.
    fn list<T>(
        &mut self,
        name: &str,
        path: &Option<FieldPath>,
        read: impl FnMut(&JsonValue<'_>) -> FieldResult<T>,
    ) -> FieldResult<Option<Vec<T>>> {
        self.optional(name, path, |value| values::each_item(value, read))
    }

    fn gold(&mut self, mapping: &FieldMapping) -> FieldResult<Vec<GoldPassage>> {
        if let Some(gold) = self.list("gold", &mapping.gold, gold_passage)? {
            return Ok(gold);
        }
        let ids = self.list("gold_ids", &mapping.gold_ids, values::id)?;
        let titles = self.list("gold_titles", &mapping.gold_titles, values::string)?;
        let texts = self.list("gold_texts", &mapping.gold_texts, values::string)?;
        let paths = [&mapping.gold_ids, &mapping.gold_titles, &mapping.gold_texts];
        let lengths = [&ids, &titles, &texts].map(|list| list.as_ref().map(Vec::len));
        let length = common_length(&paths, &lengths)?;
        let mut gold = Vec::with_capacity(length);
        let [mut ids, mut titles, mut texts] = [ids, titles, texts].map(|list| list.unwrap_or_default().into_iter());
        for _ in 0..length {
            let passage =
                GoldPassage { id: ids.next(), title: titles.next(), text: texts.next(), ..GoldPassage::default() };
            // The titles of supporting facts repeat.
            extend_distinct(&mut gold, [passage]);
        }
        Ok(gold)
    }

    fn candidates(&mut self, mapping: &FieldMapping) -> FieldResult<Vec<PassageRecord>> {
        if let Some(candidates) = self.optional("contexts", &mapping.contexts, contexts)? {
            return Ok(candidates);
        }
        let ids = self.list("context_ids", &mapping.context_ids, values::id)?;
        let title = |value: &JsonValue<'_>| if *value == JsonValue::Null { Ok(String::new()) } else { value.string() };
        let titles = self.list("context_titles", &mapping.context_titles, title)?;
        let text = |value: &JsonValue<'_>| values::passage_text(String::new(), value);
        let texts = self.list("context_texts", &mapping.context_texts, text)?;
        let paths = [&mapping.context_texts, &mapping.context_titles, &mapping.context_ids];
        let lengths = [texts.as_ref().map(Vec::len), titles.as_ref().map(Vec::len), ids.as_ref().map(Vec::len)];
        common_length(&paths, &lengths)?;
        let [mut ids, mut titles] = [ids, titles].map(|list| list.unwrap_or_default().into_iter());
        let texts = texts.unwrap_or_default().into_iter();
        let named =
            texts.map(|text| PassageRecord { id: ids.next(), title: titles.next().unwrap_or_default(), ..text });
        Ok(named.collect())
    }
}

/// The length of lists that belong together; absent ones are left out.
fn common_length(paths: &[&Option<FieldPath>], lengths: &[Option<usize>]) -> FieldResult<usize> {
    let mut lists = paths.iter().zip(lengths).filter_map(|(path, length)| Some((path.as_ref()?.as_str(), (*length)?)));
    let Some((first, length)) = lists.next() else { return Ok(0) };
    match lists.find(|(_, other)| *other != length) {
        None => Ok(length),
        Some((path, other)) => {
            let allowed = format!("a list of {length}, as in `{first}`");
            Err(FieldError::new(format!("a list of {other}"), allowed).under_key(path))
        }
    }
}

/// A gold passage: its id, or an object.
fn gold_passage(value: &JsonValue<'_>) -> FieldResult<GoldPassage> {
    let JsonValue::Object(_) = value else {
        return Ok(GoldPassage { id: Some(value.id()?), ..GoldPassage::default() });
    };
    let gold = world::read_gold(value)?;
    if gold.id.is_none() && gold.title.is_none() {
        return Err(FieldError::new(value.describe(), "an id, or an object with `id`, or with `title`"));
    }
    Ok(gold)
}

/// Given passages: a list of them, or columns `title` with `sentences` or `text`.
fn contexts(value: &JsonValue<'_>) -> FieldResult<Vec<PassageRecord>> {
    let value = values::opened(value);
    if let JsonValue::Object(_) = &*value
        && !matches!(value.get("text"), Some(JsonValue::String(_)))
    {
        let columns = NestedTable::from_value(&value)?;
        let texts = if value.has("sentences") { "sentences" } else { "text" };
        let read = |index: usize| {
            let title = columns.optional_cell(index, "title", JsonValue::string)?.unwrap_or_default();
            let id = columns.optional_cell(index, "id", JsonValue::id)?;
            let passage = columns.required_cell(index, texts, |text| values::passage_text(title, text))?;
            Ok(PassageRecord { id, ..passage })
        };
        return (0..columns.len()).map(read).collect();
    }
    values::each_item(&value, values::passage)
}
