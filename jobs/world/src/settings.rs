//! The settings of a world, and the errors of bad settings.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The two kinds of worlds. Their names are disjoint, and a third of relations, templates and paraphrases occurs in
/// `eval` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorldSplit {
    /// For training models.
    Train,
    /// For evaluating them.
    Eval,
}

impl WorldSplit {
    /// The split's name on the command line and in ids.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Eval => "eval",
        }
    }
}

impl fmt::Display for WorldSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for WorldSplit {
    type Err = WorldError;

    fn from_str(s: &str) -> Result<Self, WorldError> {
        match s {
            "train" => Ok(Self::Train),
            "eval" => Ok(Self::Eval),
            _ => Err(WorldError::UnknownSplit { given: s.to_owned() }),
        }
    }
}

/// The frequency of each kind of question, as weights. A kind of weight 0 never occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuestionMix {
    /// Two passages in a chain.
    pub two_hop: u32,
    /// Three passages in a chain.
    pub three_hop: u32,
    /// Four passages in a chain.
    pub four_hop: u32,
    /// Two passages compared.
    pub comparison: u32,
    /// Two chains of two passages compared.
    pub bridge_comparison: u32,
}

impl Default for QuestionMix {
    /// HotpotQA's proportions of bridge to comparison, plus a share of longer chains.
    fn default() -> Self {
        Self { two_hop: 64, three_hop: 6, four_hop: 3, comparison: 23, bridge_comparison: 4 }
    }
}

impl QuestionMix {
    pub(crate) fn total(&self) -> u64 {
        [self.two_hop, self.three_hop, self.four_hop, self.comparison, self.bridge_comparison]
            .iter()
            .map(|&w| u64::from(w))
            .sum()
    }
}

/// The difficulty of questions for a retriever. All shares are in thousandths. The defaults are calibrated so that the
/// recall of BM25 and of TF-IDF, the lengths and the word overlap resemble HotpotQA's (tested in
/// `tests/calibration.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difficulty {
    /// Entities that share their whole name with another of their pool. At most 4000 (four later holders for each
    /// name).
    pub name_collisions: u32,
    /// Persons per surname, on average.
    pub persons_per_surname: u32,
    /// Mentions of the linking entity (a director's page names a film), per such link tried.
    pub back_links: u32,
    /// Filler sentences with a mention of an unrelated entity, so that a name is found in many passages.
    pub asides: u32,
    /// Well-known entities among those mentions and among the first entities of questions. So questions are about often
    /// mentioned entities.
    pub fame: u32,
    /// Mentions of a person with an initial for the given names, except mentions in facts.
    pub initials: u32,
    /// Leads about a person with a middle name between the names of the title.
    pub middle_names: u32,
    /// Sentences of a passage with its entity's whole name, and not a surname, a noun or a pronoun.
    pub full_names: u32,
    /// Asides about the same entity as the passage's last aside.
    pub dwelling: u32,
    /// Asides that mention an entity only through one of its relations (`the director of Pale Harbor`), as questions
    /// do.
    pub oblique: u32,
    /// Relations worded in the question as in the passage of the fact.
    pub echo: u32,
    /// Chains drawn with a second passage that also mentions the first.
    pub reciprocal: u32,
    /// Bridges described in the question with words of the bridge's own passage.
    pub overlap: u32,
    /// Median length of a passage, in words.
    pub median_words: u32,
    /// Standard deviation of the logarithm of that length.
    pub spread: u32,
}

impl Default for Difficulty {
    fn default() -> Self {
        Self {
            name_collisions: 500,
            persons_per_surname: 12,
            back_links: 900,
            asides: 880,
            fame: 900,
            initials: 300,
            middle_names: 500,
            full_names: 700,
            dwelling: 350,
            oblique: 4,
            echo: 900,
            reciprocal: 690,
            overlap: 930,
            median_words: 84,
            spread: 520,
        }
    }
}

/// A world to generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorldSettings {
    /// The number of questions.
    pub questions: u64,
    /// The number of passages.
    pub passages: u64,
    /// The seed. Worlds of different seeds have different ids.
    pub seed: u64,
    /// The split.
    pub split: WorldSplit,
    /// The frequency of each kind of question.
    pub mix: QuestionMix,
    /// Passages given with each question, including the gold ones.
    pub candidates: u32,
    /// Distractors among those passages that state a relation of the question's facts, of another subject, as far as
    /// there is room and the world has them. With few of them a reader can guess the answer of a long chain by its kind
    /// (Min et al. 2019); MuSiQue (Trivedi et al. 2022) chooses its distractors against that. None are drawn on purpose
    /// by default, as in the first worlds.
    pub rivals: u32,
    /// Whether those passages are written with each question. Otherwise they are only named, to be looked up in the
    /// corpus: ten times smaller.
    pub candidate_texts: bool,
    /// The difficulty for a retriever.
    pub difficulty: Difficulty,
}

