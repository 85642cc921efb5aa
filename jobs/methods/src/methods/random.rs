//! `random`: `k` passages drawn without replacement. A control: the lower bound of a ranking without knowledge.
//!
//! ```text
//! state | next | ends with
//! ------+------+-----------------------------------------------------------------------
//! Start | end  | ranked: k draws from the corpus or the candidates, in order of drawing
//! ```
//!
//! There is no random source: the draws are a function of (`seed`, the question's id, `draw`), so a replay, another
//! number of workers or another machine gives the same. `draw` numbers replicates.

use crate::machine::{ContextMode, Machine, MachineStep, Method, MethodError, MethodSetting, Question, ServiceUse};
use crate::outcome::Outcome;
use crate::ranking;
use crate::registry::{ConfigurableMethod, MethodInfo, ParameterInfo, at_least_one};
use crate::request::PassageId;
use crate::response::Response;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One configuration.
pub(crate) struct Random {
    parameters: RandomParameters,
    passages: u32,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RandomParameters {
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    draw: u64,
    #[serde(default = "default_k")]
    k: u32,
    #[serde(default = "default_from")]
    from: PassageSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PassageSource {
    Corpus,
    Candidates,
}

fn default_k() -> u32 {
    10
}

fn default_from() -> PassageSource {
    PassageSource::Corpus
}

impl ConfigurableMethod for Random {
    const INFO: MethodInfo = MethodInfo {
        kind: "random",
        description: "Passages drawn at random, as a lower bound",
        paper: "control",
        parameters: &[
            ParameterInfo {
                name: "seed",
                values: "integer, at least 0",
                default: Some("0"),
                documentation: "Another seed draws other passages.",
            },
            ParameterInfo {
                name: "draw",
                values: "integer, at least 0",
                default: Some("0"),
                documentation: "Numbers replicates under one seed.",
            },
            ParameterInfo {
                name: "k",
                values: "integer, at least 1",
                default: Some("10"),
                documentation: "Passages drawn, or all if there are fewer; by default as many as the job's measures \
                                look at.",
            },
            ParameterInfo {
                name: "from",
                values: "\"corpus\" or \"candidates\"",
                default: Some("\"corpus\""),
                documentation: "What is drawn from: all passages, or those that the dataset gives with the question.",
            },
        ],
    };

    type Parameters = RandomParameters;

    fn ranking_length(largest_cut_off: u32) -> Option<(&'static str, u32)> {
        Some(("k", largest_cut_off))
    }

    fn new(parameters: RandomParameters, setting: &MethodSetting) -> Result<Self, MethodError> {
        at_least_one(Self::INFO.kind, "k", parameters.k)?;
        Ok(Self { parameters, passages: setting.passages })
    }
}

impl Method for Random {
    fn kind(&self) -> &'static str {
        Self::INFO.kind
    }

    fn version(&self) -> u32 {
        1
    }

    fn context_mode(&self) -> ContextMode {
        match self.parameters.from {
            PassageSource::Corpus => ContextMode::Open,
            PassageSource::Candidates => ContextMode::Given,
        }
    }

    fn gives_answers(&self) -> bool {
        false
    }

    fn most_ranked(&self) -> Option<u32> {
        Some(self.parameters.k)
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        Vec::new()
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        let mut numbers = RandomNumbers::new(self.parameters.seed, &question.id, self.parameters.draw);
        let k = self.parameters.k;
        let passages: Vec<PassageId> = match self.parameters.from {
            PassageSource::Corpus => numbers.distinct(self.passages, k).into_iter().map(PassageId).collect(),
            PassageSource::Candidates => {
                let candidates = ranking::as_set(question.candidates.iter().copied());
                let number = u32::try_from(candidates.len()).unwrap_or(u32::MAX);
                numbers.distinct(number, k).into_iter().map(|index| candidates[index as usize]).collect()
            }
        };
        Box::new(RandomMachine(Outcome { ranked: ranking::by_position(passages), ..Outcome::default() }))
    }
}

struct RandomMachine(Outcome);

impl Machine for RandomMachine {
    fn step(&mut self, _: Vec<Response>) -> MachineStep {
        MachineStep::Done(std::mem::take(&mut self.0))
    }
}

/// A sequence of 64-bit numbers: SplitMix64 (Steele, Lea and Flood, 2014), started from an FNV-1a hash.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn new(seed: u64, question: &str, draw: u64) -> Self {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        let bytes = seed.to_le_bytes().into_iter().chain(draw.to_le_bytes()).chain(question.bytes());
        Self(bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; its bias, at most `bound` / 2^64, is far below the precision of any figure.
    fn below(&mut self, bound: u32) -> u32 {
        // The product is below bound * 2^64, so its upper half is below `bound`.
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }

    /// The first `k` of a shuffle of 0..n: Fisher and Yates, with the moved places only.
    fn distinct(&mut self, n: u32, k: u32) -> Vec<u32> {
        let mut moved = BTreeMap::new();
        let draw = |place: u32| {
            let chosen = place + self.below(n - place);
            let value = moved.get(&chosen).copied().unwrap_or(chosen);
            let displaced = moved.get(&place).copied().unwrap_or(place);
            moved.insert(chosen, displaced);
            value
        };
        (0..k.min(n)).map(draw).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_distinct_and_in_range() {
        for n in [0, 1, 2, 7, 1000] {
            let mut drawn = RandomNumbers::new(1, "q", 0).distinct(n, n);
            drawn.sort_unstable();
            assert_eq!(drawn, (0..n).collect::<Vec<_>>());
        }
        assert_eq!(RandomNumbers::new(1, "q", 0).distinct(u32::MAX, 3).len(), 3);
    }

    #[test]
    fn seed_question_and_draw_all_matter() {
        let first = |seed, question: &str, draw| RandomNumbers::new(seed, question, draw).distinct(1_000_000, 5);
        let base = first(0, "q1", 0);
        assert_eq!(base, first(0, "q1", 0));
        assert_ne!(base, first(1, "q1", 0));
        assert_ne!(base, first(0, "q2", 0));
        assert_ne!(base, first(0, "q1", 1));
    }

    #[test]
    fn every_passage_is_as_likely() {
        let mut counts = [0u32; 10];
        for question in 0..10_000u32 {
            for passage in RandomNumbers::new(0, &question.to_string(), 0).distinct(10, 2) {
                counts[passage as usize] += 1;
            }
        }
        // Expected 2,000 each; five standard deviations of a binomial with p = .2 are 200.
        assert!(counts.iter().all(|count| count.abs_diff(2_000) < 200), "{counts:?}");
    }
}
