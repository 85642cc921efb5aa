//! What a world is made of, and what is wrong with a request for one.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Which of the two worlds: their names are disjoint, and a third of relations, templates and paraphrases occurs in `eval` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// For training models.
    Train,
    /// For evaluating them.
    Eval,
}

impl Split {
    /// The split's name on the command line and in ids.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Eval => "eval",
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Split {
    type Err = WorldError;

    fn from_str(s: &str) -> Result<Self, WorldError> {
        match s {
            "train" => Ok(Self::Train),
            "eval" => Ok(Self::Eval),
            _ => Err(WorldError::UnknownSplit { given: s.to_owned() }),
        }
    }
}

/// How often each kind of question is asked, as weights; a kind of weight 0 is never asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
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

impl Default for Mix {
    /// HotpotQA's proportions of bridge to comparison, with a share of the longer chains that it lacks.
    fn default() -> Self {
        Self { two_hop: 64, three_hop: 6, four_hop: 3, comparison: 23, bridge_comparison: 4 }
    }
}

impl Mix {
    pub(crate) fn total(&self) -> u64 {
        [self.two_hop, self.three_hop, self.four_hop, self.comparison, self.bridge_comparison]
            .iter()
            .map(|&w| u64::from(w))
            .sum()
    }
}

/// What makes questions hard for a retriever. All shares are in thousandths. The defaults are calibrated so that the recall of
/// BM25 and of TF-IDF, the lengths and the word overlap resemble HotpotQA's (`tests/calibration.rs` holds them to it).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difficulty {
    /// Entities that share their whole name with another of their pool; at most 4000 (four later holders for each name).
    pub name_collisions: u32,
    /// Persons to a surname, on average.
    pub persons_per_surname: u32,
    /// Passages that mention an entity that links to them (a director's page names a film), for each such link tried.
    pub back_links: u32,
    /// Sentences of no consequence that mention an unrelated entity, so that a name is found in many passages.
    pub asides: u32,
    /// Those mentions, and the entities that questions begin with, that are of the well-known few of their class: what is asked
    /// about is what is spoken of.
    pub fame: u32,
    /// Mentions of a person, beside those that state a fact, that have an initial for the given names.
    pub initials: u32,
    /// Leads about a person that put a middle name between the names of the title.
    pub middle_names: u32,
    /// Sentences of a passage that have its entity's whole name, and not a surname, a noun or a pronoun.
    pub full_names: u32,
    /// Asides that go on about whom the passage's last aside was about.
    pub dwelling: u32,
    /// Asides that mention an entity only through a relation of its (`the director of Pale Harbor`), as questions do.
    pub oblique: u32,
    /// Relations that a question words as the passage does that states the fact.
    pub echo: u32,
    /// Chains that are drawn so that the second passage also mentions the first.
    pub reciprocal: u32,
    /// Bridges that the question describes with words of the bridge's own passage.
    pub overlap: u32,
    /// Median length of a passage, in words.
    pub median_words: u32,
    /// Spread of the logarithm of that length (its standard deviation).
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
    /// How many questions.
    pub questions: u64,
    /// How many passages.
    pub passages: u64,
    /// The seed; worlds of different seeds have different ids.
    pub seed: u64,
    /// Which split.
    pub split: Split,
    /// How often each kind of question is asked.
    pub mix: Mix,
    /// Passages given with each question, gold ones among them.
    pub candidates: u32,
    /// Whether those passages are written out with each question, or only named, to be looked up in the corpus: ten times
    /// smaller.
    pub candidate_texts: bool,
    /// What makes it hard.
    pub difficulty: Difficulty,
}

impl WorldSettings {
    /// The fewest passages a world can have: below that, some class of entities would be too small to draw from.
    pub const LEAST_PASSAGES: u64 = 400;
    /// The most: beyond that, titles run out.
    pub const MOST_PASSAGES: u64 = 3_000_000;
    /// The fewest candidates: a bridge comparison has four gold passages.
    pub const LEAST_CANDIDATES: u32 = 4;
    /// The most candidates.
    pub const MOST_CANDIDATES: u32 = 50;

    /// Settings with the defaults for everything but size, seed and split.
    pub fn new(questions: u64, passages: u64, seed: u64, split: Split) -> Self {
        Self {
            questions,
            passages,
            seed,
            split,
            mix: Mix::default(),
            candidates: 10,
            candidate_texts: true,
            difficulty: Difficulty::default(),
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// A [`WorldError`] that names the field and says what is allowed.
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
    /// A setting is outside what is allowed.
    #[error("world setting `{field}` is {given}, but must be at least {least} and at most {most}")]
    OutOfRange {
        /// The setting.
        field: &'static str,
        /// Its value.
        given: u64,
        /// The least allowed.
        least: u64,
        /// The most allowed.
        most: u64,
    },
    /// A split that does not exist.
    #[error("unknown split `{given}`: allowed are train and eval")]
    UnknownSplit {
        /// What was asked for.
        given: String,
    },
    /// No chain of the wanted kind was found: the world is too small for its mix of kinds.
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