impl WorldSettings {
    /// The largest number of questions that are written to a file: some 5 GB of them.
    pub const MOST_QUESTIONS: u64 = 10_000_000;
    /// The least number of passages. In a smaller world some class of entities would be too small to draw from.
    pub const LEAST_PASSAGES: u64 = 400;
    /// The largest number of passages. In a larger world titles would run out.
    pub const MOST_PASSAGES: u64 = 3_000_000;
    /// The least number of candidates: a bridge comparison has four gold passages.
    pub const LEAST_CANDIDATES: u32 = 4;
    /// The largest number of candidates.
    pub const MOST_CANDIDATES: u32 = 50;

    /// Default settings with the given size, seed and split.
    pub fn new(questions: u64, passages: u64, seed: u64, split: WorldSplit) -> Self {
        Self {
            questions,
            passages,
            seed,
            split,
            mix: QuestionMix::default(),
            candidates: 10,
            rivals: 0,
            candidate_texts: true,
            difficulty: Difficulty::default(),
        }
    }

    /// Checks that a file can hold the questions. Single questions can be made in any number.
    ///
    /// # Errors
    /// A [`WorldError`] with the allowed numbers.
    pub fn check_writable(&self) -> Result<(), WorldError> {
        if (1..=Self::MOST_QUESTIONS).contains(&self.questions) {
            return Ok(());
        }
        let given = self.questions;
        Err(WorldError::OutOfRange { field: "questions", given, least: 1, most: Self::MOST_QUESTIONS })
    }

    /// Checks every field but the number of questions.
    ///
    /// # Errors
    /// A [`WorldError`] with the field and the allowed values.
    pub fn check(&self) -> Result<(), WorldError> {
        let within = |field: &'static str, given: u64, least: u64, most: u64| {
            if (least..=most).contains(&given) {
                Ok(())
            } else {
                Err(WorldError::OutOfRange { field, given, least, most })
            }
        };
        within("passages", self.passages, Self::LEAST_PASSAGES, Self::MOST_PASSAGES)?;
        within("candidates", self.candidates.into(), Self::LEAST_CANDIDATES.into(), Self::MOST_CANDIDATES.into())?;
        within("rivals", self.rivals.into(), 0, Self::MOST_CANDIDATES.into())?;
        within("mix (sum of weights)", self.mix.total(), 1, u64::from(u32::MAX))?;
        let d = &self.difficulty;
        within("difficulty.name_collisions", d.name_collisions.into(), 0, 4000)?;
        within("difficulty.persons_per_surname", d.persons_per_surname.into(), 1, 10_000)?;
        within("difficulty.back_links", d.back_links.into(), 0, 1000)?;
        within("difficulty.asides", d.asides.into(), 0, 1000)?;
        within("difficulty.fame", d.fame.into(), 0, 1000)?;
        within("difficulty.initials", d.initials.into(), 0, 1000)?;
        within("difficulty.middle_names", d.middle_names.into(), 0, 1000)?;
        within("difficulty.oblique", d.oblique.into(), 0, 1000)?;
        within("difficulty.full_names", d.full_names.into(), 0, 1000)?;
        within("difficulty.dwelling", d.dwelling.into(), 0, 1000)?;
        within("difficulty.echo", d.echo.into(), 0, 1000)?;
        within("difficulty.reciprocal", d.reciprocal.into(), 0, 1000)?;
        within("difficulty.overlap", d.overlap.into(), 0, 1000)?;
        within("difficulty.median_words", d.median_words.into(), 20, 400)?;
        within("difficulty.spread", d.spread.into(), 0, 1000)
    }
}

/// Why a world could not be made.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// A setting is outside its range.
    #[error("world setting `{field}` is {given}, but must be at least {least} and at most {most}")]
    OutOfRange {
        /// The setting.
        field: &'static str,
        /// The given value.
        given: u64,
        /// The least allowed value.
        least: u64,
        /// The largest allowed value.
        most: u64,
    },
    /// A split that does not exist.
    #[error("unknown split `{given}`: allowed are train and eval")]
    UnknownSplit {
        /// The given name.
        given: String,
    },
    /// No chain of the drawn kind was found: the world is too small for its mix of kinds.
    #[error("no question {index} can be drawn from {passages} passages with this mix of kinds; more passages help")]
    NoQuestion {
        /// The question's number.
        index: u64,
        /// The world's size.
        passages: u64,
    },
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}
