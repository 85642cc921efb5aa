//! The rows of the five tables, with the columns of `ops/train/rows.py` in its order.

/// A chunk beside a query, for the labeler. The first six columns are those of the authors' files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelerRow {
    /// The hop's query.
    pub question: String,
    /// Title, colon, text.
    pub chunk: String,
    /// The kept words, with spaces between them.
    pub matched: String,
    /// The chunk's words.
    pub chunk_tokens: Vec<String>,
    /// Whether each word is kept.
    pub labels: Vec<bool>,
    /// `<CONTINUE>`, `<TERMINATE>` or `<FINISH>`.
    pub tag: &'static str,
    /// The question's id.
    pub question_id: String,
    /// The passage's id, else its title.
    pub passage: String,
    /// From 0.
    pub hop: i32,
}

/// A query with the information found, for the filter. The first two columns are those of the authors' files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterRow {
    /// The words of `Query: … Info: …`.
    pub query_info_tokens: Vec<String>,
    /// Whether the next query has each word.
    pub query_info_labels: Vec<bool>,
    /// The question's id.
    pub question_id: String,
    /// The hop of the information, from 0.
    pub hop: i32,
}

/// A path with its worth, for the scorer. The rows of a question stand together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScorerRow {
    /// The question's id.
    pub question_id: String,
    /// The question.
    pub question: String,
    /// Texts of the path's passages, first hop first.
    pub path: Vec<String>,
    /// 2: gold, and the whole branch or several passages of it; 1: a gold passage of a longer branch; 0: not gold.
    pub relevance: i8,
}

/// Passages with or without the answer, for the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderRow {
    /// The question's id.
    pub question_id: String,
    /// The question.
    pub question: String,
    /// Title, space, text.
    pub passages: Vec<String>,
    /// The answer in a passage's words, `yes` or `no`; empty if the passages are not gold.
    pub answer: String,
    /// 1 if the passages hold the answer, else 0.
    pub relevance: i8,
}

/// A query with the passage it should find, for the encoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncoderRow {
    /// The question's id.
    pub question_id: String,
    /// The hop's query.
    pub query: String,
    /// The gold passage: title, colon, text.
    pub positive: String,
    /// Other passages, best first, then those drawn at random.
    pub negatives: Vec<String>,
    /// From 0.
    pub hop: i32,
}

/// The rows of one question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionRows {
    /// For `labeler.parquet`.
    pub labeler: Vec<LabelerRow>,
    /// For `filter.parquet`.
    pub filter: Vec<FilterRow>,
    /// For `scorer.parquet`.
    pub scorer: Vec<ScorerRow>,
    /// For `reader.parquet`.
    pub reader: Vec<ReaderRow>,
    /// For `encoder.parquet`.
    pub encoder: Vec<EncoderRow>,
}

/// `Query: … Info: …; Info: …` as words, in the making.
pub(crate) struct QueryInfo {
    pub(crate) tokens: Vec<String>,
    /// Whether each word is the template's own; the next query never has these.
    pub(crate) template: Vec<bool>,
}

impl QueryInfo {
    /// The words of a query, and the information of each continuing chunk.
    pub(crate) fn new<'w>(
        query: impl IntoIterator<Item = &'w str>,
        information: impl IntoIterator<Item = Vec<&'w str>>,
    ) -> Self {
        let mut made = Self { tokens: Vec::new(), template: Vec::new() };
        made.push(["Query", ":"], true);
        made.push(query, false);
        for (at, words) in information.into_iter().enumerate() {
            if at > 0 {
                made.push([";"], true);
            }
            made.push(["Info", ":"], true);
            made.push(words, false);
        }
        made
    }

    fn push<'w>(&mut self, words: impl IntoIterator<Item = &'w str>, template: bool) {
        self.tokens.extend(words.into_iter().map(str::to_owned));
        self.template.resize(self.tokens.len(), template);
    }
}
