//! `facts`: whether to give the measures of supporting facts, evidences and their product with the answer, as far as
//! the profile's script has them.

use super::MeasureKey;
use crate::answer::Profile;
use crate::facts::SetScore;
use crate::registry::{Column, FactScores};

const FIELDS: [&str; 4] = ["em", "f1", "precision", "recall"];

type FactPart = fn(&FactScores) -> Option<SetScore>;

pub(crate) struct Facts;

impl MeasureKey for Facts {
    type Value = bool;

    fn unset() -> bool {
        true
    }

    fn build_columns(_: &bool, profile: Profile) -> Vec<Column> {
        let sentences: (FactPart, &str) = (|facts| facts.sentences, "sp");
        let triples: (FactPart, &str) = (|facts| facts.evidences, "evidence");
        let joint: (FactPart, &str) = (|facts| facts.joint, "joint");
        let parts = match profile {
            Profile::HotpotQa => vec![sentences, joint],
            Profile::TwoWiki => vec![sentences, triples, joint],
            Profile::Musique
            | Profile::Squad
            | Profile::Dpr
            | Profile::TriviaQa
            | Profile::Drop
            | Profile::StrategyQa
            | Profile::EfficientRag => vec![],
        };
        let columns = parts.into_iter().flat_map(|(part, prefix)| {
            FIELDS.iter().enumerate().map(move |(field, name)| {
                Column::new(format!("{prefix}_{name}"), profile.version(), move |input| {
                    Some(part(&input.facts)?.fields()[field])
                })
            })
        });
        columns.collect()
    }
}
